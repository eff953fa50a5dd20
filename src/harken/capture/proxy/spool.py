"""`ProxySpool`: append the traffic of the proxy to files, for the recorder to read.

The forwarding side never blocks: it puts items into a queue, and a thread of the spool writes them.
If writing fails, recording stops with a message, unrecorded calls are counted, and recording
resumes by itself. Each started call gets an end frame, possibly later, so that the recorder knows
which calls are incomplete.

The files are `folder/NNNNNNNN.spool`, in order; the recorder removes them. They are not fsynced: a
power cut may lose the record of a conversation, but not the conversation.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

import msgspec

from harken.capture.proxy.frames import (
    AnswerHead,
    CallEnd,
    CallHead,
    Content,
    FrameKind,
    encode_frame,
)
from harken.capture.proxy.spool_redactor import SpoolRedactor
from harken.core import structs

WRITER_LOCK = "writer.lock"
"""Locked while a process writes this spool."""
SPOOL_SUFFIX = ".spool"
_LINGER_S = 0.03
"""The time to collect more items before a write: fewer writes disturb the traffic less."""
_RETRY_DELAY_S = 1.0
_BATCH_BYTES = 1 << 22
_CLOSE_TIMEOUT_S = 10.0

Item: TypeAlias = tuple[int, FrameKind, Content]
Opens: TypeAlias = Callable[[Path], int]


class SpoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the data that is stored for the recorder."""

    body_bytes: int = 64 << 20
    """Of one request, and of one response."""
    queue_bytes: int = 128 << 20
    """In memory, until it is written."""
    spool_bytes: int = 2 << 30
    """On disk, until it is recorded."""
    file_bytes: int = 16 << 20


