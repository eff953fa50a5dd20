"""Research data in the commands: scores and labels in statistics and tables, views, search, bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.kit import Cli
from tests.unit.formats.runtimes.research.samples import (
    SAMPLES,
    encode,
    hand_crafted,
    inspect_archive,
    inspect_sample,
)


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Cli:
    """Return a command line with a home that has a file of each format."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, data in SAMPLES.values():
        (folder / name).write_bytes(data)
    (folder / "2.json").write_bytes(encode(hand_crafted()))
    samples = {f"{number}_epoch_1": inspect_sample(number) for number in (7, 8)}
    (folder / "more.eval").write_bytes(inspect_archive(samples))
    cli.ok("import", str(folder))
    return cli


def test_every_session_is_shown_and_searched(imported: Cli) -> None:
    names = [row["session"] for row in imported.ok("stats", "--json").json["sessions"]]
    assert len(names) == len(SAMPLES) + 3
    for name in names:
        for view in ((), ("timeline",), ("tree",)):
            assert imported.ok("view", name, *view).out
        assert imported.ok("stats", name).out
        assert imported.ok("export", name, "--format", "messages-v1").out
    assert "Green." in imported.ok("search", "Green").out
    assert imported.ok("search", "Jill", "--json").out.count("Searcher") == 0


def test_statistics_have_scores_and_labels(imported: Cli) -> None:
    stats = imported.ok("stats", "--json").json
    scores = {row["scorer"]: (row["scores"], row["mean"]) for row in stats["scores"]}
    assert scores == {
        "grader": (3, 1.0),
        "is_correct": (2, 0.5),
        "reward": (1, 1.0),
        "reward/DB": (1, 1.0),
    }
    assert [(row["label"], row["agent"]) for row in stats["labels"]] == [
        ("mistake", "Searcher"),
        ("mistake", "websurfer"),
    ]
    out = imported.ok("stats").out
    assert "grader" in out
    assert "Searcher" in out
    assert "It is right." in imported.ok("stats", "inspect:sample-run-7").out


def test_statistics_of_a_session_have_its_scores(imported: Cli) -> None:
    stats = imported.ok("stats", "inspect:sample-run-1", "--json").json
    [score] = stats["scores"]
    assert (score["scorer"], score["value"], score["number"]) == ("grader", "C", 1.0)
    assert score["metadata"] == {"epoch": 1, "target": "Jill", "strict": True}
    assert stats["labels"] == []


def test_tables_have_scores_and_labels(imported: Cli, tmp_path: Path) -> None:
    imported.ok("export-tables", str(tmp_path / "facts"))
    scores = pq.read_table(tmp_path / "facts" / "scores.parquet").to_pylist()
    assert len(scores) == 3 + 2 + 2
    labels = pq.read_table(tmp_path / "facts" / "labels.parquet").to_pylist()
    messages = pq.read_table(tmp_path / "facts" / "messages.parquet").to_pylist()
    roles = {row["id"]: row["role"] for row in messages if not row["is_repeat"]}
    assert [roles[row["message_id"]] for row in labels] == ["assistant", "assistant"]


@pytest.mark.parametrize("format_", SAMPLES)
def test_bytes_come_back(imported: Cli, format_: str, tmp_path: Path) -> None:
    sessions = imported.ok("sessions", "--json").json
    name, data = SAMPLES[format_]
    session = next(row for row in sessions if str(row).count(f"/{name}'"))
    out = tmp_path / "bytes"
    imported.ok("export", session["session"], "--format", format_, "-o", str(out))
    assert out.read_bytes() == data


def test_summary_counts_the_sessions_of_a_file(cli: Cli, tmp_path: Path) -> None:
    samples = {f"{number}_epoch_1": inspect_sample(number) for number in (1, 2)}
    path = tmp_path / "more.eval"
    path.write_bytes(inspect_archive(samples))
    assert "inspect  2 sessions, 6 new commits in 2 sessions" in cli.ok("import", str(path)).out
    assert "inspect  2 sessions, 0 new commits\n" in cli.ok("import", str(path)).out


def test_refused_files_have_one_line_each(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.eval").write_bytes(inspect_archive({"1_epoch_1": inspect_sample()})[:-40])
    (folder / "b.traj").write_bytes(b'{"trajectory": 1}')
    (folder / "PhaseConfig.json").write_bytes(b'{"Coding": {"assistant_role_name": "Cook"}}')
    out = cli.ok("import", str(folder), "--verbose").out
    refused = [line for line in out.splitlines() if line.startswith(("not imported", "skipped"))]
    assert len(refused) == 3
    assert "PhaseConfig.json: unknown format" in out
    assert "Traceback" not in out
