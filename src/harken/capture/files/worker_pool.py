"""`ReaderPool`: a process pool that parses files ahead while the main process writes to the store.

Parsing needs no store, so other processes can do it. Results are taken in the order of the files,
so the outcome is the same without a pool. If a worker dies, its files are parsed in the main
process.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

import msgspec

from harken.capture.files.file_reader import (
    MAX_IN_MEMORY_BYTES,
    FileTooLarge,
    OpenedFile,
    ParsedFile,
    read_whole_file,
)
from harken.capture.files.sources import File

MAX_AHEAD_BYTES = 24 * 1024 * 1024
"""The maximum size of files that are parsed ahead and wait in memory."""
_TOGETHER_BYTES = 512 * 1024
"""Small files are sent in groups up to this size."""
_BARE, _PICKLED = b"\0", b"\1"


class ReaderPool:
    """Processes that parse files."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        """Use the given process pool."""
        self._pool = pool

    def ahead(
        self, files: Sequence[File], here: Callable[[File], OpenedFile]
    ) -> Iterator[tuple[File, Callable[[], OpenedFile]]]:
        """Yield files in order, with a function that returns each opened file.

        `here` opens a file in this process if a worker cannot. Both raise OSError.
        """
        groups = deque(_group_files(files))
        submitted: deque[tuple[list[File], Future[list[bytes | Exception]] | None]] = deque()
        ahead_bytes = 0
        while groups or submitted:
            while groups and (not submitted or ahead_bytes < MAX_AHEAD_BYTES):
                group = groups.popleft()
                ahead_bytes += sum(file.size for file in group)
                submitted.append((group, self._send(group)))
            group, future = submitted.popleft()
            ahead_bytes -= sum(file.size for file in group)
            for file, result in zip(group, _wait_results(group, future), strict=True):
                yield file, partial(_open_result, result, file, here)

    def _send(self, group: list[File]) -> Future[list[bytes | Exception]] | None:
        if group[0].size > MAX_IN_MEMORY_BYTES:
            return None
        try:
            return self._pool.submit(_parse_group, group)
        except (BrokenProcessPool, OSError):  # The pool is broken, or no process can be started.
            return None


@contextmanager
def start_pool(jobs: int) -> Iterator[ReaderPool]:
    """Run a pool with this number of processes."""
    is_alone = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if is_alone else "spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=init_worker)
    try:
        yield ReaderPool(pool)
    finally:
        pool.shutdown(cancel_futures=True)


def init_worker() -> None:
    """Initialize a worker: ignore interrupts, and exit with the main process.

    Existing objects are excluded from garbage collection, so that their memory pages stay shared.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    gc.freeze()


def _exit_with_parent() -> None:
    """Exit when the main process exits for any reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _group_files(files: Sequence[File]) -> Iterator[list[File]]:
    """Yield neighboring files in groups, as long as they are small."""
    group: list[File] = []
    for file in files:
        if group and sum(group_file.size for group_file in group) + file.size > _TOGETHER_BYTES:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _wait_results(
    group: list[File], future: Future[list[bytes | Exception]] | None
) -> Sequence[bytes | Exception | None]:
    """Return the results of a group. A result is None if this process must read the file."""
    if future is not None:
        try:
            return future.result()
        except BrokenProcessPool:
            pass
    return [None] * len(group)


def _open_result(
    result: bytes | Exception | None, file: File, here: Callable[[File], OpenedFile]
) -> OpenedFile:
    """Return the opened file of a result.

    Open it in this process if there is no result or the file has changed.
    """
    if result is None or isinstance(result, FileTooLarge):
        return here(file)
    if isinstance(result, Exception):
        raise result
    payload = memoryview(result)[1:]
    parsed: ParsedFile = (
        _parsed_files.decode(payload) if result[:1] == _BARE else pickle.loads(payload)  # noqa: S301 - of a process of ours
    )
    return parsed.to_opened_file(file.path) or here(file)


def _parse_group(group: list[File]) -> list[bytes | Exception]:
    """Parse files in a worker process."""
    return [_parse_file(file) for file in group]


def _parse_file(file: File) -> bytes | Exception:
    try:
        parsed = read_whole_file(file)
    except (OSError, FileTooLarge) as error:
        return error
    try:
        return _BARE + msgspec.msgpack.encode(parsed)
    except UnicodeEncodeError:  # lone surrogates, which MessagePack cannot say
        return _PICKLED + pickle.dumps(parsed, pickle.HIGHEST_PROTOCOL)


_parsed_files = msgspec.msgpack.Decoder(ParsedFile)
