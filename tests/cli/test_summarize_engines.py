"""`harken ctx summarize --on`: workers with keys of their own, and one line for each failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Cli
from tests.cli.test_summarize import small, summaries, told
from tests.unit.executors.executor_kit import NEEDS_RAY

__all__ = ["small", "told"]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--jobs", "2"), id="processes"),
        pytest.param(("--on", "ray", "--jobs", "2"), id="ray", marks=NEEDS_RAY),
    ],
)
def test_the_report_is_that_of_one_process(told: Cli, small: str, options: tuple[str, ...]) -> None:
    arguments = ["ctx", "summarize", "--missing", "--model", small]
    report = told.ok(*arguments, *options)
    assert report.out.splitlines() == [
        "5 commits summarized: 500 tokens in, 25 out",
        "5 credentials redacted",
    ]
    assert (report.err, summaries(told)[2]) == ("", "It said 2.")
    assert told.ok(*arguments, *options).out.startswith("0 commits summarized")
    assert not (told.home / "journal").exists()


def test_failures_of_workers_are_listed(told: Cli, small: str, tmp_path: Path) -> None:
    script = Path(small.partition(":")[2])
    script.write_text(script.read_text().replace("say (", "say ([0-2])|(never "))
    report = told("ctx", "summarize", "--missing", "--model", small, "--jobs", "2")
    assert report.code == 1
    assert report.out.startswith("3 commits summarized")
    assert report.err.count("has no new summary: ") == 2


def test_an_unknown_engine_is_one_line(told: Cli, small: str) -> None:
    refusal = told.refused("ctx", "summarize", "--missing", "--model", small, "--on", "dask")
    assert "write local, ray, or ray:ADDRESS" in refusal
