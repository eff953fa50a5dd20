"""LangGraph's own conformance suite: all tests of all capabilities, extended ones included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from harken.adapters.langgraph import AsyncHarkenSaver, HarkenSaver
from harken.store.memory import MemoryStore

TESTS = 81
"""The tests of version 0.0.2. Fewer would be a capability that was not detected."""


class SyncHarkenSaver(HarkenSaver):
    """Asynchronous methods that call the synchronous ones, since the suite is asynchronous."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> Any:
        for checkpoint_tuple in self.list(config, **options):
            yield checkpoint_tuple

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


@pytest.mark.parametrize("kind", [AsyncHarkenSaver, SyncHarkenSaver])
@pytest.mark.parametrize("has_store", [False, True], ids=["sqlite", "memory"])
def test_a_saver_passes_every_test_of_the_conformance_suite(
    tmp_path: Path, kind: type[HarkenSaver], has_store: bool
) -> None:
    folders = iter(range(100))

    async def create() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        store = MemoryStore() if has_store else None
        with kind(tmp_path / str(next(folders)), store=store) as saver:
            yield saver

    registered = checkpointer_test(name=kind.__name__)(create)
    report = asyncio.run(validate(registered))
    assert {name: result.failures for name, result in report.results.items()} == {
        capability.value: [] for capability in ALL_CAPABILITIES
    }
    assert sum(result.tests_passed for result in report.results.values()) == TESTS
