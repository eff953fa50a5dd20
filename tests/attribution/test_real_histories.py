"""Lines of real code lead to the messages of the real sessions that wrote them.

Claude Code writes the complete file before each edit into its transcript, with the lines that
persons wrote. So the files of a session can be rebuilt: a person commits each as it was before its
first edit, and then as it was after the last one. Each line that the edits added must be found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from harken.attribution.attribution import Attribution
from harken.attribution.git.repository import GitRepository
from harken.attribution.records.edit_index import EditIndex
from harken.attribution.records.edit_ingest import update_edits
from harken.attribution.text.line_text import is_informative
from harken.cli.main import run_cli
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore
from tests.acceptance.shared_data import DATA, needed
from tests.cli.git_kit import Repository

SESSIONS = DATA / "transcripts" / "claude-code"
REPOSITORIES = ("entireio+cli", "entireio+entire-graph", "iansherr+claude-code-log")
BEFORE, AFTER = "2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z"

pytestmark = [pytest.mark.full, needed]


@dataclass
class RebuiltFile:
    """A file before the first and after the last edit of a session."""

    before: str
    after: str
    edits: int = 0
    is_broken: bool = False
    """Whether something else changed the file between two edits."""


@dataclass
class Counts:
    """Lines with text, by how they were answered."""

    files: int = 0
    agent_lines: int = 0
    right: int = 0
    uncertain: int = 0
    person_lines: int = 0
    claimed: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def iter_results(session: Path) -> Iterator[dict[str, Any]]:
    """Yield the results of edits of a transcript, in order, each once."""
    seen: set[str] = set()
    for line in session.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        result = record.get("toolUseResult") if isinstance(record, dict) else None
        if isinstance(result, dict) and "filePath" in result and record.get("uuid") not in seen:
            seen.add(record.get("uuid"))
            yield result


def rebuild_files(session: Path) -> dict[str, RebuiltFile]:
    """Return the files of a session whose edits follow each other without a gap."""
    files: dict[str, RebuiltFile] = {}
    if b'"type":"tool_use"' not in session.read_bytes().replace(b'": "', b'":"'):
        return files  # A sample of results, without the calls.
    for result in iter_results(session):
        original = result.get("originalFile") or ""
        if isinstance(result.get("content"), str):
            after = result["content"]
        elif isinstance(old := result.get("oldString"), str) and old:
            count = -1 if result.get("replaceAll") else 1
            after = original.replace(old, result.get("newString") or "", count)
        else:
            continue
        file = files.setdefault(result["filePath"], RebuiltFile(original, original))
        file.is_broken = file.is_broken or file.after != original
        file.after, file.edits = after, file.edits + 1
    return {path: file for path, file in files.items() if not file.is_broken and file.after}


def name_of(path: str) -> str:
    """Return the path of a file in the rebuilt repository: its last folders."""
    return "/".join(path.strip("/").split("/")[-3:])


def kept_lines(before: list[str], after: list[str]) -> set[int]:
    """Return the indexes of lines that are those of the file before the edits."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {block.b + i for block in blocks for i in range(block.size)}


def count_file(counts: Counts, attribution: Attribution, name: str, file: RebuiltFile) -> None:
    """Ask for each line of a file."""
    after = file.after.removesuffix("\n").split("\n")
    kept = kept_lines(file.before.split("\n"), after)
    present = {*file.before.split("\n")}
    counts.files += 1
    for index, origin in enumerate(attribution.origins(name)):
        if not after[index].strip():
            continue
        if index not in kept and after[index] not in present:
            counts.agent_lines += 1
            counts.right += origin.is_agent
            counts.uncertain += not origin.is_agent and origin.confidence == "uncertain"
            if not origin.is_agent and origin.confidence != "uncertain":
                counts.missed.append(f"{name}:{index + 1}: {after[index]!r}")
        elif index in kept and is_informative(after[index]):
            # A brace beside an added one may be either.
            counts.person_lines += 1
            if origin.is_agent:
                counts.claimed.append(f"{name}:{index + 1}: {after[index]!r}")


@pytest.mark.parametrize("source", REPOSITORIES)
def test_lines_of_real_sessions_are_found(
    source: str, tmp_path: Path, table: Callable[..., None]
) -> None:
    counts = Counts()
    for number, session in enumerate(sorted((SESSIONS / source).rglob("*.jsonl"))):
        files = rebuild_files(session)
        by_name = {name_of(path): file for path, file in files.items()}
        if not by_name:
            continue
        folder = tmp_path / str(number)
        repository = Repository.create(folder / "repository")
        before = {name: file.before for name, file in by_name.items()}
        after = {name: file.after for name, file in by_name.items()}
        for texts, time in ((before, BEFORE), (after, AFTER)):
            for name, text in texts.items():
                if text:
                    repository.write(name, text)
            repository.git("add", "-A", time=time)
            repository.git("commit", "-q", "--allow-empty", "-m", "Work", time=time)
        home = folder / "home"
        command = ["import", str(session), "--home", str(home), "--no-index"]
        assert run_cli(command, {}) == 0, session
        with (
            closing(SqliteStore(home / "store.db")) as store,
            closing(EditIndex(home / "edits.db")) as index,
            closing(SessionIndex(None)) as facts,
            closing(GitRepository(repository.folder)) as git,
        ):
            update_edits(index, store)
            attribution = Attribution(git, index, facts, store)
            for name, file in sorted(by_name.items()):
                count_file(counts, attribution, name, file)
    table(
        "attribution: files of real sessions",
        source,
        files=counts.files,
        agent_lines=counts.agent_lines,
        found=counts.right,
        uncertain=counts.uncertain,
        person_lines=counts.person_lines,
        claimed=len(counts.claimed),
    )
    assert counts.claimed == []
    assert counts.right >= 0.95 * counts.agent_lines, counts.missed
