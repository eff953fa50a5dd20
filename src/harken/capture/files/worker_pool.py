"""A crew: processes that read files ahead, while this one writes.

One idea: bringing a file needs no store, so it can be done elsewhere; what came is taken in the
order of the files, so everything is as it would be without a crew. A process that is lost is no
harm: its files are read here.
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
    SMALL_BYTES,
    FileTooLarge,
    OpenedFile,
    ParsedFile,
    read_whole_file,
)
from harken.capture.files.sources import File

AHEAD_BYTES = 24 * 1024 * 1024
"""So much is read ahead: it is held until it is taken."""
_TOGETHER_BYTES = 512 * 1024
"""Small files are sent together."""
_BARE, _PICKLED = b"\0", b"\1"


class ReaderPool:
    """Processes that bring files."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        """Let a pool do it."""
        self._pool = pool

    def ahead(
        self, files: Sequence[File], here: Callable[[File], OpenedFile]
    ) -> Iterator[tuple[File, Callable[[], OpenedFile]]]:
        """Yield files in their order, with what returns each as it was brought.

        `here` brings what the crew cannot; both raise OSError.
        """
        groups = deque(_groups(files))
        sent: deque[tuple[list[File], Future[list[bytes | Exception]] | None]] = deque()
        held = 0
        while groups or sent:
            while groups and (not sent or held < AHEAD_BYTES):
                group = groups.popleft()
                held += sum(file.size for file in group)
                sent.append((group, self._send(group)))
            group, future = sent.popleft()
            held -= sum(file.size for file in group)
            for file, came in zip(group, _came(group, future), strict=True):
                yield file, partial(_taken, came, file, here)

    def _send(self, group: list[File]) -> Future[list[bytes | Exception]] | None:
        if group[0].size > SMALL_BYTES:
            return None
        try:
            return self._pool.submit(_brought, group)
        except (BrokenProcessPool, OSError):  # no more processes, or none any more
            return None


@contextmanager
def start_pool(jobs: int) -> Iterator[ReaderPool]:
    """Give a crew of so many processes."""
    is_alone = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if is_alone else "spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin)
    try:
        yield ReaderPool(pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Begin: an interrupt is for the process that everything is read for, which ends the others.

    What was made before is never collected here, and so not copied by the collector's marks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_it, daemon=True).start()
    gc.freeze()


def _end_with_it() -> None:
    """End when that process ends, however it does: nobody else would say that there is no more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _groups(files: Sequence[File]) -> Iterator[list[File]]:
    """Yield neighbouring files together, as long as they are small."""
    group: list[File] = []
    for file in files:
        if group and sum(one.size for one in group) + file.size > _TOGETHER_BYTES:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _came(
    group: list[File], future: Future[list[bytes | Exception]] | None
) -> Sequence[bytes | Exception | None]:
    """Return what came of files; None: they are to be brought here."""
    if future is not None:
        try:
            return future.result()
        except BrokenProcessPool:
            pass
    return [None] * len(group)


def _taken(
    came: bytes | Exception | None, file: File, here: Callable[[File], OpenedFile]
) -> OpenedFile:
    """Return a file as it was brought; here, where it was not, or has changed since."""
    if came is None or isinstance(came, FileTooLarge):
        return here(file)
    if isinstance(came, Exception):
        raise came
    inside = memoryview(came)[1:]
    parcel: ParsedFile = (
        _parcels.decode(inside) if came[:1] == _BARE else pickle.loads(inside)  # noqa: S301 - of a process of ours
    )
    return parcel.brought(file.path) or here(file)


def _brought(group: list[File]) -> list[bytes | Exception]:
    """Bring files, in a process of the crew."""
    return [_sent(file) for file in group]


def _sent(file: File) -> bytes | Exception:
    try:
        parcel = read_whole_file(file)
    except (OSError, FileTooLarge) as error:
        return error
    try:
        return _BARE + msgspec.msgpack.encode(parcel)
    except UnicodeEncodeError:  # lone surrogates, which MessagePack cannot say
        return _PICKLED + pickle.dumps(parcel, pickle.HIGHEST_PROTOCOL)


_parcels = msgspec.msgpack.Decoder(ParsedFile)
