"""A session that grows: the import of 10 more lines, and a watcher while a line a second comes.

The import is measured in the process that imported before, as a watcher does it, and in a new one,
which knows only the store and the catalogue. The watcher is a process of its own, and its CPU time
is that of the operating system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.growth import FACTORS, row
from benchmarks.measure import RUNS, Row, cpu_s, median
from benchmarks.written_sessions import RUNTIMES, SESSION
from harken.capture.files.grown_file import RunningHashes
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.store.sqlite.store import SqliteStore

SMALLEST_BYTES = 3_000_000
NEW_LINES = 10
WATCHED_BYTES = 12_500_000
"""The size of the smallest watched file."""
OTHER_WATCHED_BYTES = 25_000_000
"""The size of the watched file of each runtime other than Claude Code."""
WATCHED_S = 60
MIN_IMPORT_S = 0.5
"""The minimum CPU time of the first import of the watched file."""


def write_rounds(path: Path, lines: Iterator[bytes], size: int) -> None:
    """Write rounds of four lines until the file has a size."""
    written = 0
    with path.open("wb") as file:
        while written < size:
            written += sum(map(file.write, islice(lines, 4)))


def append_lines(path: Path, lines: Iterator[bytes], number: int = NEW_LINES) -> None:
    """Append lines to a file."""
    with path.open("ab") as file:
        file.writelines(islice(lines, number))


def _import(
    store: SqliteStore, index: Path, path: Path, catalogue: Catalogue | None, hashes: RunningHashes
) -> None:
    """Import a file. Without a catalogue, it is opened for this import."""
    if catalogue is None:
        with closing(Catalogue(index)) as opened:
            list(Importer(store, opened).run(list(iter_files(path))))
    else:
        list(Importer(store, catalogue, hashes=hashes).run(list(iter_files(path))))


def _costs(folder: Path, runtime: str, size: int) -> tuple[float, float, float]:
    """Return ms of a first import, and of one of new lines: in the same process, in a new one."""
    lines, path, index = RUNTIMES[runtime](), folder / f"{size}.jsonl", folder / f"{size}.index"
    write_rounds(path, lines, size)
    hashes = RunningHashes(lambda: 0.0)
    with closing(SqliteStore(folder / f"{size}.db")) as store:
        first_s = cpu_s(lambda: _import(store, index, path, None, hashes))
        same: list[float] = []
        new: list[float] = []
        with closing(Catalogue(index)) as catalogue:
            for run in range(2 * RUNS + 2):
                append_lines(path, lines)
                seconds = cpu_s(partial(_import, store, index, path, catalogue, hashes))
                same += [seconds] * (run >= 2)  # The first ones have to hash all bytes.
        for _ in range(2 * RUNS):
            append_lines(path, lines)
            new.append(cpu_s(partial(_import, store, index, path, None, hashes)))
    path.unlink()
    return 1e3 * first_s, 1e3 * median(same), 1e3 * median(new)


def rows() -> list[Row]:
    """Measure imports of a file that grew."""
    measured: list[Row] = []
    note = f"n: {SMALLEST_BYTES / 1e6:.0f} MB"
    for runtime in RUNTIMES:
        with tempfile.TemporaryDirectory() as name:
            costs = [_costs(Path(name), runtime, SMALLEST_BYTES * factor) for factor in FACTORS]
        first, same, new = zip(*costs, strict=True)
        what = f"import, {runtime}"
        measured += [
            row(f"{what}, all", first, "ms CPU", digits=0, aim="linear", note=note),
            row(f"{what}, {NEW_LINES} more lines, watched", same, "ms CPU", note=note),
            row(
                f"{what}, {NEW_LINES} more lines, new process",
                new,
                "ms CPU",
                aim="flat, and the hash of the bytes",
                note=note,
            ),
        ]
    return measured


def process_s(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_until_idle(pid: int) -> None:
    """Wait until a process has read what was there before."""
    idle, before = 0, -1.0
    while idle < 5 or before < MIN_IMPORT_S:
        time.sleep(1)
        now = process_s(pid)
        idle, before = (idle + 1 if now < before + 0.02 else 0), now


def _watch_share(runtime: str, size: int) -> tuple[float, int, float]:
    """Return the share of a core, the commits shown, and the seconds of the first import."""
    with tempfile.TemporaryDirectory() as name:
        folder, lines = Path(name) / "projects", RUNTIMES[runtime]()
        folder.mkdir()
        path, output = folder / f"{SESSION}.jsonl", Path(name) / "output"
        write_rounds(path, lines, size)
        command = [sys.executable, "-m", "harken", "watch", str(folder)]
        environ = {**os.environ, "HARKEN_HOME": str(Path(name) / "home")}
        with (
            output.open("wb") as stdout,
            subprocess.Popen(command, env=environ, stdout=stdout) as process,
        ):
            try:
                _wait_until_idle(process.pid)
                before = output.read_bytes().count(b"\n")
                start_s, started = process_s(process.pid), time.monotonic()
                for _ in range(WATCHED_S):
                    append_lines(path, lines, 1)
                    time.sleep(1)
                share = (process_s(process.pid) - start_s) / (time.monotonic() - started)
            finally:
                process.terminate()
                process.wait()
        return share, output.read_bytes().count(b"\n") - before, start_s


def watch_rows() -> list[Row]:
    """Measure `harken watch` while a large session grows by a line a second."""
    shares: list[float] = []
    for factor in FACTORS:
        share, commits, first_s = _watch_share("Claude Code", WATCHED_BYTES * factor)
        shares.append(100 * share)
    note = f"n: {WATCHED_BYTES / 1e6:.1f} MB; at 8n: {WATCHED_S} s, {commits} commits shown; "
    note += f"the first import {first_s:.1f} s"
    rows = [row("watch, a line a second", shares, "% of a core", aim="< 1, flat", note=note)]
    for runtime in ("Pi", "Copilot CLI", "Gemini CLI"):
        share, commits, first_s = _watch_share(runtime, OTHER_WATCHED_BYTES)
        what = f"watch, {runtime}, {OTHER_WATCHED_BYTES / 1e6:.0f} MB and a line a second"
        note = f"% of a core; {commits} commits shown; the first import {first_s:.1f} s"
        rows.append(Row(what, f"{100 * share:.2f}", "< 1", note))
    return rows
