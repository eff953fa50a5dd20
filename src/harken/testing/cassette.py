"""The pytest plugin: `harken_cassette`, model calls that are recorded once and replayed offline.

    def test_it_answers(harken_cassette):
        model = harken_cassette.model(lambda: resolve_model("openai/gpt-6", ...))

A test's calls are in `cassettes/MODULE.TEST.jsonl` beside its file, redacted: a session log, to be
committed with the test. Of a test that fails nothing is kept.

Source: docs/how-to/test-with-cassettes.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harken.experiments.cassette import Cassette

FOLDER = "cassettes"
_MODES = ("once", "none", "new", "all")
_failed = pytest.StashKey[bool]()
_LONGEST = 120
"""So many characters of a test's name are in that of its cassette."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--harken-record`."""
    parser.getgroup("harken").addoption(
        "--harken-record",
        choices=_MODES,
        default="once",
        help="Calls of models in tests with harken_cassette: record where there is no cassette "
        "(once), never (none), what is not there yet (new), or everything anew (all).",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test has failed: its fixture cannot see it."""
    report = yield
    if report.failed:
        item.stash[_failed] = True
    return report


@pytest.fixture
def harken_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test; `--harken-record` says whether calls may be recorded."""
    from harken.experiments.cassette import Cassette  # noqa: PLC0415 - only tests that use it pay

    cassette = Cassette(file_of(request.node), request.config.getoption("--harken-record"))
    try:
        yield cassette
    finally:
        cassette.close(keep=not request.node.stash.get(_failed, False))


def file_of(test: pytest.Item) -> Path:
    """Return where the cassette of a test is."""
    name = test.nodeid.rpartition(test.path.name)[2].lstrip(":")
    safe = re.sub(r"[^A-Za-z0-9_=-]+", "_", name.replace("::", ".")).strip("_")
    return test.path.parent / FOLDER / f"{test.path.stem}.{safe[:_LONGEST]}.jsonl"
