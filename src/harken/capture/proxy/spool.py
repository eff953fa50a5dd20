"""The spool: what passes through the proxy, appended to files, for the recorder to read.

One idea: whoever passes bytes on never waits. It puts what happened into a queue; a thread of the
spool writes it. Where that cannot be written, recording stops and says so, and what was not
recorded is counted; it goes on by itself when it can. A call that was begun always gets its end,
if only later, so that the recorder knows which calls are not whole.

`folder/NNNNNNNN.spool` are the files, in order; the recorder removes them. Nothing is fsynced: what
a power cut takes is a conversation's record, not the conversation.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

import msgspec

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead, Content, FrameKind, encoded

WRITER_LOCK = "writer.lock"
"""Held as long as somebody writes this spool."""
ENDING = ".spool"
_LINGER_S = 0.03
"""So long is waited for more before it is written: few writes, and the passing is not disturbed."""
_AGAIN_S = 1.0
_BATCH_BYTES = 1 << 22
_PATIENCE_S = 10.0

Item: TypeAlias = tuple[int, FrameKind, Content]
Opens: TypeAlias = Callable[[Path], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLimits:
    """How much is kept for the recorder."""

    body_bytes: int = 64 << 20
    """Of one request, and of one answer."""
    queue_bytes: int = 128 << 20
    """In memory, until it is written."""
    spool_bytes: int = 2 << 30
    """On disk, until it is recorded."""
    file_bytes: int = 16 << 20


def new_file(path: Path) -> int:
    """Make a file for its owner alone, to append to. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)