def create_spool_file(path: Path) -> int:
    """Create a private file for appending. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)


class ProxySpool(msgspec.Struct):
    """The spool of all calls. It is called from one thread, and has one of its own."""

    folder: Path
    on_notice: Callable[[str], None]
    """Called when recording stops, and when it resumes."""
    on_written: Callable[[], None]
    """Called when data was written."""
    limits: SpoolLimits = msgspec.field(default_factory=SpoolLimits)
    opens: Opens = create_spool_file
    redactor: SpoolRedactor | None = None
    """Removes credentials before anything is written."""
    unrecorded: Counter[str] = msgspec.field(default_factory=Counter)
    """The number of calls that were not started, by reason."""
    problem: str = ""
    """Why recording is stopped. Empty if it is not."""
    calls: int = 0
    """The number of calls."""
    _queue: SimpleQueue[Item | None] = msgspec.field(default_factory=SimpleQueue)
    _put_bytes: int = 0
    _written_bytes: int = 0
    _failed: set[int] = msgspec.field(default_factory=set)
    """Calls with missing data."""
    _pending_ends: dict[int, CallEnd] = msgspec.field(default_factory=dict)
    """End frames of these calls that were not written yet."""
    _file: int = -1
    _file_number: int = 0
    _sizes: dict[Path, int] = msgspec.field(default_factory=dict)
    _lock: int = -1
    _thread: Thread | None = None

    def start(self) -> None:
        """Create the folder, and start the writing thread. Raises OSError."""
        # `parents` would create the folder of all spools with the default permissions.
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        self._lock = os.open(self.folder / WRITER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._thread = Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def begin(self, head: CallHead) -> CallWriter:
        """Start to record a call, or count it as unrecorded."""
        self.calls += 1
        if self.problem:
            self.unrecorded[self.problem] += 1
            return CallWriter(self, 0)
        writer = CallWriter(self, self.calls)
        writer.put(FrameKind.CALL, head)
        return writer

    def put(self, item: Item) -> bool:
        """Queue an item. Return whether it was accepted."""
        number, kind, content = item
        if number in self._failed and kind is not FrameKind.END:
            return False
        size = len(content) if isinstance(content, bytes) else 1000
        if (
            kind is not FrameKind.END
            and self._put_bytes - self._written_bytes > self.limits.queue_bytes
        ):
            return False
        self._put_bytes += size
        self._queue.put(item)
        return True

    def close(self) -> None:
        """Write the remaining items, as far as possible."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(_CLOSE_TIMEOUT_S)
        self._thread = None
        os.close(self._lock)

    def _run(self) -> None:
        """Write items until the queue is closed."""
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if batch or self.problem:
                self._write_batch(batch)
        self._close_file()

    def _next_batch(self) -> tuple[list[Item], bool]:
        """Wait for items. Return them, and whether the queue is still open."""
        try:
            item = self._queue.get(timeout=_RETRY_DELAY_S if self.problem else None)
        except Empty:
            return [], True
        time.sleep(_LINGER_S)
        batch: list[Item] = []
        size = 0
        with suppress(Empty):
            while item is not None:
                batch.append(item)
                size += len(item[2]) if isinstance(item[2], bytes) else 1000
                if size > _BATCH_BYTES:
                    return batch, True
                item = self._queue.get_nowait()
            return batch, False
        return batch, True

    def _write_batch(self, batch: list[Item]) -> None:
        """Write items, or note which were not written."""
        items: list[Item] = [(call, FrameKind.END, end) for call, end in self._pending_ends.items()]
        items += [self._with_reason(item) for item in batch if self._should_write(item)]
        if self.redactor is not None:
            items = [*self.redactor.redact(items)]
            for line in self.redactor.report_new():
                self.on_notice(line)
        reason = self._check_space()
        if not reason:
            try:
                self._write(b"".join(encode_frame(*item) for item in items))
            except OSError as error:
                self._close_file()
                reason = f"{self.folder}: {error.strerror or error}"
        self._written_bytes += sum(
            len(item[2]) if isinstance(item[2], bytes) else 1000 for item in batch
        )
        if reason:
            self._note_failure(items, reason)
            return
        self._failed -= {call for call, kind, _ in items if kind is FrameKind.END}
        self._pending_ends.clear()
        if self.problem:
            self.problem = ""
            self.on_notice("recording continues")
        self.on_written()

    def _should_write(self, item: Item) -> bool:
        return item[1] is FrameKind.END or item[0] not in self._failed

    def _with_reason(self, item: Item) -> Item:
        """Return the item. If its call has missing data, its end frame gets a reason."""
        call, kind, content = item
        if call in self._failed and isinstance(content, CallEnd):
            reason = content.broken or "it could not be recorded completely"
            return call, kind, structs.replace(content, broken=reason)
        return item

    def _note_failure(self, items: list[Item], reason: str) -> None:
        for call, kind, content in items:
            self._failed.add(call)
            if kind is FrameKind.END and isinstance(content, CallEnd):
                self._pending_ends[call] = self._with_reason((call, kind, content))[2]  # type: ignore[assignment]
        if not self.problem:
            self.on_notice(f"recording stopped, traffic continues: {reason}")
        self.problem = reason

    def _check_space(self) -> str:
        """Return why nothing may be written. Return "" if there is space."""
        if sum(self._sizes.values()) > self.limits.spool_bytes:
            self._sizes = {path: size for path, size in self._sizes.items() if path.exists()}
        if sum(self._sizes.values()) > self.limits.spool_bytes:
            return f"{self.folder}: the spool is full, because its calls could not be recorded"
        return ""

    def _write(self, data: bytes) -> None:
        """Append to the current file, or to a new one. Raises OSError."""
        path = self._path()
        if self._file >= 0 and self._sizes[path] > self.limits.file_bytes:
            self._close_file()
        if self._file < 0:
            self._file_number += 1
            path = self._path()
            self._file = self.opens(path)
            self._sizes[path] = 0
        view = memoryview(data)
        while view:
            byte_count = os.write(self._file, view)
            self._sizes[path] += byte_count
            view = view[byte_count:]

    def _path(self) -> Path:
        return self.folder / f"{self._file_number:08d}{SPOOL_SUFFIX}"

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class CallWriter(msgspec.Struct):
    """Write the frames of one call."""

    _spool: ProxySpool
    _number: int
    """0 if nothing is recorded."""
    _reason: str = ""
    """Why the call is incomplete."""
    _body_bytes: int = 0
    _data_bytes: int = 0

    def put(self, kind: FrameKind, content: Content = b"") -> None:
        """Write a frame."""
        if not self._number or (self._reason and kind is not FrameKind.END):
            return
        if not self._spool.put((self._number, kind, content)):
            self._reason = "it could not be recorded completely"

    def body(self, data: bytes) -> None:
        """Write bytes of the request."""
        self._body_bytes += len(data)
        if self._body_bytes > self._spool.limits.body_bytes:
            limit_mb = self._spool.limits.body_bytes >> 20
            self._reason = self._reason or f"a request of more than {limit_mb} MB is not recorded"
        self.put(FrameKind.BODY, data)

    def end_request(self) -> None:
        """Write that the request is complete."""
        self.put(FrameKind.ASKED)

    def answer(self, head: AnswerHead) -> None:
        """Write the start of the response."""
        self.put(FrameKind.ANSWER, head)

    def data(self, data: bytes) -> None:
        """Write bytes of the response."""
        self._data_bytes += len(data)
        if self._data_bytes > self._spool.limits.body_bytes:
            limit_mb = self._spool.limits.body_bytes >> 20
            self._reason = self._reason or f"an answer is recorded up to {limit_mb} MB"
        self.put(FrameKind.DATA, data)

    def end(self, end: CallEnd) -> None:
        """Write the end of the call."""
        if self._reason:
            end = structs.replace(end, broken=self._reason)
        self.put(FrameKind.END, end)
        self._number = 0
