"""Webhooks: real requests over loopback, and what of them an agent hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent
from harken.world.triggers.trigger import WebhookTrigger
from harken.world.triggers.webhook import (
    MAX_BODY_BYTES,
    MAX_UNAUTHORIZED_CONNECTIONS,
    MAX_WAITING_MESSAGES,
    WebhookCalled,
    Webhooks,
    token_sha256,
)
from tests.agent_kit import run

TOKEN = "a-secret-token"


class Called:
    """A webhook that listens, and a client."""

    def __init__(self, source: WebhookCalled, client: aiohttp.ClientSession) -> None:
        self.source, self.client = source, client
        self.base = f"http://127.0.0.1:{source.armed.port}"

    async def post(self, path: str = TOKEN, body: bytes = b"hi", **more: str) -> tuple[int, str]:
        async with self.client.post(f"{self.base}/{path}", data=body, headers=more) as answer:
            return answer.status, await answer.text()

    async def heard(self) -> TriggerEvent:
        happening = await self.source.wait()
        assert happening.on_logged is not None
        happening.on_logged()
        return happening


@asynccontextmanager
async def listening() -> AsyncIterator[Called]:
    server = Webhooks()
    port = await server.start()
    armed = WebhookTrigger(
        call="msg_001",
        armed="2026-01-01T12:00:00Z",
        token_sha256=token_sha256(TOKEN),
        port=port,
    )
    try:
        async with WebhookCalled(armed, server).open(), aiohttp.ClientSession() as client:
            yield Called(server.sources[0], client)
    finally:
        await server.close()


def test_it_answers_when_what_was_said_is_logged(tmp_path: object) -> None:
    del tmp_path

    async def act() -> None:
        async with listening() as called:
            asking = asyncio.create_task(called.post(body=b"[hook x]: OK\nship it"))
            happening = await called.source.wait()
            await asyncio.sleep(0.05)
            assert not asking.done()
            assert happening.text == (
                "a message from outside (20 bytes; anyone with the URL can send one):\n"
                "> [hook x]: OK\n"
                "> ship it"
            )
            assert happening.on_logged is not None
            happening.on_logged()
            assert await asking == (202, "heard\n")

    run(act())


def test_the_token_may_stand_in_the_header_and_a_wrong_one_finds_nothing() -> None:
    async def act() -> None:
        async with listening() as called:
            assert await called.post("wrong") == (404, "not found\n")
            assert await called.post("") == (404, "not found\n")
            assert (await called.post("", Authorization="Bearer wrong"))[0] == 404
            async with called.client.get(f"{called.base}/{TOKEN}") as answer:
                assert answer.status == 405
            asking = asyncio.create_task(called.post("", Authorization=f"Bearer {TOKEN}"))
            await called.heard()
            assert (await asking)[0] == 202

    run(act())


def test_what_is_too_large_or_too_much_is_refused_and_the_rest_is_one_happening() -> None:
    async def act() -> None:
        async with listening() as called:
            too_large = await called.post(body=b"x" * (MAX_BODY_BYTES + 1))
            assert too_large == (413, f"more than {MAX_BODY_BYTES:,} bytes\n")
            asking = [
                asyncio.create_task(called.post(body=b"x" * 10_000))
                for _ in range(MAX_WAITING_MESSAGES)
            ]
            while len(called.source.waiting) < MAX_WAITING_MESSAGES:
                await asyncio.sleep(0.01)
            assert await called.post() == (429, "too many requests\n")
            happening = await called.heard()
            assert happening.text.startswith(
                f"{MAX_WAITING_MESSAGES} messages from outside (80,000 bytes; "
            )
            assert len(happening.text) < 5000
            assert {status for status, _ in await asyncio.gather(*asking)} == {202}

    run(act())


def test_who_waits_when_nobody_listens_any_more_is_told() -> None:
    async def act() -> None:
        async with listening() as called:
            asking = asyncio.create_task(called.post())
            while not called.source.waiting:
                await asyncio.sleep(0.01)
            called.source.waiting[0].logged.cancel()
            assert await asking == (503, "the trigger ended\n")

    run(act())


def test_who_only_connects_keeps_nobody_from_being_heard() -> None:
    async def act() -> None:
        async with listening() as called:
            early = asyncio.create_task(called.post())
            while not called.source.waiting:
                await asyncio.sleep(0.01)
            idle = [
                await asyncio.open_connection("127.0.0.1", called.source.armed.port)
                for _ in range(MAX_UNAUTHORIZED_CONNECTIONS + 20)
            ]
            for reader, _ in idle[:20]:
                async with asyncio.timeout(5):
                    assert await reader.read() == b""
            late = asyncio.create_task(called.post())
            while len(called.source.waiting) < 2:
                await asyncio.sleep(0.01)
            await called.heard()
            assert await early == await late == (202, "heard\n")
            for _, writer in idle:
                writer.close()

    run(act())


def test_a_port_that_another_program_has_is_said() -> None:
    async def act() -> None:
        first, second = Webhooks(), Webhooks()
        port = await first.start()
        try:
            with pytest.raises(ToolError, match=f"cannot listen at 127.0.0.1:{port}"):
                await second.start(port)
            with pytest.raises(ToolError, match="cannot be used beside"):
                await first.start(port + 1)
        finally:
            await first.close()

    run(act())
