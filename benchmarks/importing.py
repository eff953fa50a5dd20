"""Importing: real transcripts, against decoding the same bytes into untyped values.

The transcripts lie beside the project; where they are not, nothing is measured. Both sides are
measured in turn in one process, in CPU seconds: a transcript is decoded line by line, a document of
one object as a whole, what is no JSON not at all.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.measure import RUNS, Row, cpu_s, median, spread, wall_s
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import File, iter_files, sort_for_import
from harken.executors.workers import Workers
from harken.index.catalogue import Catalogue
from harken.store.sqlite.store import SqliteStore

DATA = Path(__file__).parents[2] / "shared" / "data" / "transcripts"
FORMATS = ("claude-code", "codex", "copilot-cli", "pi")
LARGE_BYTES = 300_000
"""The largest transcripts of a format: those that are larger."""
GROWN = "0cf3db51-1c73-43bb-8d05-dc02739514a5"
"""A session of which the data has several moments."""
MOMENTS = 10


@dataclass(frozen=True, slots=True)
class _Run:
    """What one import took."""

    cpu_s: float
    again_s: float
    stored_bytes: int
    decode_s: float


@contextmanager
def _home() -> Iterator[tuple[SqliteStore, Catalogue, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, catalogue = SqliteStore(folder / "store.db"), Catalogue(folder / "index.db")
        try:
            yield store, catalogue, folder
        finally:
            catalogue.close()
            store.close()


def decoded(bodies: Sequence[bytes]) -> None:
    """Decode what is JSON, whatever it means."""
    decoder = msgspec.json.Decoder()
    for body in bodies:
        for line in body.splitlines() if b"\n{" in body else [body]:
            try:
                decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue


def _run(files: Sequence[File]) -> _Run:
    """Decode and import files, and import them again."""
    bodies = [file.path.read_bytes() for file in files]
    decode_s = cpu_s(lambda: decoded(bodies))
    with _home() as (store, catalogue, folder):
        seconds = cpu_s(lambda: _import(store, catalogue, files))
        again_s = cpu_s(lambda: _import(store, catalogue, files))
        decode_s = min(decode_s, cpu_s(lambda: decoded(bodies)))
        catalogue.close()
        store.close()
        size = (folder / "store.db").stat().st_size
    return _Run(seconds, again_s, size, decode_s)


def _import(
    store: SqliteStore, catalogue: Catalogue, files: Sequence[File], jobs: int = 1
) -> list[ImportResult]:
    return list(Importer(store, catalogue, workers=Workers(jobs=jobs)).run(files))


def _rows_of(name: str, files: Sequence[File]) -> list[Row]:
    total = sum(file.size for file in files)
    runs = [_run(files) for _ in range(RUNS)]
    stored = [run.stored_bytes / total for run in runs]
    return [
        Row(
            f"import, {name}: MB/s of CPU",
            spread([total / 1e6 / run.cpu_s for run in runs], 1, 0),
            "",
            f"{len(files)} files, {total / 1e6:.1f} MB; "
            f"decoding them {total / 1e6 / median([run.decode_s for run in runs]):.0f} MB/s",
        ),
        Row(
            f"import, {name} / decode",
            spread([run.decode_s / run.cpu_s for run in runs], 1),
            ">= 0.15",
        ),
        Row(
            f"second import, {name} / first",
            spread([run.again_s / run.cpu_s for run in runs], 1, 4),
            "< 0.02",
        ),
        Row(
            f"bytes stored, {name} / bytes of the sources",
            f"{median(stored):.3f}",
            "< 0.30" if name == "all" else "",
        ),
    ]


def _jobs_row(files: Sequence[File]) -> Row:
    """Import with one process and with two, in turn."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(RUNS):
        for jobs, found in times.items():
            with _home() as (store, catalogue, _):
                found.append(wall_s(partial(_import, store, catalogue, files, jobs)))
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    note = f"wall; {os.cpu_count()} cores; with one {median(times[1]):.2f} s"
    return Row("import, all, `--jobs 2`: times as fast", spread(ratios, 1, 2), ">= 1.7", note)


def _of_one_session(files: Sequence[File]) -> list[File]:
    """Return the moments of a session that the data has."""
    return [file for file in files if f'"sessionId":"{GROWN}"' in _beginning(file)]


def _beginning(file: File) -> str:
    return file.read_beginning(LARGE_BYTES).decode("utf-8", "replace")


def _moments_row(files: Sequence[File]) -> Row:
    total = sum(file.size for file in files)
    with _home() as (store, catalogue, folder):
        _import(store, catalogue, files)
        store.close()
        stored = (folder / "store.db").stat().st_size
    note = f"{len(files)} files, {total / 1e6:.1f} MB"
    return Row("bytes stored, moments of one session", f"{stored / total:.3f}", "< 0.12", note)


def _growing_row(file: File) -> Row:
    """Import a transcript again and again while it grows."""
    data, total, spent = file.path.read_bytes(), 0, 0.0
    with _home() as (store, catalogue, folder):
        path = folder / "growing.jsonl"
        for moment in range(1, MOMENTS + 1):
            body = data[: len(data) * moment // MOMENTS]
            path.write_bytes(body)
            total += len(body)
            start = time.process_time()
            _import(store, catalogue, list(iter_files(path)))
            spent += time.process_time() - start
        store.close()
        stored = (folder / "store.db").stat().st_size
    with _home() as (store, catalogue, _):
        once_s = cpu_s(lambda: _import(store, catalogue, [file]))
    note = f"{MOMENTS} imports, {total / 1e6:.1f} MB; CPU {spent / once_s:.1f} times that of one"
    return Row("bytes stored, a transcript that grows", f"{stored / total:.3f}", "< 0.12", note)


def rows() -> list[Row]:
    """Measure each format, all of the data, and a transcript that grows."""
    if not DATA.is_dir():
        return [Row("import", "not measured", "", "the real transcripts are not here")]
    _run(list(iter_files(DATA / "gemini-cli")))  # modules are loaded, once
    found = []
    for name in FORMATS:
        large = [file for file in iter_files(DATA / name) if file.size >= LARGE_BYTES]
        found += _rows_of(name, large)
    everything = sort_for_import(iter_files(DATA))
    found += _rows_of("all", everything)
    found.append(_jobs_row(everything))
    claude = sort_for_import(iter_files(DATA / FORMATS[0]))
    found.append(_moments_row(_of_one_session(claude)))
    found.append(_growing_row(max(claude, key=lambda file: file.size)))
    return found
