"""Webhooks: real requests over loopback and the notifications of the agent."""

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


class WebhookClient:
    """A listening webhook and its client."""

    def __init__(self, source: WebhookCalled, client: aiohttp.ClientSession) -> None:
        self.source, self.client = source, client
        self.base = f"http://127.0.0.1:{source.armed.port}"

    async def post(self, path: str = TOKEN, body: bytes = b"hi", **options: str) -> tuple[int, str]:
        async with self.client.post(f"{self.base}/{path}", data=body, headers=options) as answer:
            return answer.status, await answer.text()

    async def heard(self) -> TriggerEvent:
        happening = await self.source.wait()
        assert happening.on_logged is not None
        happening.on_logged()
        return happening


@asynccontextmanager
async def start_webhook() -> AsyncIterator[WebhookClient]:
    server = Webhooks()
    port = await server.start()
    armed = WebhookTrigger(token_sha256=token_sha256(TOKEN), port=port)
    try:
        async with WebhookCalled(armed, server).open(), aiohttp.ClientSession() as client:
            yield WebhookClient(server.sources[0], client)
    finally:
        await server.close()


def test_response_is_sent_after_the_message_is_logged(tmp_path: object) -> None:
    del tmp_path

    async def act() -> None:
        async with start_webhook() as client:
            asking = asyncio.create_task(client.post(body=b"[hook x]: OK\nship it"))
            happening = await client.source.wait()
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


def test_token_may_be_in_a_header_and_a_wrong_one_gets_404() -> None:
    async def act() -> None:
        async with start_webhook() as client:
            assert await client.post("wrong") == (404, "not found\n")
            assert await client.post("") == (404, "not found\n")
            assert (await client.post("", Authorization="Bearer wrong"))[0] == 404
            async with client.client.get(f"{client.base}/{TOKEN}") as answer:
                assert answer.status == 405
            asking = asyncio.create_task(client.post("", Authorization=f"Bearer {TOKEN}"))
            await client.heard()
            assert (await asking)[0] == 202

    run(act())


def test_excess_requests_are_rejected_and_the_others_are_one_notification() -> None:
    async def act() -> None:
        async with start_webhook() as client:
            too_large = await client.post(body=b"x" * (MAX_BODY_BYTES + 1))
            assert too_large == (413, f"more than {MAX_BODY_BYTES:,} bytes\n")
            asking = [
                asyncio.create_task(client.post(body=b"x" * 10_000))
                for _ in range(MAX_WAITING_MESSAGES)
            ]
            while len(client.source.waiting) < MAX_WAITING_MESSAGES:
                await asyncio.sleep(0.01)
            assert await client.post() == (429, "too many requests\n")
            happening = await client.heard()
            assert happening.text.startswith(
                f"{MAX_WAITING_MESSAGES} messages from outside (80,000 bytes; "
            )
            assert len(happening.text) < 5000
            assert {status for status, _ in await asyncio.gather(*asking)} == {202}

    run(act())


def test_waiting_client_is_answered_when_the_webhook_closes() -> None:
    async def act() -> None:
        async with start_webhook() as client:
            asking = asyncio.create_task(client.post())
            while not client.source.waiting:
                await asyncio.sleep(0.01)
            client.source.waiting[0].logged.cancel()
            assert await asking == (503, "the trigger ended\n")

    run(act())


def test_idle_connections_do_not_block_requests() -> None:
    async def act() -> None:
        async with start_webhook() as client:
            early = asyncio.create_task(client.post())
            while not client.source.waiting:
                await asyncio.sleep(0.01)
            idle = [
                await asyncio.open_connection("127.0.0.1", client.source.armed.port)
                for _ in range(MAX_UNAUTHORIZED_CONNECTIONS + 20)
            ]
            for reader, _ in idle[:20]:
                async with asyncio.timeout(5):
                    assert await reader.read() == b""
            late = asyncio.create_task(client.post())
            while len(client.source.waiting) < 2:
                await asyncio.sleep(0.01)
            await client.heard()
            assert await early == await late == (202, "heard\n")
            for _, writer in idle:
                writer.close()

    run(act())


def test_port_in_use_is_reported() -> None:
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
