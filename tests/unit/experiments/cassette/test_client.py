"""Real SDK clients with a loopback provider, and then without it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from harken.experiments.cassette.cassette import Cassette
from harken.session.verify import verify
from tests.provider.server import Provider
from tests.sdk_kit import ASYNC, SYNC, o_chat, respond, sync_openai

NOWHERE = "http://127.0.0.1:9"


def use_and_close(client: Any, use: Callable[[Any], Any]) -> Any:
    """Use a client and close it."""
    if not inspect.iscoroutinefunction(use):
        with client:
            return use(client)

    async def call() -> Any:
        async with client:
            return await use(client)

    return asyncio.run(call())


@pytest.mark.parametrize(
    ("make", "use"), [*SYNC, *ASYNC], ids=lambda function: getattr(function, "__name__", "")
)
def test_client_replays_recorded_responses_offline(
    tmp_path: Path, make: Callable[..., Any], use: Callable[[Any], Any]
) -> None:
    file = tmp_path / "a.jsonl"
    with Provider(respond) as provider:
        plain = use_and_close(make(provider.url), use)
        cassette = Cassette(file)
        assert use_and_close(cassette.wrap(make(provider.url)), use) == plain
        cassette.close()
    assert verify(file) == []
    assert use_and_close(Cassette(file).wrap(make(NOWHERE)), use) == plain


def test_miss_is_a_bad_request_that_names_the_nearest(tmp_path: Path) -> None:
    with Provider(respond) as provider:
        cassette = Cassette(tmp_path / "a.jsonl")
        use_and_close(cassette.wrap(sync_openai(provider.url)), o_chat)
        cassette.close()
    wrapped = Cassette(tmp_path / "a.jsonl").wrap(sync_openai(NOWHERE))
    with wrapped, pytest.raises(openai.BadRequestError, match=r"nearest is .*--harken-record"):
        wrapped.chat.completions.create(
            model="gpt-6", messages=[{"role": "user", "content": "Something else."}]
        )


def test_requests_without_a_model_are_forwarded(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl", "none")
    with cassette.wrap(httpx.Client(transport=httpx.MockTransport(_teapot))) as client:
        assert client.get(f"{NOWHERE}/v1/messages").status_code == 418
        assert client.post(f"{NOWHERE}/v1/messages", content=b"no JSON").status_code == 418
        assert client.post(f"{NOWHERE}/v1/embeddings", json={}).status_code == 418


def test_credentials_of_a_response_are_not_stored(tmp_path: Path) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwx"
    chunk_base: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-6",
    }
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": key}}
    pieces = [{"role": "assistant", "content": key[:12]}, {"content": key[12:]}]
    chunks: list[dict[str, Any]] = [
        {
            **chunk_base,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": piece_text}],
        }
        for piece_text in pieces
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"

    def answer(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content).get("stream"):
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=headers, text="".join(lines) + "data: [DONE]\n\n")
        return httpx.Response(200, json={**chunk_base, "choices": [choice]})

    file = tmp_path / "a.jsonl"
    cassette = Cassette(file)
    request_body = {"model": "gpt-6", "messages": [{"role": "user", "content": "Hi"}]}
    url = f"{NOWHERE}/v1/chat/completions"
    with cassette.wrap(httpx.Client(transport=httpx.MockTransport(answer))) as client:
        assert key in client.post(url, json=request_body).text
        assert "sk-proj-" in client.post(url, json={**request_body, "stream": True}).text
    cassette.close()
    assert "sk-proj-" not in file.read_text()
    with Cassette(file).wrap(httpx.Client()) as client:
        assert "[redacted openai-key]" in client.post(url, json=request_body).text
        refused = client.post(url, json={**request_body, "stream": True})
        assert refused.status_code == 400
        assert "not recorded in its wire format" in refused.text


def _teapot(request: httpx.Request) -> httpx.Response:
    return httpx.Response(418)


def test_other_clients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="openai, anthropic or httpx"):
        Cassette(tmp_path / "a.jsonl").wrap(object())
