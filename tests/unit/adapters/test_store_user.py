"""`StoreThreads`: calls of one task stay in one thread, and a call that has begun is completed."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from harken.adapters.store_user import StoreThreads, complete


def test_calls_that_follow_each_other_stay_in_one_thread() -> None:
    async def main() -> set[int]:
        threads = StoreThreads()
        return {await threads.submit(threading.get_ident) for _ in range(200)}

    assert len(asyncio.run(main())) == 1


def test_more_calls_than_threads_are_all_made() -> None:
    async def main() -> list[int]:
        threads = StoreThreads(2)
        return await asyncio.gather(*[threads.submit(lambda n=n: n) for n in range(50)])  # type: ignore[misc]

    assert asyncio.run(main()) == [*range(50)]


def test_an_error_is_raised_where_the_result_is_awaited() -> None:
    async def main() -> None:
        await StoreThreads().submit(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_a_call_that_is_cancelled_before_it_begins_is_not_made() -> None:
    async def main() -> list[str]:
        threads, made, may_end = StoreThreads(1), list[str](), threading.Event()
        first = threads.submit(lambda: may_end.wait(10))
        second = threads.submit(lambda: made.append("second"))
        second.cancel()
        may_end.set()
        await first
        await threads.submit(lambda: made.append("third"))
        return made

    assert asyncio.run(main()) == ["third"]


def test_a_call_has_the_context_variables_of_its_task() -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def main() -> str:
        variable.set("tea")
        return str(await StoreThreads().submit(variable.get))

    assert asyncio.run(main()) == "tea"


def test_a_task_that_is_cancelled_twice_ends_after_its_call() -> None:
    async def main() -> list[str]:
        steps: list[str] = []
        begun, may_end = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait(10)
            steps.append("work")

        async def call() -> None:
            try:
                await complete(work)
            finally:
                steps.append("end of the task")

        task = asyncio.ensure_future(call())
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        assert steps == []
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return steps

    assert asyncio.run(main()) == ["work", "end of the task"]
