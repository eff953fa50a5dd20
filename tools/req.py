"""Which requirements the tests prove: a line per requirement, `S0-24 pass|fail|missing TEST...`.

    python tools/req.py                            every requirement that a test names
    python tools/req.py S0-01..S0-50 S4-53         these, and those of them that no test names

A test names what it proves: `@pytest.mark.req("S0-24")`. A requirement passes when no test of it
fails and at least one passes; a skipped test proves nothing. The exit code is 0 when every line
says pass. The lines go to stdout, pytest's own words to stderr.

This file is also the pytest plugin of such a run (`-p req`): xdist's workers see the tests, the
process that reports sees only results. So the ids travel with each result, as a property of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

import pytest

ID = re.compile(r"[A-Z]\d?-\d\d")
RANGE = re.compile(r"([A-Z]\d?)-(\d\d)\.\.\1-(\d\d)")
VERDICTS = {"failed": "fail", "passed": "pass", "skipped": "missing"}
WORST_FIRST = tuple(VERDICTS)


def expand(words: list[str]) -> list[str]:
    """Return the ids of `S0-01..S0-03` (inclusive) and `S4-53`, each once, in order."""
    found: set[str] = set()
    for word in (w for group in words for w in re.split(r"[,\s]+", group) if w):
        if ID.fullmatch(word):
            found.add(word)
        elif (match := RANGE.fullmatch(word)) and match[2] <= match[3]:
            found.update(f"{match[1]}-{n:02}" for n in range(int(match[2]), int(match[3]) + 1))
        else:
            message = f"not a requirement or a range of them: {word!r} (want S0-24 or S0-01..S0-50)"
            raise ValueError(message)
    return sorted(found)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the wanted ids, comma separated; none means all."""
    parser.addoption("--req-ids", default="")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that name a wanted id, and let each carry its ids."""
    wanted = set(expand([config.getoption("--req-ids")]))
    keep: list[pytest.Item] = []
    drop: list[pytest.Item] = []
    for item in items:
        ids = [str(arg) for mark in item.iter_markers("req") for arg in mark.args]
        item.user_properties.append(("req", " ".join(ids)))
        (keep if ids and (not wanted or wanted & set(ids)) else drop).append(item)
    items[:] = keep
    config.hook.pytest_deselected(items=drop)


class Recorder:
    """Collects, in the process that reports, how each test of each requirement ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, str]] = {}
        """requirement id -> test node id -> the worst outcome of its phases."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a result; a setup or teardown that merely passed is none."""
        if report.when != "call" and report.passed:
            return
        for id in str(dict(report.user_properties).get("req", "")).split():
            tests = self.outcomes.setdefault(id, {})
            seen = tests.get(report.nodeid, report.outcome)
            tests[report.nodeid] = min(seen, report.outcome, key=WORST_FIRST.index)

    def lines(self, ids: list[str]) -> Iterator[str]:
        """Yield one line for each id."""
        for id in ids:
            tests = self.outcomes.get(id, {})
            worst = min(tests.values(), key=WORST_FIRST.index, default="skipped")
            verdict = VERDICTS[worst] if ID.fullmatch(id) else "fail (no requirement id)"
            yield " ".join([id, verdict, *sorted({label(*test) for test in tests.items()})])


def label(test: str, outcome: str) -> str:
    """Name a test: one that passed without its parameters, else in full and with the outcome."""
    return test.partition("[")[0] if outcome == "passed" else f"{test} {outcome}"


def main(words: list[str]) -> int:
    """Run the tests that name the wanted requirements and print what they prove."""
    try:
        wanted = expand(words)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    recorder = Recorder()
    jobs = os.environ.get("JOBS", "2")
    arguments = ["-q", "-n", jobs, "-p", "req", "-m", "req", "--req-ids", ",".join(wanted)]
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main(arguments, plugins=[recorder])
    lines = list(recorder.lines(wanted or sorted(recorder.outcomes)))
    print("\n".join(lines) or "no test names a requirement")
    proven = bool(lines) and all(line.split()[1] == "pass" for line in lines)
    return 0 if proven and code == pytest.ExitCode.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
