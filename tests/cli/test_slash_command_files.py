"""Commands of one's own: Markdown files whose text is said to the agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.agents.templates.prompt_file import PromptFiles, fill_in_arguments
from harken.chat.commands.base import COMMANDS, run_command
from harken.chat.commands.prompts import prompt_file_commands, prompt_file_notes
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.config.trust import Trust
from harken.core.ids import USER
from tests.agent_kit import check_log, open_stage, script_model
from tests.cli.chat_kit import Talking
from tests.unit.agents.hook_kit import watch

REVIEW = """\
---
description: Looks at a change.
argument-hint: [file] [why]
---
Review $1, since $2.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "review.md").write_text(REVIEW)
    return folder


@pytest.fixture
def talk(tmp_path: Path, folder: Path) -> Talking:
    talk = Talking(open_stage(tmp_path, script_model(main=[])))
    talk.user_commands = prompt_file_commands(PromptFiles([folder]))
    return talk


@pytest.mark.req("S4-44")
def test_a_template_is_said_to_the_agent_with_its_arguments(talk: Talking) -> None:
    assert talk('/review tea.py "it is cold"') == ""
    assert talk.sent == ["Review tea.py, since it is cold."]
    assert talk("/rev a b") == ""
    assert talk.sent[1:] == ["Review a, since b."]


@pytest.mark.req("S4-44")
def test_a_template_may_be_said_by_the_system_past_the_hooks(tmp_path: Path, folder: Path) -> None:
    (folder / "terse.md").write_text("---\nrole: system\n---\nAnswer in $1 words.\n")
    (folder / "odd.md").write_text("---\nrole: assistant\n---\nHi.\n")
    one = open_stage(tmp_path, script_model(main=["Yes."]))
    hook = watch(one)
    talk = Talking(one)
    talk.user_commands = prompt_file_commands(PromptFiles([folder]))
    assert talk("/terse three") == "The system says so from now on."
    assert talk.sent == []
    assert hook.asked == []
    [typed] = one.select_lines(agent_id=USER, role="assistant")
    assert typed["content"] == "/terse three"
    [told] = one.select_lines(role="system", content="Answer in three words.")
    assert (told["agent_id"], told["cause"]) == ("agent_001", typed["message_id"])
    assert one.ask("Is it tea?") == "Yes."
    [request] = one.runtime.model.requests  # type: ignore[union-attr]
    assert ("system", "Answer in three words.") in [(m.role, m.content) for m in request.messages]
    assert "role must be user or system" in talk("/odd")
    check_log(one.log)


def test_one_in_a_folder_is_called_by_that_too(tmp_path: Path, folder: Path) -> None:
    (folder / "git").mkdir()
    (folder / "git/look.md").write_text("Look at $ARGUMENTS[0]: !`git status`")
    talk = Talking(open_stage(tmp_path, script_model(main=[])))
    talk.user_commands = prompt_file_commands(PromptFiles([folder]))
    assert talk("/git:look here now") == ""
    [said] = talk.sent
    assert said.startswith(
        "Look at here: !`git status`\n\n[what stands in it as !`COMMAND` was not"
    )


def test_it_is_listed_with_what_it_is_for(talk: Talking) -> None:
    assert "Your own\n  /review  Looks at a change." in talk("/help")
    assert talk("/help review") == "/review [file] [why]\n  Looks at a change."


@pytest.mark.req("S4-06")
def test_an_edit_counts_at_once(talk: Talking, folder: Path) -> None:
    own = PromptFiles([folder])
    assert prompt_file_commands(own)["review"].meaning == "Looks at a change."
    (folder / "review.md").write_text("---\ndescription: Looks again, longer.\n---\nAgain.")
    assert prompt_file_commands(own)["review"].meaning == "Looks again, longer."
    talk("/review")
    assert talk.sent == ["Again."]


def test_a_built_in_command_wins_and_that_is_said(folder: Path) -> None:
    (folder / "help.md").write_text("Help!")
    own = PromptFiles([folder])
    assert set(prompt_file_commands(own)) == {"review"}
    assert prompt_file_notes(own) == ["1 command of your own ignored: /help is built in"]


def test_a_built_in_command_is_never_out_of_reach(folder: Path, talk: Talking) -> None:
    for name in ("quiet", "qu", "c"):
        (folder / f"{name}.md").write_text("Be quiet.")
    own = PromptFiles([folder])
    assert prompt_file_notes(own) == ["/qu is a command of your own, not an abbreviation of /quit"]
    talk.user_commands = prompt_file_commands(own)
    assert not run_command(talk, "/qui")
    assert talk.said == ["/qui is ambiguous: /quit or /quiet (your own); type more letters"]
    assert talk("/help qui") == talk.said[0]
    assert talk("/qu") == ""
    assert talk.sent == ["Be quiet."]
    assert not talk.ended
    talk("/quit")
    assert talk.ended


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("no-text.md", b"\xff\xfe\xff", "is not UTF-8"),
        ("open.md", b"---\ndescription: x\n", "its front matter has no end"),
        ("empty.md", b"---\ndescription: x\n---\n", "has no text"),
        ("long.md", b"x" * 300_000, "is longer than"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, folder: Path, name: str, data: bytes, why: str
) -> None:
    (folder / name).write_bytes(data)
    talk = Talking(open_stage(tmp_path, script_model(main=[])))
    talk.user_commands = prompt_file_commands(PromptFiles([folder]))
    assert why in talk(f"/{name.removesuffix('.md')}")
    assert talk.sent == []
    assert set(talk.user_commands) == {"review", name.removesuffix(".md")}


def test_what_leads_out_of_the_folder_or_never_ends_is_not_read(
    tmp_path: Path, folder: Path, talk: Talking
) -> None:
    (tmp_path / "secret").write_text("a secret")
    (folder / "link.md").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe.md")
    talk.user_commands = prompt_file_commands(PromptFiles([folder]))
    assert "is a link out of" in talk("/link")
    assert "is not a file" in talk("/pipe")
    assert talk.sent == []


def test_those_of_a_project_count_where_it_is_trusted_and_come_first(tmp_path: Path) -> None:
    home, project = Home(str(tmp_path / "home")), tmp_path / "project"
    home.create_folders()
    for place, names in (
        (home.folder / "commands", ("review", "mine")),
        (project / ".harken" / "commands", ("review",)),
        (project / ".claude" / "commands", ("review", "theirs")),
    ):
        place.mkdir(parents=True)
        for name in names:
            (place / f"{name}.md").write_text(f"from {place.parent.name}")
    mine = prompt_file_commands(load_settings(home, folder=project, environ={}).prompt_files)
    assert set(mine) == {"mine", "review"}
    Trust(home).trust(project)
    talk = Talking(open_stage(tmp_path, script_model(main=[])))
    talk.user_commands = prompt_file_commands(
        load_settings(home, folder=project, environ={}).prompt_files
    )
    for name in ("review", "theirs", "mine"):
        talk(f"/{name}")
    assert talk.sent == ["from .harken", "from .claude", "from home"]


@given(st.text(max_size=30), st.text(max_size=30))
def test_what_is_typed_is_never_taken_for_a_place(body: str, typed: str) -> None:
    assert fill_in_arguments(f"{body.replace('$', '')}$ARGUMENTS", typed).endswith(typed)
    assert fill_in_arguments("$ARGUMENTS", "$1 $ARGUMENTS") == "$1 $ARGUMENTS"


def test_no_command_of_ones_own_can_be_built_in() -> None:
    assert not any(one.group == "own" for one in COMMANDS.values())