@dataclass(slots=True)
class ProxySpool:
    """What is written of all calls. Used by one thread, beside its own."""

    folder: Path
    tell: Callable[[str], None]
    """Is told when recording stops, and when it goes on."""
    poke: Callable[[], None]
    """Is called when there is something to read."""
    limits: SpoolLimits = field(default_factory=SpoolLimits)
    opens: Opens = new_file
    unrecorded: Counter[str] = field(default_factory=Counter)
    """How many calls were not even begun, and why."""
    trouble: str = ""
    """Why nothing is recorded now; empty: it is."""
    calls: int = 0
    """How many were begun."""
    _queue: SimpleQueue[Item | None] = field(default_factory=SimpleQueue)
    _put_bytes: int = 0
    _written_bytes: int = 0
    _failed: set[int] = field(default_factory=set)
    """Calls of which something is missing."""
    _owed: dict[int, CallEnd] = field(default_factory=dict)
    """Their ends, which could not be written either."""
    _file: int = -1
    _name: int = 0
    _sizes: dict[Path, int] = field(default_factory=dict)
    _lock: int = -1
    _thread: Thread | None = None

    def start(self) -> None:
        """Make the folder, and begin to write. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True)
        self._lock = os.open(self.folder / WRITER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._thread = Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def begin(self, head: CallHead) -> CallWriter:
        """Record a call from now on, or count that it is not recorded."""
        self.calls += 1
        if self.trouble:
            self.unrecorded[self.trouble] += 1
            return CallWriter(self, 0)
        track = CallWriter(self, self.calls)
        track.put(FrameKind.CALL, head)
        return track

    def put(self, item: Item) -> bool:
        """Let an item be written; return whether it is taken."""
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
        """Write what is left, as far as it can be written."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(_PATIENCE_S)
        self._thread = None
        os.close(self._lock)

    def _run(self) -> None:
        """Write what comes, until the end."""
        is_open = True
        while is_open:
            batch, is_open = self._next()
            if batch or self.trouble:
                self._keep(batch)
        self._shut()

    def _next(self) -> tuple[list[Item], bool]:
        """Wait for items; return them, and whether more may come."""
        try:
            item = self._queue.get(timeout=_AGAIN_S if self.trouble else None)
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

    def _keep(self, batch: list[Item]) -> None:
        """Write items, or note what could not be written."""
        whole: list[Item] = [(call, FrameKind.END, end) for call, end in self._owed.items()]
        whole += [self._seen(item) for item in batch if self._is_wanted(item)]
        reason = self._full()
        if not reason:
            try:
                self._write(b"".join(encoded(*item) for item in whole))
            except OSError as error:
                self._shut()
                reason = f"{self.folder}: {error.strerror or error}"
        self._written_bytes += sum(
            len(item[2]) if isinstance(item[2], bytes) else 1000 for item in batch
        )
        if reason:
            self._fail(whole, reason)
            return
        self._failed -= {call for call, kind, _ in whole if kind is FrameKind.END}
        self._owed.clear()
        if self.trouble:
            self.trouble = ""
            self.tell("recording goes on")
        self.poke()

    def _is_wanted(self, item: Item) -> bool:
        return item[1] is FrameKind.END or item[0] not in self._failed

    def _seen(self, item: Item) -> Item:
        """Return the item; of a call of which something is missing, an end that says so."""
        call, kind, content = item
        if call in self._failed and isinstance(content, CallEnd):
            reason = content.broken or "not all of it could be kept for the record"
            return call, kind, msgspec.structs.replace(content, broken=reason)
        return item

    def _fail(self, items: list[Item], reason: str) -> None:
        for call, kind, content in items:
            self._failed.add(call)
            if kind is FrameKind.END and isinstance(content, CallEnd):
                self._owed[call] = self._seen((call, kind, content))[2]  # type: ignore[assignment]
        if not self.trouble:
            self.tell(f"recording stops, the traffic goes on: {reason}")
        self.trouble = reason

    def _full(self) -> str:
        """Return why no more may be written; empty: it may."""
        if sum(self._sizes.values()) > self.limits.spool_bytes:
            self._sizes = {path: size for path, size in self._sizes.items() if path.exists()}
        if sum(self._sizes.values()) > self.limits.spool_bytes:
            return f"{self.folder}: is full, because what is in it could not be recorded"
        return ""

    def _write(self, data: bytes) -> None:
        """Append to the file, or to a new one. Raises OSError."""
        path = self._path()
        if self._file >= 0 and self._sizes[path] > self.limits.file_bytes:
            self._shut()
        if self._file < 0:
            self._name += 1
            path = self._path()
            self._file = self.opens(path)
            self._sizes[path] = 0
        view = memoryview(data)
        while view:
            written = os.write(self._file, view)
            self._sizes[path] += written
            view = view[written:]

    def _path(self) -> Path:
        return self.folder / f"{self._name:08d}{ENDING}"

    def _shut(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(slots=True)
class CallWriter:
    """What is written of one call."""

    _spool: ProxySpool
    _number: int
    """0: nothing is."""
    _reason: str = ""
    """Why it is not whole."""
    _body_bytes: int = 0
    _data_bytes: int = 0

    def put(self, kind: FrameKind, content: Content = b"") -> None:
        """Write that something happened."""
        if not self._number or (self._reason and kind is not FrameKind.END):
            return
        if not self._spool.put((self._number, kind, content)):
            self._reason = "not all of it could be kept for the record"

    def body(self, data: bytes) -> None:
        """Write bytes of the request."""
        self._body_bytes += len(data)
        if self._body_bytes > self._spool.limits.body_bytes:
            most = self._spool.limits.body_bytes >> 20
            self._reason = self._reason or f"a request of more than {most} MB is not recorded"
        self.put(FrameKind.BODY, data)

    def asked(self) -> None:
        """Write that the request is whole."""
        self.put(FrameKind.ASKED)

    def answer(self, head: AnswerHead) -> None:
        """Write how the answer began."""
        self.put(FrameKind.ANSWER, head)

    def data(self, data: bytes) -> None:
        """Write bytes of the answer."""
        self._data_bytes += len(data)
        if self._data_bytes > self._spool.limits.body_bytes:
            most = self._spool.limits.body_bytes >> 20
            self._reason = self._reason or f"an answer is recorded up to {most} MB"
        self.put(FrameKind.DATA, data)

    def end(self, end: CallEnd) -> None:
        """Write how the call ended."""
        if self._reason:
            end = msgspec.structs.replace(end, broken=self._reason)
        self.put(FrameKind.END, end)
        self._number = 0
