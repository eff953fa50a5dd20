"""`StoreThreads`: the threads in which adapters of asyncio use a store.

A thread has a connection to the file, with the pages that it has read. So the thread that became
idle last gets the next call: a task that makes one call after the other stays in one thread. The
pool of asyncio starts another thread for nearly each of the first calls, since a result arrives
before its thread is idle.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec

MAX_THREADS = 32


class _Call(msgspec.Struct):
    """A call of a function, and the future of its result in an event loop."""

    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class StoreThreads:
    """A pool of threads, the last idle one first. Event loops of several threads may share it."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self.process = os.getpid()
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Call]] = []
        self._waiting: deque[_Call] = deque()
        self._count = 0

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a function in a thread. Return the future of its result in the running loop.

        The call is completed also if the future is cancelled.
        """
        loop = asyncio.get_running_loop()
        call = _Call(function, loop, loop.create_future())
        with self._lock:
            if self._idle:
                self._idle.pop().put(call)
            elif self._count < self._max_threads:
                self._start(call)
            else:
                self._waiting.append(call)
        return call.future

    def _start(self, call: _Call) -> None:
        self._count += 1
        calls: SimpleQueue[_Call] = SimpleQueue()
        calls.put(call)
        name = f"harken-store-{self._count}"
        # The end of a program waits for no thread: a call that nobody waits for may be cut off.
        threading.Thread(target=self._run, args=[calls], name=name, daemon=True).start()

    def _run(self, calls: SimpleQueue[_Call]) -> None:
        while True:
            call = calls.get()
            result, error = None, None
            try:
                result = call.function()
            except BaseException as raised:  # noqa: BLE001 - raised where the result is awaited
                error = raised
            with self._lock:  # Before the result arrives, so that the next call comes here.
                if self._waiting:
                    calls.put(self._waiting.popleft())
                else:
                    self._idle.append(calls)
            with suppress(RuntimeError):  # The loop was closed: nothing awaits the result.
                call.loop.call_soon_threadsafe(_finish, call.future, result, error)
            del call, result, error


def _finish(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # It was cancelled.
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


_threads = StoreThreads()


def get_store_threads() -> StoreThreads:
    """Return the threads of this process."""
    global _threads  # noqa: PLW0603 - a fork has no threads of its parent
    if _threads.process != os.getpid():
        _threads = StoreThreads()
    return _threads
