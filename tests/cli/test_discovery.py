"""What is at hand: keys, SDKs, servers of this machine; and that looking is quick and does no harm."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from threading import Thread

import pytest

from harken.config.discovery import LOCAL_S, ProviderStatus, discover, list_models
from harken.llm.providers import BUILT_IN, Provider
from tests.loopback_kit import Loopback, models_body, serve_loopback


def here(url: str, name: str = "here") -> Provider:
    return Provider(name=name, base_url=url)


def everything(module: str) -> bool:
    return True


def nothing(module: str) -> bool:
    return False


def only(found: list[ProviderStatus]) -> ProviderStatus:
    [one] = found
    return one


def test_a_server_that_runs_tells_its_models() -> None:
    with serve_loopback(Loopback(models_body("llama3.2:latest", "models/qwen3"))) as server:
        one = only(discover([here(server.url)], has=everything))
    assert one.is_ready
    assert one.models == ("llama3.2:latest", "qwen3")
    [(path, headers, _)] = server.requests
    assert path == "/v1/models"
    assert "authorization" not in headers


def test_a_server_that_does_not_run_is_to_be_started() -> None:
    one = only(discover([here("http://127.0.0.1:1/v1")], has=everything))
    assert one.missing == ("not running: start it at http://127.0.0.1:1/v1",)
    assert not one.is_ready


def test_a_key_or_an_sdk_that_is_missing_is_told() -> None:
    openai = replace(BUILT_IN["openai"], api_key="")
    assert only(discover([openai], has=nothing)).missing == (
        "set OPENAI_API_KEY",
        "pip install 'harken[openai]'",
    )
    anthropic = replace(BUILT_IN["anthropic"], api_key="k")
    assert only(discover([anthropic], has=nothing)).missing == ("pip install 'harken[anthropic]'",)
    assert only(discover([anthropic], has=everything)).is_ready


def test_nobody_elsewhere_is_asked_without_being_told_to() -> None:
    # 192.0.2.0/24 is for documentation: asking it would wait until the limit
    far = Provider(name="far", base_url="http://192.0.2.1/v1", key_env="K", api_key="k")
    assert only(discover([far], has=everything)).is_ready


def test_asked_elsewhere_the_key_goes_where_it_belongs() -> None:
    def far(name: str, protocol: str, url: str) -> Provider:
        return replace(BUILT_IN[protocol], name=name, base_url=url, api_key=f"key of {name}")

    with (
        serve_loopback(Loopback(models_body("claude-x"))) as first,
        serve_loopback(Loopback(models_body("gpt-x"))) as second,
        serve_loopback(Loopback(status=302, headers={"location": first.url})) as third,
    ):
        found = discover(
            [
                far("a", "anthropic", first.url.removesuffix("/v1")),
                far("b", "openai", second.url),
                far("c", "openai", third.url),
                replace(BUILT_IN["openai"], name="d", base_url=second.url, api_key=""),
            ],
            remote=True,
            has=everything,
        )
    assert [one.models for one in found] == [("claude-x",), ("gpt-x",), (), ()]
    [(path, headers, _)] = first.requests  # not by the redirect
    assert path == "/v1/models?limit=1000"
    assert headers["x-api-key"] == "key of a"
    [(_, headers, _)] = second.requests  # not without a key
    assert headers["authorization"] == "Bearer key of b"
    assert found[3].missing == ("set OPENAI_API_KEY",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"\xff",
        b'{"data": 5}',
        b"[" * 100_000,
        b'{"data": [' + b'{"id": "x"}, ' * 400_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_server_that_answers_something_else_has_no_models(body: bytes) -> None:
    with serve_loopback(Loopback(body)) as server:
        assert list_models(here(server.url), timeout_s=2) is None
        server.body = models_body("x")
        server.status = 500
        assert list_models(here(server.url), timeout_s=2) is None


def test_names_that_nobody_could_type_are_left_out() -> None:
    rows = [{"id": "ok"}, {"id": 5}, 5, {"id": "a b"}, {"id": "\x1b[31m"}, {"id": "é"}, {"id": ""}]
    body = json.dumps({"data": [*rows, {"id": "x" * 300}, {"id": "ok"}, {}]}).encode()
    with serve_loopback(Loopback(body)) as server:
        assert list_models(here(server.url), timeout_s=2) == ["ok"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/v1", "http://[::1", "http://x\r\ny/v1"])
def test_an_address_that_is_none_does_no_harm(url: str) -> None:
    assert list_models(Provider(name="x", base_url=url), timeout_s=0.1) is None


def test_many_servers_are_asked_at_once_and_the_slow_ones_are_not_waited_for() -> None:
    """Also one that sends a byte now and then, for ever: each of its reads is quick."""
    drip = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = drip.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n")
            try:
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.1)
            except OSError:
                pass

    Thread(target=serve, daemon=True).start()
    with drip, serve_loopback(Loopback(models_body("x"), delay_s=LOCAL_S * 2)) as slow:
        dripping = f"http://127.0.0.1:{drip.getsockname()[1]}/v1"
        servers = [here(slow.url, f"s{n}") for n in range(40)] + [here(dripping, "drip")]
        begun = time.monotonic()
        found = discover(servers, has=everything)
        took_s = time.monotonic() - begun
    assert not any(one.is_ready for one in found)
    assert took_s < LOCAL_S * len(servers) / 2  # at once, not one after the other
