"""Request timeouts: silence ends a request, and the time of the user does not."""

from __future__ import annotations

import asyncio

import pytest

from harken.world.mcp.timeout import RequestTimeout
from tests.mcp_kit import run


def test_silent_request_is_cancelled() -> None:
    async def scene() -> None:
        patience = RequestTimeout(0.05)
        with pytest.raises(TimeoutError), patience:
            await asyncio.sleep(10)
        assert patience.is_over
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(scene())


def test_progress_extends_the_timeout_up_to_a_limit() -> None:
    async def scene() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience = RequestTimeout(0.5, longest_s=1)
        with pytest.raises(TimeoutError), patience:
            while True:
                await asyncio.sleep(0.02)
                patience.renew()
        return loop.time() - began

    assert 0.9 < run(scene()) < 30


def test_time_of_the_user_does_not_count() -> None:
    async def scene() -> None:
        patience = RequestTimeout(0.6, longest_s=0.6)
        with patience:
            with patience.waiting_for_a_person():
                await asyncio.sleep(0.8)
            await asyncio.sleep(0.02)
        assert not patience.is_over

    run(scene())


def test_cancellation_by_another_task_is_propagated() -> None:
    async def inner() -> None:
        with RequestTimeout(5):
            await asyncio.sleep(10)

    async def scene() -> None:
        task = asyncio.create_task(inner())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outer = asyncio.timeout(0.05)
        with pytest.raises(TimeoutError):
            async with outer:
                await inner()
        assert outer.expired()

    run(scene())


def test_inner_timeout_error_is_not_converted() -> None:
    async def scene() -> None:
        patience = RequestTimeout(5)
        with pytest.raises(TimeoutError), patience:
            raise TimeoutError
        assert not patience.is_over

    run(scene())
