"""Settings, hooks and fixtures for all tests."""

from __future__ import annotations

import gc
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.postgres_kit import PostgresServer, S3Server

# Examples have no deadline, because they can be slow on a busy machine.
# `make test` gives one tree one answer; `make test-full` searches anew in each run.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("full", deadline=None, max_examples=1000)  # make test-full
settings.load_profile("quick")

# A shell starts `pytest &` and `nohup pytest` with SIGINT ignored. Each program that a test
# starts would inherit that and never end by Ctrl-C. exec resets a handler to the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

MAX_TEMPDIR_LENGTH = 40
"""In characters. Socket paths have about 100, and a terminal of 80 columns wraps longer lines."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep the paths of tests short where `TMPDIR` is long; xdist hands the folder to its workers.

    `TMPDIR` itself stays as it is for the programs that tests start.
    """
    is_worker = hasattr(config, "workerinput")
    is_short = len(tempfile.gettempdir()) <= MAX_TEMPDIR_LENGTH
    if not (is_worker or is_short or config.option.basetemp):
        folder = tempfile.TemporaryDirectory(
            prefix="harken-", dir="/tmp", ignore_cleanup_errors=True
        )
        config.option.basetemp = folder.name
        config.add_cleanup(folder.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage beside the tests: each pass over their objects takes half a second.

    What is collected stays until the end, so that later passes leave it out.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a module of long forms only, if none is selected: collecting it takes seconds."""
    is_full = collection_path.name.endswith("_full.py")
    return True if is_full and config.option.markexpr == "not full" else None


collect_ignore = ["fixtures"]
"""Data and scripts for tests. The folder contains no tests."""
TABLE = "table"
"""The name of the test property with the rows of a table that is printed at the end."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the tables of rows that passed and failed tests recorded."""
    tables: dict[str, dict[str, dict[str, int]]] = {}
    for report in [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]:
        for name, value in report.user_properties:
            if name == TABLE:
                _add(tables.setdefault(value["title"], {}), value["row"], value["counts"])
    for title, rows in tables.items():
        terminalreporter.section(title)
        for line in _lines(rows):
            terminalreporter.write_line(line)


def _add(rows: dict[str, dict[str, int]], row: str, counts: dict[str, int]) -> None:
    """Add numbers to a row. Several tests may count in one row."""
    total = rows.setdefault(row, {})
    for name, number in counts.items():
        total[name] = total.get(name, 0) + number


def _lines(rows: dict[str, dict[str, int]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [["", *names]]
    cells += [[row, *(f"{rows[row].get(name, 0):,}" for name in names)] for row in sorted(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])])
        for first, *others in cells
    ]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, which no test of the module stops. Without PostgreSQL the test skips."""
    from tests.postgres_kit import run_postgres

    with run_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server, whose credentials are in the environment of the tests of the module."""
    from tests.postgres_kit import run_s3

    with run_s3() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def table(record_property: Any) -> Any:
    """Return a function that records a row of numbers: `table(title, row, name=number, ...)`."""

    def record(title: str, row: str, /, **counts: int) -> None:
        names = {name.replace("_", " "): number for name, number in counts.items()}
        record_property(TABLE, {"title": title, "row": row, "counts": names})

    return record
