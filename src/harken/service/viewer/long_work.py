"""Long work for a page: its progress as lines of JSON, and an end when the page leaves.

A line is `{"progress": {"done", "total"}}`, `{"part": ...}` with a part of the answer, or the last
one: `{"answer": ...}` or `{"error": ...}`. An empty line is sent if there was no other for a while.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from fastapi import Request
from fastapi.responses import StreamingResponse

from harken.core import canonical
from harken.service.viewer.code_library import Tell, WorkAbandoned
from harken.service.viewer.responses.headers import LINES_TYPE
from harken.store.remote.errors import ErrorBody, encode_error

Send: TypeAlias = Callable[[object], None]
Work: TypeAlias = Callable[[Tell, Send], object]
"""Does the work: reports its progress, may send parts of the answer, and returns the answer."""
THREADS = 2
_POLL_S = 0.1
_CHECK_POLL_S = 0.01
_MAX_CHECK_S = 5.0
"""The time after which a response begins although the work has reported no progress."""
_HEARTBEAT_S = 15.0


class WorkThreads:
    """The threads for long work. It waits for a free one, and never keeps other routes waiting."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="harken-work")

    async def stream(self, request: Request, work: Work) -> StreamingResponse:
        """Return the lines of work as a response.

        Raises HarkenError if the work fails before it reports progress: the request was wrong.
        """
        task = _Task(work)
        future = asyncio.get_running_loop().run_in_executor(self._executor, task.run)
        deadline = time.monotonic() + _MAX_CHECK_S
        while not (future.done() or task.has_begun or time.monotonic() > deadline):
            await asyncio.wait({future}, timeout=_CHECK_POLL_S)
        if future.done() and task.error is not None and not task.has_begun:
            raise task.error

        async def iter_lines() -> AsyncIterator[bytes]:
            silent_s = 0.0
            try:
                while not (request.app.state.is_closing or await request.is_disconnected()):
                    is_done = future.done()
                    lines = task.take_lines()
                    if lines or silent_s >= _HEARTBEAT_S:
                        silent_s = 0.0
                        yield b"".join(lines) or b"\n"
                    if is_done:
                        return
                    await asyncio.wait({future}, timeout=_POLL_S)
                    silent_s += _POLL_S
            finally:
                task.is_abandoned.set()

        return StreamingResponse(iter_lines(), media_type=LINES_TYPE)


class _Task:
    """Work in a thread, and the lines that it has written."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.is_abandoned = threading.Event()
        self.has_begun = False
        """Whether it has reported progress, or sent a part."""
        self.error: Exception | None = None
        self.lines: deque[bytes] = deque()
        self._progress: tuple[int, int] | None = None

    def run(self) -> None:
        """Do the work. Its failure is the last line."""
        try:
            self._tell_nothing()
            answer = self._work(self._tell, lambda part: self._add("part", part))
        except WorkAbandoned:
            return
        except Exception as error:  # noqa: BLE001 - as in the handlers of the application
            self.error = error
            self.lines.append(canonical.to_json_line(ErrorBody(encode_error(error))) + b"\n")
        else:
            self._add("answer", answer)

    def take_lines(self) -> list[bytes]:
        """Return the lines since the last call, the last progress among them."""
        progress, self._progress = self._progress, None
        lines = [self.lines.popleft() for _ in range(len(self.lines))]
        if progress is not None and not lines:
            lines.append(_encode("progress", dict(zip(("done", "total"), progress, strict=True))))
        return lines

    def _tell(self, count: int, total: int) -> None:
        self._tell_nothing()
        self._progress, self.has_begun = (count, total), True

    def _tell_nothing(self) -> None:
        if self.is_abandoned.is_set():
            raise WorkAbandoned

    def _add(self, name: str, value: object) -> None:
        self._progress, self.has_begun = None, True
        self.lines.append(_encode(name, value))


def _encode(name: str, value: Any) -> bytes:
    return canonical.to_json_line({name: value}) + b"\n"
