"""Prompts are counted as a person counts them: in a transcript made by hand, among all that is none.

`prompts.jsonl` has each kind of text that Claude Code writes in a user's name. By hand:

- six things a person said: `Is the cafe open?`, `No, ask somebody.`, `What about cake?` (while the
  model was at work), `And <command-name>, what does that mean?`, `Look at this menu.` (with an
  image), `Thanks, that is all.`; and to Ann, a subagent, the model said `You are Ann. ...`;
- twelve texts of the client's, of which it marks three;
- five responses of a model, in six lines, and an error that the client wrote itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.context.commit_content import read_entries
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli

FIXTURE = Path(__file__).with_name("prompts.jsonl")
SAID = [
    "Is the cafe open?",
    "No, ask somebody.",
    "What about cake?",
    "<system-reminder>It is late.</system-reminder>\n\nAnd <command-name>, what does that mean?",
    "Look at this menu.",
    "Thanks, that is all.",
]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "home", capsys)


@pytest.fixture
def entries(cli: Cli) -> dict[str, list[ConversationEntry]]:
    """Return what each agent's commits hold, all of them, oldest first."""
    ran = cli.ok("import", FIXTURE, "--json", "--home", cli.home)
    store = SqliteStore(cli.home / "store.db")
    entries_by_name: dict[str, list[ConversationEntry]] = {}
    commit_ids: set[CommitId] = set()
    for tip in json.loads(ran.out)["tips"]:
        new = [
            commit
            for commit in store.chain(CommitId(tip["ctx"]))[::-1]
            if commit.id not in commit_ids
        ]
        commit_ids.update(commit.id for commit in new)
        entries_by_name.setdefault(tip["agent"], []).extend(read_entries(store, new))
    store.close()
    return entries_by_name


def kinds(entries: list[ConversationEntry], kind: str) -> list[ConversationEntry]:
    return [entry for entry in entries if (entry.source or {}).get("kind") == kind]


@pytest.mark.req("S2-71", "S2-72", "S2-73")
def test_prompts_are_exactly_the_user_texts(
    entries: dict[str, list[ConversationEntry]],
) -> None:
    prompts = kinds(entries["main"], "prompt")
    assert [text_of(entry.message.content) for entry in prompts] == SAID
    assert len(kinds(entries["main"], "system")) == 12
    assert len(kinds(entries["main"], "tool_result")) == 2
    assert len(kinds(entries["ann"], "prompt")) == 1


def test_response_usage_is_that_of_its_last_line(
    entries: dict[str, list[ConversationEntry]],
) -> None:
    answers = [e for agent in entries.values() for e in kinds(agent, "response")]
    ids = [(entry.source or {})["id"] for entry in answers]
    assert sorted(ids) == ["r1", "r2", "r3", "r4", "r6"]
    token_counts = [(entry.source or {})["usage"]["output_tokens"] for entry in answers]
    assert sum(token_counts) == 20 + 5 + 3 + 8 + 6
    assert len(kinds(entries["main"], "error")) == 1


def test_other_lines_are_counted(cli: Cli) -> None:
    report = json.loads(cli.ok("import", FIXTURE, "--json", "--home", cli.home).out)
    assert (report["lines"], report["bad_lines"], report["title"]) == (33, 0, "Cake")
    assert report["kept"] == {
        "file-history-snapshot": 1,
        "progress": 1,
        "queue-operation": 1,
        "summary": 1,
    }
