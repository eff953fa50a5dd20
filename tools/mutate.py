"""Plant faults into copies of the source and run the tests that should notice them.

    python -m tools.mutate map                     record which tests run which lines; once a tree
    python -m tools.mutate run --count 150         plant faults; the results are appended to a file
    python -m tools.mutate report                  print the faults that no test noticed

A fault is run in a copy of the tree, with the tests that run its line according to the map, the
fastest of different files first. A run continues where the last one ended: a fault with a result is
not planted again, except with `--retry`, which plants the unnoticed ones again, for example after
new tests (`--also tests/new_test.py`). The faults are described in `tools/faults.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

from tools.faults import PACKAGES, Fault, select_faults

ROOT = Path(__file__).parents[1]
TESTS = (
    *(f"tests/unit/{package}" for package in (*PACKAGES, "core", "interactions", "tickets")),
    *(f"tests/{folder}" for folder in ("golden", "conformance", "crash", "property", "regression")),
)
"""The tests of the map: those that run in this process and are about these packages."""
_DURATION = re.compile(r"^([\d.]+)s (?:call|setup) +(\S.*)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_MAX_TESTS = 400
_LIMITED = 'ulimit -v 6000000; exec "$@"'
"""A fault may make a loop endless, so the memory of the tests is limited, in KB."""
_NO_TESTS = (4, 5)
"""Exit codes of pytest: a test does not exist, or none was collected."""


@dataclass(slots=True)
class TestMap:
    """The tests that run the lines of files."""

    names: list[str] = field(default_factory=list)
    """The node ids of the tests."""
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Path -> line -> indexes in `names`."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Node id -> duration, of the slower tests."""

    def find_tests(self, fault: Fault, max_seconds: float) -> list[str]:
        """Return the tests of the line of a fault, else those of its function, else of its file."""
        lines = self.lines.get(fault.path, {})
        function = range(fault.first_line, fault.line + 1)
        for numbers in ([fault.line], function, map(int, lines)):
            tests = {index for number in numbers for index in lines.get(str(number), ())}
            if tests:
                return self._select([self.names[index] for index in tests], max_seconds)
        return []

    def _select(self, tests: Sequence[str], max_seconds: float) -> list[str]:
        """Return fast tests of different files first, up to a limit of tests and of time."""
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.seconds.get(test, 0), test)):
            by_file[test.split("::")[0]].append(test)
        ranked = sorted(
            (number, self.seconds.get(test, 0), test)
            for file_tests in by_file.values()
            for number, test in enumerate(file_tests)
        )
        times = accumulate(seconds for _, seconds, _ in ranked)
        limited = zip(ranked[:_MAX_TESTS], times, strict=False)
        return [test for (_, _, test), total in limited if total < max_seconds]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one fault."""

    id: str
    path: str
    line: int
    function: str
    operator: str
    old: str
    new: str
    status: str
    """`seen`, `unseen`, `timeout` (the tests did not end, which is seen), or `no tests`."""
    noticed_by: str
    tests: int
    seconds: float


def make_tree(folder: Path) -> Path:
    """Copy the tracked and new files of the repository to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run_pytest(tree: Path, arguments: Sequence[str], timeout_s: float | None) -> tuple[int, str]:
    """Run pytest in a copy of the tree, with limits. Return the exit code and the output.

    The exit code is -1 if the time was up: then all its processes are killed.
    """
    command = ["sh", "-c", _LIMITED, "sh", sys.executable, "-m", "pytest", "-n", "0"]
    command += ["-m", "not full", "--show-capture=no"]
    command += ["-p", "no:cacheprovider", f"--basetemp={tree.parent / f'tmp-{tree.name}'}"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return -1, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write_map(work: Path, tests: Sequence[str], *, is_merged: bool) -> None:
    """Run the tests with coverage and record which of them run which lines.

    is_merged: whether they are added to the map, for example new tests.
    """
    old = TestMap(**json.loads((work / "map.json").read_text())) if is_merged else TestMap()
    tree = make_tree(work / "map-tree")
    packages = ",".join(f"harken.{package}" for package in PACKAGES)
    config = tree / "coverage.ini"
    config.write_text(f"[run]\nsource_pkgs = {packages}\ndata_file = {tree}/.coverage\n")
    options = [f"--cov-config={config}", "--cov", "--cov-context=test", "--cov-report="]
    _, output = run_pytest(tree, [*options, "-v", "--durations=0", *tests], None)
    (work / "map.log").write_text(output)
    convert_coverage(work, tree, output, old)


def convert_coverage(work: Path, tree: Path, output: str, old: TestMap) -> None:
    """Write the map of a run with coverage, and an earlier one. Tests that failed are left out."""
    failed = set(_FAILED.findall(output))
    seconds: dict[str, float] = defaultdict(float, old.seconds)
    for duration, test in _DURATION.findall(output):
        seconds[test] += float(duration)
    data = CoverageData(str(tree / ".coverage"))
    data.read()
    new = {context.rpartition("|")[0] for context in data.measured_contexts() if context} - failed
    files = {test.split("::")[0] for test in new}
    # The other tests of these files were removed or renamed.
    gone = {i for i, name in enumerate(old.names) if name.split("::")[0] in files}
    indexes = {name: index for index, name in enumerate(old.names)}
    lines = {
        path: {line: [i for i in tests if i not in gone] for line, tests in by_line.items()}
        for path, by_line in old.lines.items()
    }
    for file in data.measured_files():
        by_line = lines.setdefault(Path(file).relative_to(tree).as_posix(), {})
        for line, contexts in data.contexts_by_lineno(file).items():
            tests = {context.rpartition("|")[0] for context in contexts} & new
            numbers = {indexes.setdefault(test, len(indexes)) for test in tests}
            by_line[str(line)] = [*numbers.union(by_line.get(str(line), ()))]
    text = json.dumps({"names": list(indexes), "lines": lines, "seconds": seconds})
    (work / "map.json").write_text(text)


class Runner:
    """Plants faults, each in the copy of the tree of a free job."""

    def __init__(self, work: Path, options: argparse.Namespace) -> None:
        self._work, self._also, self._timeout_s = work, options.also, options.timeout
        self._max_seconds = options.seconds
        self._map = TestMap(**json.loads((work / "map.json").read_text()))
        self._trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            self._trees.put(make_tree(work / f"tree-{number}"))

    def run(self, fault: Fault) -> Result:
        """Plant a fault, run its tests, and restore the file."""
        tree = self._trees.get()
        file = tree / fault.path
        source = file.read_bytes()
        start_s = time.monotonic()
        tests = [*self._also, *self._map.find_tests(fault, self._max_seconds)]
        try:
            _replace_source(file, fault.apply(source))
            status, noticed_by = self._run_tests(tree, tests) if tests else ("no tests", "")
        finally:
            _replace_source(file, source)
            self._trees.put(tree)
        place = (fault.path, fault.line, fault.function, fault.operator, fault.old, fault.new)
        seconds = round(time.monotonic() - start_s, 1)
        return Result(fault.id, *place, status, noticed_by, len(tests), seconds)

    def _run_tests(self, tree: Path, tests: Sequence[str]) -> tuple[str, str]:
        """Return the status of a planted fault, and the test that noticed it."""
        names = tree.parent / f"{tree.name}.tests"
        names.write_text("\n".join(tests))
        arguments = ["-x", "-q", "--tb=no", f"@{names}"]
        code, output = run_pytest(tree, arguments, self._timeout_s)
        if code == -1:
            return "timeout", ""
        if code in _NO_TESTS and "ImportError" not in output:
            return "no tests", output[-300:]
        return ("unseen" if code == 0 else "seen"), next(iter(_FAILED.findall(output)), "")


def _replace_source(file: Path, source: bytes) -> None:
    """Write a module, and remove its bytecode, which may have the same time and size."""
    file.write_bytes(source)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def read_results(path: Path) -> dict[str, Result]:
    """Return the last result of each fault."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    return {result.id: result for result in results}


def iter_pending(options: argparse.Namespace, results: dict[str, Result]) -> Iterator[Fault]:
    """Yield the faults that have no result, or with `--retry` those that were not noticed."""
    # A changed tree has another selection, and the unnoticed faults may be anywhere in it.
    count = sys.maxsize if options.retry else options.count
    for fault in select_faults(ROOT, options.seed, count):
        result = results.get(fault.id)
        is_unnoticed = result is not None and result.status in ("unseen", "no tests")
        is_pending = is_unnoticed if options.retry else result is None
        if is_pending and re.search(options.only, f"{fault.path}:{fault.line} {fault.operator}"):
            yield fault


def run_faults(work: Path, options: argparse.Namespace) -> None:
    """Run the pending faults, and append each result to the file."""
    pending = list(iter_pending(options, read_results(options.results)))
    runner = Runner(work, options)
    with ThreadPoolExecutor(options.jobs) as pool, options.results.open("a") as file:
        for number, result in enumerate(pool.map(runner.run, pending), start=1):
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            print(f"{number}/{len(pending)} {format_result(result)}", flush=True)


def format_result(result: Result) -> str:
    """Return a line about a result."""
    old, new = (" ".join(text.split())[:70] for text in (result.old, result.new))
    place = f"{result.path}:{result.line} {result.function}"
    return f"{result.status:8} {place}: {result.operator}: {old} -> {new} ({result.tests} tests)"


def print_report(options: argparse.Namespace) -> int:
    """Print the faults that no test noticed, and the counts. Return 1 if there are too many."""
    results = read_results(options.results).values()
    unnoticed = [result for result in results if result.status in ("unseen", "no tests")]
    for result in sorted(unnoticed, key=lambda result: (result.path, result.line)):
        print(format_result(result))
    totals = Counter(result.path.split("/")[2] for result in results)
    missed = Counter(result.path.split("/")[2] for result in unnoticed)
    for package, total in sorted(totals.items()):
        print(f"{package:10} {total:4} planted, {missed[package]:3} unseen")
    share = len(unnoticed) / max(len(results), 1)
    print(f"{'all':10} {len(results):4} planted, {len(unnoticed):3} unseen ({share:.1%})")
    return int(share > options.max_share)


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["map", "list", "run", "report"])
    parser.add_argument("--work", type=Path, default=ROOT / ".mutate", help="a folder for copies")
    parser.add_argument("--results", type=Path, help="the file of results, by default in --work")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150, help="the number of faults")
    parser.add_argument("--jobs", type=int, default=1, help="the number of faults at a time")
    parser.add_argument("--timeout", type=float, default=300, help="for the tests, in seconds")
    parser.add_argument(
        "--seconds",
        type=float,
        default=40,
        help="of the tests of a fault, as the map measured them",
    )
    parser.add_argument("--also", nargs="*", default=[], help="tests to run before the others")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="the tests of `map`")
    parser.add_argument("--only", default="", help="a pattern for `PATH:LINE OPERATOR`")
    parser.add_argument("--merge", action="store_true", help="add the tests to the map")
    parser.add_argument("--retry", action="store_true", help="plant the unnoticed faults again")
    parser.add_argument("--max-share", type=float, default=0.1, help="of unseen faults")
    options = parser.parse_args()
    options.results = options.results or options.work / "results.jsonl"
    return options


def main() -> int:
    """Run a command. Return its exit code."""
    options = parse_options()
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    if options.command == "map":
        write_map(work, options.tests, is_merged=options.merge)
    elif options.command == "list":
        for fault in select_faults(ROOT, options.seed, options.count):
            print(f"{fault.path}:{fault.line} {fault.function}: {fault.operator}: {fault.old!r}")
    elif options.command == "run":
        run_faults(work, options)
    return print_report(options) if options.command == "report" else 0


if __name__ == "__main__":
    sys.exit(main())
