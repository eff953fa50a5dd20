"""All transcripts of Claude Code that are at hand, and all that the real client sent of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import iter_files
from harken.context.commit_content import read_entries
from harken.context.materialize import select_commits
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.claude_code.reader import FORMAT
from harken.index.catalogue import Catalogue
from harken.store.imported_files import read_imported_files
from harken.store.memory import MemoryStore
from tests.acceptance.shared_data import DATA, needed, transcripts
from tests.unit.formats.transcript_kit import read_transcript

FILES = transcripts("claude-code")
pytestmark = needed


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(scope="module")
def imported(store: MemoryStore) -> dict[Path, ImportResult]:
    files = list(iter_files(DATA / "transcripts" / "claude-code"))
    results = list(Importer(store, Catalogue(None)).run(files))
    assert len(results) == len(files) == len(FILES)
    return {Path(result.report.source): result for result in results}


def test_every_file_is_read_and_every_line_is_accounted_for() -> None:
    """What is read is in a step, counted as kept, or reported as bad: `read` checks the sum."""
    lines = bad = 0
    others = []
    for path in FILES:
        try:
            result = read_transcript(path.read_bytes())
        except FormatError:
            others.append(path)
            continue
        lines += result.reading.lines
        bad += len(result.reading.bad)
    print(f"claude-code: {len(FILES)} files, {lines} lines, {bad} bad, {len(others)} others")
    assert bad == 0
    assert all(path.suffix == ".json" or not path.stat().st_size for path in others)


def test_the_bytes_of_every_file_are_kept(
    store: MemoryStore, imported: dict[Path, ImportResult]
) -> None:
    retained = {file.raw for file in read_imported_files(store).values()}
    for path, result in imported.items():
        if result.report.raw is not None:
            assert store.raw(ArtifactRef(result.report.raw)) == path.read_bytes()
            assert ArtifactRef(result.report.raw) in retained


def test_commits_contain_the_messages_of_the_file(
    store: MemoryStore, imported: dict[Path, ImportResult]
) -> None:
    """The conversation at each tip, from the commits alone, is the one that is read of the file."""
    assert FORMAT.reads is not None
    compared = 0
    for path, result in imported.items():
        if result.report.tips:
            main = CommitId(result.report.tips[0].ctx)
            entries = read_entries(store, select_commits(store, main))
            assert _plain(entries) == _plain(FORMAT.reads(path.read_bytes())), path
            compared += 1
    assert compared > 100


def _plain(entries: list[ConversationEntry]) -> list[object]:
    """Without ids of records: a copy that was made to resume has others."""
    return [(entry.message, (entry.source or {}).get("kind")) for entry in entries]


def test_subagents_begin_where_they_were_spawned(
    store: MemoryStore, imported: dict[Path, ImportResult]
) -> None:
    spawned = [
        result
        for path, result in imported.items()
        if path.parent.name == "subagents" and result.report.tips
    ]
    parents = [
        select_commits(store, CommitId(result.report.tips[0].ctx))[0].commit.parent
        for result in spawned
    ]
    assert len(parents) > 5
    assert sum(parent is not None for parent in parents) >= len(parents) - 2
