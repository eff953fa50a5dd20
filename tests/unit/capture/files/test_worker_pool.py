"""Parallel parsing of files gives the same results as serial parsing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from harken.capture.files import file_reader, importer
from harken.capture.files.file_reader import FileTooLarge, OpenedFile
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import File, iter_files
from harken.capture.files.worker_pool import ReaderPool
from harken.executors.workers import Workers
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.formats.runtimes.opencode.test_reader import TALK, write_database
from tests.unit.formats.transcript_kit import Transcript, text_block


@pytest.fixture(scope="module")
def crew() -> Iterator[ReaderPool]:
    with Workers(jobs=2).open() as executor:
        yield ReaderPool(executor)


def talk(words: str, *, padding: int = 0) -> Transcript:
    transcript = Transcript(f"5e55101{len(words) % 10}-0000-4000-8000-000000000001")
    transcript.user(words, padding="x" * padding)
    transcript.answer(text_block(f"You said {words}."), id=f"msg_{words}")
    return transcript


def write_files(folder: Path, **files: bytes | Transcript) -> list[File]:
    for name, data in files.items():
        (folder / f"{name}.jsonl").write_bytes(data if isinstance(data, bytes) else data.data)
    return sorted(iter_files(folder), key=lambda file: file.name)


def read_nothing(file: File) -> OpenedFile:
    raise AssertionError(f"{file.name} was brought here")


def read_file(opened_file: OpenedFile) -> tuple[list[str], str]:
    steps = [ready.notes.summary for _, ready in opened_file.steps]
    return steps, opened_file.read_summary().report.reason


def test_pool_returns_the_same_files_in_order(crew: ReaderPool, tmp_path: Path) -> None:
    unusual = Transcript()
    unusual.user("lone \ud800 surrogate")
    files = write_files(
        tmp_path,
        a=talk("Hi"),
        b=b"",
        c=b'{"type":"user","sessionId":1}\n{"no":',
        d=unusual,
        e=b"plain text",
        f=talk("large", padding=600_000),
        g=talk("last"),
    )
    came = [(file, read_file(brings())) for file, brings in crew.ahead(files, read_nothing)]
    assert [file for file, _ in came] == files
    assert [opened_file for _, opened_file in came] == [
        read_file(file_reader.open_source_file(file, None)) for file in files
    ]
    assert came[3][1][0] == ["user: lone \ud800 surrogate"]


def test_pool_reads_the_copy_of_a_database(crew: ReaderPool, tmp_path: Path) -> None:
    write_database(tmp_path / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    (file,) = iter_files(tmp_path)
    [(_, brings)] = crew.ahead([file], read_nothing)
    came, expected_file = brings(), file_reader.open_source_file(file, None)
    assert (came.raw, came.pieces) == (expected_file.raw, expected_file.pieces)
    assert read_file(came) == read_file(expected_file)


def test_pool_rereads_a_file_that_changed_after_parsing(crew: ReaderPool, tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, a=talk("Hi"))
    [(_, brings)] = crew.ahead([file], lambda source: file_reader.open_source_file(source, None))
    file.path.write_bytes(talk("Ho").data)
    came = brings()
    assert b"".join(piece.body for piece in came.pieces) == talk("Ho").data
    assert read_file(came)[0] == ["You said Ho."]


def test_pool_reports_an_unreadable_file_in_its_turn(crew: ReaderPool, tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, a=talk("Hi"))
    file.path.unlink()
    [(_, brings)] = crew.ahead([file], lambda file: file_reader.open_source_file(file, None))
    with pytest.raises(FileNotFoundError):
        brings()


def test_large_file_is_parsed_in_the_main_process(crew: ReaderPool, tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, a=talk("Hi", padding=file_reader.MAX_IN_MEMORY_BYTES))
    local_files: list[File] = []

    def bring(source: File) -> OpenedFile:
        local_files.append(source)
        raise FileTooLarge

    # The second one: the file grew after it was listed.
    for candidate in (file, msgspec.structs.replace(file, size=1)):
        [(_, brings)] = crew.ahead([candidate], bring)
        with pytest.raises(FileTooLarge):
            brings()
    assert local_files == [file, msgspec.structs.replace(file, size=1)]


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_workers_exit_with_their_main_process(tmp_path: Path, way: signal.Signals) -> None:
    write_files(tmp_path, a=talk("Hi"))
    with subprocess.Popen(
        [sys.executable, "-c", _READS, tmp_path], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"read by 2\n"
            process.send_signal(way)
            process.communicate(timeout=20)  # until all workers have closed their end of the pipe
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


_READS = """
import multiprocessing, sys, time
from pathlib import Path
from harken.capture.files.file_reader import open_source_file as bring
from harken.capture.files.worker_pool import ReaderPool
from harken.capture.files.sources import iter_files as files_in
from harken.executors.workers import Workers
with Workers(jobs=2).open() as executor:
    list(ReaderPool(executor).ahead(list(files_in(Path(sys.argv[1]))), bring))
    print("read by", len(multiprocessing.active_children()), flush=True)
    time.sleep(60)
"""


def test_import_with_workers_equals_import_without(tmp_path: Path) -> None:
    few = importer.MIN_POOL_BYTES // 4
    agent = talk("sub")
    for record in agent.records:
        record |= {"isSidechain": True, "agentId": "a1"}
    files = write_files(
        tmp_path,
        a=talk("one", padding=few),
        b=talk("two", padding=few),
        c=talk("three", padding=few),
        d=talk("four", padding=few),
        e=agent,
        f=talk("five", padding=file_reader.MAX_IN_MEMORY_BYTES),
    )
    runs: list[tuple[list[ImportResult], set[str]]] = []
    for jobs, store in ((1, MemoryStore()), (2, SqliteStore(tmp_path / "s.db"))):
        catalogue = Catalogue(None)
        results = list(Importer(store, catalogue, workers=Workers(jobs=jobs)).run(files))
        runs.append((results, {stored.name for stored in store.iter_objects()}))
        catalogue.close()
        store.close()
    assert runs[0] == runs[1]
    assert len(runs[0][0]) == len(files)


def test_aborted_iteration_leaves_no_process(tmp_path: Path) -> None:
    files = write_files(tmp_path, a=talk("one", padding=importer.MIN_POOL_BYTES), b=talk("two"))
    catalogue = Catalogue(None)
    run = Importer(MemoryStore(), catalogue, workers=Workers(jobs=2)).run(files)
    with suppress(StopIteration):
        next(run)
    run.close()  # type: ignore[attr-defined]
    catalogue.close()
