"""The pytest plugin: `harken_cassette`, model calls that are recorded once and replayed offline.

    def test_it_answers(harken_cassette):
        model = harken_cassette.model(lambda: resolve_model("openai/gpt-6", ...))

A test's calls are in `cassettes/MODULE.TEST.jsonl` beside its file, redacted: a session log, to be
committed with the test. The calls of a test that fails or is interrupted are not kept.

Source: docs/how-to/test-with-cassettes.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harken.experiments.cassette.cassette import Cassette

FOLDER = "cassettes"
_MODES = ("once", "none", "new", "all")
_ended_well = pytest.StashKey[bool]()
_UNSAFE = re.compile(r"[^A-Za-z0-9_=.-]+")
_MAX_NAME_CHARS = 120
"""Maximum characters of a test's name in the name of its cassette."""


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
    """Remember whether a test passed, because its fixture cannot know.

    An interrupted test has no report. Its incomplete cassette must not be replayed.
    """
    report = yield
    if report.when == "call":
        item.stash[_ended_well] = not report.failed
    return report


@pytest.fixture
def harken_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test; `--harken-record` decides whether calls may be recorded."""
    from harken.experiments.cassette.cassette import Cassette  # noqa: PLC0415 - only tests that use it pay

    cassette = Cassette(file_of(request.node), request.config.getoption("--harken-record"))
    try:
        yield cassette
    finally:
        cassette.close(keep=request.node.stash.get(_ended_well, False))


def file_of(test: pytest.Item) -> Path:
    """Return the path of the cassette of a test, which is unique in its module.

    A name that is sanitized or truncated ends in a hash of the full name.
    """
    chain = [node.name for node in test.listchain() if isinstance(node, pytest.Class | pytest.Item)]
    name = ".".join(chain)
    test_name, bracket, values = name.removesuffix("]").partition("[")
    parts = [test_name, values] if bracket else [test_name]
    safe = ".".join(_UNSAFE.sub("_", part) for part in parts)
    if safe != ".".join(parts) or len(safe) > _MAX_NAME_CHARS:
        safe = f"{safe[:_MAX_NAME_CHARS]}-{sha256(name.encode()).hexdigest()[:8]}"
    return test.path.parent / FOLDER / f"{test.path.stem}.{safe}.jsonl"
