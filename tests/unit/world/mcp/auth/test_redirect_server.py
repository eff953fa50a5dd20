"""The redirect server of a login: it accepts one response with the correct state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harken.errors import ConfigError
from harken.world.mcp.auth.redirect_server import AuthorizationResponse, Callback
from tests.mcp_kit import run


async def send_raw(callback: Callback, request: str) -> str:
    """Send a raw request. Return the full response."""
    port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode("latin-1"))
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer.decode()


def get_request(target: str) -> str:
    return f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def run_callback(play: Callable[[Callback], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        async with Callback() as callback:
            callback.expect("right")
            await play(callback)

    run(inside())


def test_first_response_with_the_state_is_accepted() -> None:
    async def play(callback: Callback) -> None:
        waiting = asyncio.create_task(callback.answer(10))
        assert "404" in await send_raw(callback, get_request("/callback?code=evil&state=wrong"))
        assert "404" in await send_raw(callback, get_request("/callback?code=evil"))
        assert "404" in await send_raw(callback, get_request("/favicon.ico?state=right&code=evil"))
        assert "404" in await send_raw(callback, "POST /callback?state=right HTTP/1.1\r\n\r\n")
        assert not waiting.done()
        answer = await send_raw(
            callback, get_request("/callback?code=c0de&state=right&iss=https%3A%2F%2Fa")
        )
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
        assert "You can close this window" in answer
        assert "c0de" not in answer
        assert "404" in await send_raw(callback, get_request("/callback?code=second&state=right"))
        assert await waiting == AuthorizationResponse(
            code="c0de", state="right", issuer="https://a"
        )

    run_callback(play)


def test_response_before_the_state_is_set_is_rejected() -> None:
    async def play() -> None:
        async with Callback() as callback:
            assert "404" in await send_raw(callback, get_request("/callback?code=x&state="))
            assert not callback.accept("http://127.0.0.1/callback?code=x")

    run(play())


def test_error_response_is_accepted() -> None:
    async def play(callback: Callback) -> None:
        answer = await send_raw(callback, get_request("/callback?error=access_denied&state=right"))
        assert "You were not logged in" in answer
        assert (await callback.answer(1)).error == "access_denied"

    run_callback(play)


def test_invalid_requests_do_not_block_a_response() -> None:
    async def play(callback: Callback) -> None:
        waiting = asyncio.create_task(callback.answer(10))
        for noise in ("\xff\xfe\r\n\r\n", "GET\r\n\r\n", "GET /callback\r\n\r\n", "x" * 70_000):
            with_end = noise if noise.endswith("\n") else f"{noise}\r\n\r\n"
            try:
                await send_raw(callback, with_end)
            except ConnectionError:
                continue
        port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        assert "200" in await send_raw(callback, get_request("/callback?code=c&state=right"))
        assert (await waiting).code == "c"
        silent.close()

    run_callback(play)


def test_pasted_url_is_accepted() -> None:
    async def play(callback: Callback) -> None:
        assert not callback.accept("nonsense")
        assert not callback.accept(f"{callback.address}?code=c&state=wrong")
        assert callback.accept(f" {callback.address}?code=c&state=right\n")
        assert (await callback.answer(1)).code == "c"

    run_callback(play)


def test_wait_for_a_response_times_out() -> None:
    async def play(callback: Callback) -> None:
        with pytest.raises(ConfigError, match=r"no login within 0\.05 s"):
            await callback.answer(0.05)

    run_callback(play)


def test_port_is_never_shared() -> None:
    async def play(callback: Callback) -> None:
        port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(
            ConfigError, match=f"port {port}, the `callback_port` of this server, cannot be opened"
        ):
            async with Callback(port):
                pass

    run_callback(play)
