"""Where a browser comes back to: it answers who knows the secret of the login, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harken.errors import ConfigError
from harken.world.mcp.auth.redirect_server import AuthorizationResponse, Callback
from tests.mcp_kit import run


async def knock(callback: Callback, request: str) -> str:
    """Send a request by hand; return all of the answer."""
    port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode("latin-1"))
    await writer.drain()
    said = await reader.read()
    writer.close()
    return said.decode()


def get(target: str) -> str:
    return f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def scene(play: Callable[[Callback], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        async with Callback() as callback:
            callback.expect("right")
            await play(callback)

    run(inside())


def test_the_answer_that_knows_the_state_counts_and_only_the_first() -> None:
    async def play(callback: Callback) -> None:
        waiting = asyncio.create_task(callback.answer(10))
        assert "404" in await knock(callback, get("/callback?code=evil&state=wrong"))
        assert "404" in await knock(callback, get("/callback?code=evil"))
        assert "404" in await knock(callback, get("/favicon.ico?state=right&code=evil"))
        assert "404" in await knock(callback, "POST /callback?state=right HTTP/1.1\r\n\r\n")
        assert not waiting.done()
        said = await knock(callback, get("/callback?code=c0de&state=right&iss=https%3A%2F%2Fa"))
        assert said.startswith("HTTP/1.1 200 OK\r\n")
        assert "You can close this window" in said
        assert "c0de" not in said
        assert "404" in await knock(callback, get("/callback?code=second&state=right"))
        assert await waiting == AuthorizationResponse(
            code="c0de", state="right", issuer="https://a"
        )

    scene(play)


def test_before_a_state_is_known_nothing_is_an_answer() -> None:
    async def play() -> None:
        async with Callback() as callback:
            assert "404" in await knock(callback, get("/callback?code=x&state="))
            assert not callback.accept("http://127.0.0.1/callback?code=x")

    run(play())


def test_a_refusal_is_an_answer() -> None:
    async def play(callback: Callback) -> None:
        said = await knock(callback, get("/callback?error=access_denied&state=right"))
        assert "You were not logged in" in said
        assert (await callback.answer(1)).error == "access_denied"

    scene(play)


def test_whoever_sends_what_is_no_request_keeps_nobody_from_answering() -> None:
    async def play(callback: Callback) -> None:
        waiting = asyncio.create_task(callback.answer(10))
        for noise in ("\xff\xfe\r\n\r\n", "GET\r\n\r\n", "GET /callback\r\n\r\n", "x" * 70_000):
            with_end = noise if noise.endswith("\n") else f"{noise}\r\n\r\n"
            try:
                await knock(callback, with_end)
            except ConnectionError:
                continue
        port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        assert "200" in await knock(callback, get("/callback?code=c&state=right"))
        assert (await waiting).code == "c"
        silent.close()

    scene(play)


def test_what_a_person_pastes_counts_as_well() -> None:
    async def play(callback: Callback) -> None:
        assert not callback.accept("nonsense")
        assert not callback.accept(f"{callback.address}?code=c&state=wrong")
        assert callback.accept(f" {callback.address}?code=c&state=right\n")
        assert (await callback.answer(1)).code == "c"

    scene(play)


def test_nobody_is_waited_for_without_end() -> None:
    async def play(callback: Callback) -> None:
        with pytest.raises(ConfigError, match=r"no login within 0\.05 s"):
            await callback.answer(0.05)

    scene(play)


def test_two_never_listen_at_one_port() -> None:
    async def play(callback: Callback) -> None:
        port = int(callback.address.rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(
            ConfigError, match=f"port {port}, the `callback_port` of this server, cannot be opened"
        ):
            async with Callback(port):
                pass

    scene(play)
