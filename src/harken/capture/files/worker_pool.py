"""`ReaderPool`: workers parse files ahead while the main process writes to the store.

Parsing needs no store, so other processes and machines can do it. Results are taken in the order of
the files, so the outcome is the same without workers. A file that a worker cannot read is read in
the main process: a worker on another machine may not have it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
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
from harken.capture.redacted_file import FileNotRedactable
from harken.core.secrets.redaction import Credentials
from harken.executors.base import ItemFailure, WorkerDied
from harken.executors.executor import Executor

_BARE, _PICKLED = b"\0", b"\1"


class ReaderPool:
    """Workers that parse files."""

    def __init__(self, executor: Executor, *, is_redacted: bool = False) -> None:
        """Use the given executor. is_redacted: whether credentials are removed."""
        self._executor = executor
        self._parse = partial(parse_file, is_redacted=is_redacted)

    def ahead(
        self, files: Sequence[File], here: Callable[[File], OpenedFile]
    ) -> Iterator[tuple[File, Callable[[], OpenedFile]]]:
        """Yield files in order, with a function that returns each opened file.

        `here` opens a file in this process if a worker cannot. Both raise OSError.
        """
        small = [file for file in files if file.size <= MAX_IN_MEMORY_BYTES]
        results = self._executor.map(self._parse, small, size=lambda file: file.size)
        for file in files:
            if file.size > MAX_IN_MEMORY_BYTES:
                yield file, partial(here, file)
            else:
                _, result = next(results)
                yield file, partial(_open_result, result, file, here)


def _open_result(
    result: bytes | ItemFailure, file: File, here: Callable[[File], OpenedFile]
) -> OpenedFile:
    """Return the opened file of a result.

    Open it in this process if a worker could not, or if the file has changed.
    """
    if isinstance(result, ItemFailure):
        error = result.error
        if isinstance(error, WorkerDied):
            raise OSError(str(error))
        if isinstance(error, FileNotRedactable) or not isinstance(error, (OSError, FileTooLarge)):
            raise error
        return here(file)
    payload = memoryview(result)[1:]
    parsed: ParsedFile = (
        _parsed_files.decode(payload) if result[:1] == _BARE else pickle.loads(payload)  # noqa: S301 - of a process of ours
    )
    return parsed.to_opened_file(file.path) or here(file)


def parse_file(file: File, *, is_redacted: bool) -> bytes:
    """Parse a file in a worker. Raises OSError, FileTooLarge."""
    parsed = read_whole_file(file, Credentials() if is_redacted else None)
    try:
        return _BARE + msgspec.msgpack.encode(parsed)
    except UnicodeEncodeError:  # lone surrogates, which MessagePack cannot say
        return _PICKLED + pickle.dumps(parsed, pickle.HIGHEST_PROTOCOL)


_parsed_files = msgspec.msgpack.Decoder(ParsedFile)
