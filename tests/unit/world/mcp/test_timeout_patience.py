"""Patience: a request ends where nothing comes, and not while somebody thinks."""

from __future__ import annotations

import asyncio

import pytest

from harken.world.mcp.timeout import RequestTimeout
from tests.mcp_kit import run


def test_a_request_that_says_nothing_is_cancelled() -> None:
    async def scene() -> None:
        patience = RequestTimeout(0.05)
        with pytest.raises(TimeoutError), patience:
            await asyncio.sleep(10)
        assert patience.is_over
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(scene())


def test_a_sign_of_life_gives_it_more_time_but_not_for_ever() -> None:
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


def test_a_person_s_time_does_not_count() -> None:
    async def scene() -> None:
        patience = RequestTimeout(0.6, longest_s=0.6)
        with patience:
            with patience.waiting_for_a_person():
                await asyncio.sleep(0.8)
            await asyncio.sleep(0.02)
        assert not patience.is_over

    run(scene())


def test_who_is_cancelled_by_somebody_else_is_cancelled() -> None:
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


def test_a_timeout_from_inside_is_none_of_its_own() -> None:
    async def scene() -> None:
        patience = RequestTimeout(5)
        with pytest.raises(TimeoutError), patience:
            raise TimeoutError
        assert not patience.is_over

    run(scene())
