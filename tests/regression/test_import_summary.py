"""An import ends with a summary: sessions and new commits per runtime, and what was not read.

What happened: `harken import DIR` printed a line for each of 179 files of unknown kinds and one
total. Why: each file was told by itself. Now: one line for each runtime, one for the unknown files,
which --verbose lists; the bar counts files and shows megabytes.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harken.capture.files.report import ImportProgress
from harken.cli.commands.import_.summary import progress_text
from harken.terminal.progress import progress
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import Transcript, encode_lines, text_block


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two sessions of one runtime, one of another, and other files."""
    for number in (1, 2):
        made = Transcript(f"5e55101{number}-0000-4000-8000-000000000001")
        made.user(f"Question {number}")
        made.answer(text_block("Answer"))
        path = tmp_path / "all" / f"{made.session}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.data)
    content = [{"type": "input_text", "text": "Tea?"}]
    item = {"type": "message", "role": "user", "content": content}
    head = {"id": "019f17a5-0000-7000-8000-000000000001", "cwd": "/w"}
    time = "2026-01-31T12:00:00Z"
    (tmp_path / "all" / "rollout-1.jsonl").write_bytes(
        encode_lines(
            [
                {"timestamp": time, "type": "session_meta", "payload": head},
                {"timestamp": time, "type": "response_item", "payload": item},
            ]
        )
    )
    for number in range(30):
        (tmp_path / "all" / f"note-{number}.txt").write_text("Buy tea.")
    return tmp_path / "all"


def test_the_summary_counts_by_runtime_and_lists_no_unknown_file(cli: Cli, folder: Path) -> None:
    shown = cli.ok("import", folder).out
    assert "Claude Code  2 sessions, 2 new commits in 2 sessions\n" in shown
    assert "Codex         1 session, 1 new commit in 1 session\n" in shown
    assert "30 files of unknown kinds (--verbose lists them)\n" in shown
    assert "note-" not in shown
    again = cli.ok("import", folder, "--verbose").out
    assert "Claude Code  2 sessions, 0 new commits\n" in again
    assert again.count("unknown format") == 30


def test_the_bar_counts_files_and_shows_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    times = iter([0.0, 2.0])
    with progress("Importing", stream=stream, clock=lambda: next(times, 9.0)) as show:
        done = ImportProgress(120, 390, 12_900_000, 70_000_000)
        show(done.size_bytes, done.of_size_bytes, progress_text(done))
    assert "120/390 files, 12.3/66.8 MB" in stream.getvalue()
