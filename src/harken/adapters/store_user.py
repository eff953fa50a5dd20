"""`StoreUser`: the store that an adapter uses, and the thread in which it is read and written.

The event loop of a program does not wait for the disk. A change that has begun is completed when
its task is cancelled: the task ends after the outcome is certain.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, Self, TypeVar

import msgspec

from harken.adapters.conversation import StoredConversation
from harken.adapters.conversation_kinds import ConversationKind
from harken.core.clock import Clock, system_clock
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

T = TypeVar("T")
_MAX_CONVERSATIONS = 64
"""The number of conversations whose lines a process keeps in memory."""


class StoreUser:
    """The store of a home folder, or one that its owner closes.

    Use as a context manager, or call `close`.
    """

    def __init__(
        self,
        folder: str | Path = "~/.harken",
        *,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Open the store.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Raises StoreError.
        """
        self._own_store: Store | None = None
        if store is None:
            path = Path(folder).expanduser()
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            store = self._own_store = SqliteStore(path / "store.db", clock=clock)
        self._store = store
        self._clock = clock
        self._is_closed = False

    async def __aenter__(self) -> Self:
        """Return the object."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the store."""
        await complete(self.close)

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Close the store, unless it was passed by the caller. A second call does nothing."""
        self._is_closed = True
        if self._own_store is not None:
            self._own_store.close()

    def _check_open(self, name: str) -> None:
        """Raise RuntimeError after `close`. name: what is closed."""
        if self._is_closed:
            raise RuntimeError(f"{name} is closed")


class ConversationCache:
    """The conversations of a kind that were used last, with the lines that were read."""

    def __init__(self, store: Store, kind: ConversationKind, clock: Clock) -> None:
        self._store, self._kind, self._clock = store, kind, clock
        self._conversations: OrderedDict[tuple[str, str], StoredConversation] = OrderedDict()
        self._lock = Lock()

    def get(self, id_: str, agent: str = "") -> StoredConversation:
        """Return a conversation, which need not exist yet."""
        with self._lock:
            conversation = self._conversations.pop((id_, agent), None)
            if conversation is None:
                conversation = StoredConversation(
                    self._store, self._kind, id_, self._clock, agent=agent
                )
            self._conversations[id_, agent] = conversation
            if len(self._conversations) > _MAX_CONVERSATIONS:
                self._conversations.popitem(last=False)
            return conversation


async def read_in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread. The task may be one of asyncio or trio."""
    if _is_in_asyncio():
        future: asyncio.Future[T] = get_store_threads().submit(function)
        return await future
    from anyio import to_thread  # noqa: PLC0415 - frameworks that run on trio install it

    return await to_thread.run_sync(function)


async def complete(function: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for its end also if the task is cancelled meanwhile.

    The cancellation is raised afterwards. The task may be one of asyncio or trio.
    """
    if not _is_in_asyncio():
        from anyio import CancelScope  # noqa: PLC0415 - frameworks that run on trio install it

        with CancelScope(shield=True):
            return await read_in_thread(function)
    future: asyncio.Future[T] = get_store_threads().submit(function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        future.exception()  # It is read, so that asyncio does not report it as lost.
        raise


def _is_in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


MAX_THREADS = 32


class _Call(msgspec.Struct):
    """A call of a function, and the future of its result in an event loop."""

    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: Context


class StoreThreads:
    """A pool of threads, the last idle one first. Event loops of several threads may share it.

    A thread has a connection to the file, with the pages that it has read. So a task that makes one
    call after the other stays in one thread. The pool of asyncio starts another thread for nearly
    each of the first calls, since a result arrives before its thread is idle.
    """

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self.process = os.getpid()
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Call]] = []
        self._waiting: deque[_Call] = deque()
        self._count = 0

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a function in a thread. Return the future of its result in the running loop.

        A call that has begun is completed also if the future is cancelled.
        """
        loop = asyncio.get_running_loop()
        call = _Call(function, loop, loop.create_future(), copy_context())
        with self._lock:
            if self._idle:
                self._idle.pop().put(call)
            elif self._count < self._max_threads:
                self._start(call)
            else:
                self._waiting.append(call)
        return call.future

    def _start(self, call: _Call) -> None:
        calls: SimpleQueue[_Call] = SimpleQueue()
        calls.put(call)
        name = f"harken-store-{self._count + 1}"
        # The end of a program waits for no thread: a call that nobody waits for may be cut off.
        thread = threading.Thread(target=self._run, args=[calls], name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # The system has no thread left.
            if not self._count:
                raise
            self._waiting.append(call)
        else:
            self._count += 1

    def _run(self, calls: SimpleQueue[_Call]) -> None:
        while True:
            call = calls.get()
            result, error = None, None
            try:
                if not call.future.cancelled():
                    result = call.context.run(call.function)
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
