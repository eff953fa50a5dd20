"""`AsyncHarkenSaver`: `HarkenSaver` with asynchronous methods, for `ainvoke` and `astream`.

A thread of the saver reads and writes the files, so the event loop does not wait for the disk.
It is one thread, because the files have one connection, and a new thread would start slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from harken.adapters.langgraph.saver import HarkenSaver
from harken.core.clock import Clock, system_clock
from harken.store.base import Store

T = TypeVar("T")

_LISTED_AT_ONCE = 16


class AsyncHarkenSaver(HarkenSaver):
    """A checkpoint saver with synchronous and asynchronous methods."""

    def __init__(
        self,
        folder: str | Path,
        *,
        serde: SerializerProtocol | None = None,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Use this folder. As `HarkenSaver`."""
        super().__init__(folder, serde=serde, store=store, clock=clock)
        self._executor = ThreadPoolExecutor(1, "harken-saver")

    def close(self) -> None:
        """Close the files after the calls so far. A second call does nothing."""
        self._executor.shutdown()
        super().close()

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the thread of the saver."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, function, *arguments)

    async def __aenter__(self) -> Self:
        """Return the saver."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the files."""
        await asyncio.to_thread(self.close)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        tuples = self.list(config, filter=filter, before=before, limit=limit)
        while batch := await self._run(lambda: [*islice(tuples, _LISTED_AT_ONCE)]):
            for checkpoint_tuple in batch:
                yield checkpoint_tuple

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._run(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._run(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._run(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._run(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._run(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )
