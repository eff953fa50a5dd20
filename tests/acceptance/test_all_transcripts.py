"""Of all transcripts at hand nothing is lost: no line, no byte, and nothing of the conversation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken.cli.main import run_cli
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.formats.runtimes.base import ReadReport, SessionFile
from harken.formats.runtimes.registry import list_runtime_formats
from harken.store.sqlite.store import SqliteStore
from tests.acceptance import research
from tests.acceptance.plainly import READERS as AGENT_READERS
from tests.acceptance.plainly import items_of
from tests.acceptance.shared_data import DATA, needed

TRANSCRIPTS = DATA / "transcripts"
FOLDERS = sorted(path.name for path in TRANSCRIPTS.glob("*"))
TITLE = "imported from all transcripts"
NOBODY = "(nobody reads)"
READERS = {**AGENT_READERS, **research.READERS}
Report: TypeAlias = dict[str, Any]

pytestmark = needed


@dataclass
class ImportCount:
    """What became of the files of one format."""

    counts: Counter[str] = field(default_factory=Counter)
    commits: set[CommitId] = field(default_factory=set)


@pytest.mark.parametrize("folder", FOLDERS)
def test_import_keeps_all_lines_of_other_runtimes(
    folder: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    table: Callable[..., None],
) -> None:
    home = tmp_path / "home"
    reports = imported(TRANSCRIPTS / folder, home, capsys)
    assert len(reports) == sum(path.is_file() for path in (TRANSCRIPTS / folder).rglob("*"))
    counts: dict[str, ImportCount] = {}
    store = SqliteStore(home / "store.db")
    for report in reports:
        count = counts.setdefault(report["format"] or NOBODY, ImportCount())
        data = Path(report["source"]).read_bytes()
        count.counts += Counter(files=1, bytes=len(data))
        if report["raw"] is not None:
            assert cat(report["raw"], home, tmp_path) == data, report["source"]
            count.counts["cat_exact"] += 1
        if report["format"] is not None:
            count.counts += lines_of(report, data)
            for tip in report["tips"]:
                if tip["ctx"] not in count.commits:
                    chain = store.chain(CommitId(tip["ctx"]))
                    count.commits.update(commit.id for commit in chain)
            rebuilt = rebuilt_of(report, store)
            assert rebuilt == READERS[report["format"]](data), report["source"]
            count.counts["rebuilt_equal"] += 1
    store.close()
    for format, format_count in counts.items():
        numbers = {name: format_count.counts[name] for name in COLUMNS} | {
            "commits": len(format_count.commits)
        }
        table(TITLE, format, **numbers)


COLUMNS = (
    "files",
    "bytes",
    "lines",
    "used",
    "kept",
    "bad",
    "commits",
    "cat_exact",
    "rebuilt_equal",
)


def imported(folder: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> list[Report]:
    assert run_cli(["import", str(folder), "--json", "--home", str(home)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def cat(raw: str, home: Path, folder: Path) -> bytes:
    """Return what `harken cat` writes."""
    out = folder / "raw"
    assert run_cli(["cat", raw, "-o", str(out), "--home", str(home)]) == 0
    return out.read_bytes()


def lines_of(report: Report, data: bytes) -> Counter[str]:
    """Return how many lines became what; what was told of them is all of them."""
    (native,) = [format_ for format_ in list_runtime_formats() if format_.name == report["format"]]
    reading = ReadReport()
    assert (
        list(native.steps(SessionFile(report["source"], lambda: [data]), reading))
        or not report["tips"]
    )
    kept_count = sum(reading.uninterpreted.values())
    assert reading.used_lines + kept_count + len(reading.bad) == reading.lines
    assert reading.lines == report["lines"] == research.count_records(report["format"], data)
    assert (dict(reading.uninterpreted), len(reading.bad)) == (
        report.get("kept", {}),
        report["bad_lines"],
    )
    assert [line.reason for line in reading.bad] == [bad["reason"] for bad in report.get("bad", [])]
    return Counter(
        lines=reading.lines, used=reading.used_lines, kept=kept_count, bad=len(reading.bad)
    )


def rebuilt_of(report: Report, store: SqliteStore) -> list[Any]:
    """Return the main conversation from its commits alone."""
    if not report["tips"]:
        return []
    return items_of(materialize(store, CommitId(report["tips"][0]["ctx"])).messages)
