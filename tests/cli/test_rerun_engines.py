"""`harken rerun --on`: the same sessions, answers and commits, whichever processes run the agents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Cli
from tests.cli.test_rerun import read_rows
from tests.unit.executors.executor_kit import NEEDS_RAY

ENGINES = [
    pytest.param(("--jobs", "2"), id="processes"),
    pytest.param(("--on", "ray", "--jobs", "2"), id="ray", marks=NEEDS_RAY),
]


def commits_of(cli: Cli) -> Counter[str]:
    """Return the number of commits by summary."""
    return Counter(row["summary"] for row in cli.ok("ctx", "log", "-n", "1000", "--json").json)


@pytest.mark.parametrize("options", ENGINES)
def test_sessions_are_those_of_one_process(demo: Cli, options: tuple[str, ...]) -> None:
    arguments = ["rerun", "demo", "--at", "3", "--runs", "3", "--json"]
    expected = demo.ok(*arguments, "--name", "here").json
    rows = [{**row, "session": row["session"].replace("here", "there")} for row in expected]
    here = commits_of(demo)
    report = demo.ok(*arguments, "--name", "there", *options)
    assert report.err == ""
    assert report.json == rows
    assert commits_of(demo) - here == here != Counter()
    assert [_kinds(demo, f"there-{number}") for number in (1, 2, 3)] == [_kinds(demo, "here-1")] * 3
    assert demo.ok("compare", "demo", "--with", "there-1", "there-3", "--json").json["same"] == 2
    assert not (demo.home / "journal").exists()


def _kinds(cli: Cli, session: str) -> Counter[Any]:
    return Counter(row["event_type"] for row in read_rows(cli, session))


def test_failures_of_workers_are_those_of_one_process(demo: Cli, tmp_path: Path) -> None:
    script = tmp_path / "fails.yaml"
    script.write_text("rules:\n  - error: no credit\n")
    arguments = ["rerun", "demo", "--at", "3", "--runs", "2", "--jobs", "2"]
    report = demo("rerun", *arguments[1:], "--model", f"scripted:{script}")
    assert report.code == 1
    assert report.out == "demo-rerun-1  failed: no credit\ndemo-rerun-2  failed: no credit\n"
    refused = demo.refused(*arguments, "--model", "nothing")
    assert "model 'nothing' not found" in refused
    assert len(demo.sessions()) == 3
