"""A wrapped client returns the same results, and its calls are recorded.

The SDKs are the real ones; the provider is a server on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from harken.formats.wire import registry as wires
from harken.interactions.sdk.background import BackgroundRecorder
from harken.interactions.sdk.wrap import wrap_client
from tests.otlp_kit import CallCollector
from tests.provider.server import Answer, Provider, ReceivedRequest, Step, as_json
from tests.provider.wire import ANTHROPIC, KEY, OPENAI
from tests.sdk_kit import (
    ASYNC,
    HI,
    REQUEST,
    RESPONSES,
    STREAMS,
    SYNC,
    a_messages,
    async_anthropic,
    b_messages,
    dump,
    o_chat,
    respond,
    sync_anthropic,
    sync_openai,
)


class CollectingRecorder(BackgroundRecorder):
    """A background worker whose recorder collects the calls."""

    def __init__(self) -> None:
        self.collected = CallCollector()
        super().__init__(self.collected)


@pytest.mark.parametrize(
    ("make", "use"), SYNC, ids=lambda function: getattr(function, "__name__", "")
)
def test_wrapped_client_returns_the_same_results(
    make: Callable[..., Any], use: Callable[[Any], Any]
) -> None:
    with (
        Provider(respond) as provider,
        CollectingRecorder() as into,
        make(provider.url) as client,
    ):
        plain = use(client)
        assert use(wrap_client(client, into)) == plain
        into.flush()
        (call,), (reply,) = into.collected.calls, into.collected.replies
        assert json.loads(call.body) == provider.bodies[1] == provider.bodies[0]
        assert call.path == provider.asked[0].path
        assert (reply.id, reply.status, reply.broken) == (call.id, 200, "")
        protocol = wires.WIRE_PROTOCOLS[call.protocol]
        listener = protocol.listener(reply.status)
        listener.feed(reply.body)
        assert "Hello" in str(protocol.read(listener.end().pieces[0])[0])


@pytest.mark.parametrize(
    ("make", "use"), ASYNC, ids=lambda function: getattr(function, "__name__", "")
)
def test_wrapped_async_client_returns_the_same_results(
    make: Callable[..., Any], use: Callable[[Any], Any]
) -> None:
    async def both(url: str, into: BackgroundRecorder) -> None:
        async with make(url) as client:
            plain = await use(client)
            assert await use(wrap_client(client, into)) == plain

    with Provider(respond) as provider, CollectingRecorder() as into:
        asyncio.run(both(provider.url, into))
        into.flush()
        assert json.loads(into.collected.calls[0].body) == provider.bodies[1]
        assert [reply.broken for reply in into.collected.replies] == [""]


def test_each_attempt_of_a_retried_call_is_recorded() -> None:
    script = [
        ANTHROPIC.error(429, "slow down", "rate_limit_error", retry_after_ms="1"),
        ANTHROPIC.error(500, "oops", "api_error", retry_after_ms="1"),
        as_json(RESPONSES["/v1/messages"]),
    ]
    with Provider(script) as provider, CollectingRecorder() as into:
        with wrap_client(sync_anthropic(provider.url, max_retries=2), into) as client:
            assert client.messages.create(**REQUEST).content[0].text == "Hello."
        into.flush()
        assert [reply.status for reply in into.collected.replies] == [429, 500, 200]
        assert [reply.broken for reply in into.collected.replies] == ["", "", ""]


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_client_errors_are_unchanged(status: int) -> None:
    with Provider(lambda _: OPENAI.error(status, "no")) as provider, CollectingRecorder() as into:
        with sync_openai(provider.url) as client:
            with pytest.raises(openai.APIStatusError) as plain:
                client.chat.completions.create(model="m", messages=HI)
            with pytest.raises(type(plain.value)) as wrapped:
                wrap_client(client, into).chat.completions.create(model="m", messages=HI)
        assert str(wrapped.value) == str(plain.value)
        into.flush()
        (reply,) = into.collected.replies
        assert (reply.status, b"no" in reply.body) == (status, True)


def test_interrupted_stream_raises_the_client_error_and_is_recorded() -> None:
    steps: list[Step] = [*STREAMS["/v1/messages"][:4], 0.1, "cut"]
    with Provider(lambda _: Answer(steps)) as provider, CollectingRecorder() as into:
        with sync_anthropic(provider.url) as client:
            results_seen: list[list[Any]] = []
            errors: list[type] = []
            for any_client in (client, wrap_client(client, into)):
                results_seen.append([])
                with pytest.raises(Exception) as error:
                    results_seen[-1].extend(
                        map(dump, any_client.messages.create(**REQUEST, stream=True))
                    )
                errors.append(error.type)
        assert errors[0] is errors[1]
        into.flush()
        (reply,) = into.collected.replies
        assert reply.broken.startswith("the provider cut the connection")
        assert reply.body == b"".join(step for step in steps if isinstance(step, bytes))


def test_stream_abandoned_by_its_client_is_recorded_as_closed() -> None:
    steps: list[Step] = [*STREAMS["/v1/messages"][:4], "hang"]
    with Provider(lambda _: Answer(steps)) as provider, CollectingRecorder() as into:
        with wrap_client(sync_anthropic(provider.url), into) as client:
            stream = client.messages.create(**REQUEST, stream=True)
            next(iter(stream))
            stream.close()
        into.flush()
        assert [reply.broken for reply in into.collected.replies] == ["the client hung up"]


def test_timed_out_call_is_recorded_as_such() -> None:
    with Provider(lambda _: Answer(["hang"])) as provider, CollectingRecorder() as into:
        client = wrap_client(sync_openai(provider.url, timeout=0.2), into)
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="m", messages=HI)
        client.close()
        into.flush()
        assert "waited no longer" in into.collected.replies[0].broken


def test_unreachable_provider_raises_the_client_error() -> None:
    with (
        CollectingRecorder() as into,
        wrap_client(sync_openai("http://127.0.0.1:9"), into) as client,
    ):
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(model="m", messages=HI)
        into.flush()
        (reply,) = into.collected.replies
        assert (reply.status, reply.broken) == (0, "the provider was not reached (ConnectError)")


class BlockingRecorder(CallCollector):
    """A recorder that blocks until it is released."""

    may = threading.Event()

    def begin(self, call: Any) -> None:
        assert self.may.wait(30)
        super().begin(call)


def test_first_event_is_not_delayed() -> None:
    steps: list[Step] = [STREAMS["/v1/chat/completions"][1], 0.6, *STREAMS["/v1/chat/completions"]]
    ear = BlockingRecorder()
    with Provider(lambda _: Answer(steps)) as provider, BackgroundRecorder(ear) as into:
        with wrap_client(sync_openai(provider.url), into) as client:
            stream = client.chat.completions.create(model="m", messages=HI, stream=True)
            next(stream)
            ear.may.set()
            list(stream)
        into.flush()
        (reply,) = ear.replies
        assert reply.first_byte_s is not None
        assert reply.latency_s is not None
        assert reply.latency_s - reply.first_byte_s > 0.5


class FailingRecorder(CallCollector):
    """A recorder that raises."""

    def begin(self, call: Any) -> None:
        raise OSError("the disk\nis full")


def test_failing_recorder_never_breaks_a_call_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ear = FailingRecorder()
    with Provider(respond) as provider, BackgroundRecorder(ear) as into:
        with wrap_client(sync_openai(provider.url), into) as client:
            for _ in range(3):
                assert o_chat(client)["choices"][0]["message"]["content"] == "Hello."
        into.flush()
        assert (into.dropped, ear.events) == (3, [])
    log_texts = [
        record.getMessage() for record in caplog.records if record.name.startswith("harken")
    ]
    assert log_texts == ["a call was not recorded (OSError: the disk is full)"]


def test_calls_of_many_threads_are_recorded() -> None:
    def ask(number: int) -> None:
        messages: Any = [{"role": "user", "content": str(number)}]
        is_streamed = number % 2 == 0
        answer: Any = client.chat.completions.create(
            model="m", messages=messages, stream=is_streamed
        )
        if is_streamed:
            list(answer)

    with Provider(respond) as provider, CollectingRecorder() as into:
        with wrap_client(sync_openai(provider.url), into) as client, ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(40)))
        into.flush()
        questions = {body["messages"][0]["content"] for body in into.collected.request_bodies}
        assert questions == {str(number) for number in range(40)}
        ends = [reply.id for reply in into.collected.replies]
        assert sorted(ends) == sorted(call.id for call in into.collected.calls)


def test_no_credential_reaches_the_recorder() -> None:
    with Provider(respond) as provider, CollectingRecorder() as into:
        headers = {"x-custom-token": KEY, "cookie": KEY}
        with wrap_client(sync_anthropic(provider.url, default_headers=headers), into) as client:
            client.messages.create(**REQUEST, extra_query={"key": KEY})
        into.flush()
        assert KEY not in repr(into.collected.events)


def test_compressed_answer_is_recorded_unchanged() -> None:
    full_body = json.dumps(RESPONSES["/v1/messages"]).encode()
    head = {"content-type": "application/json", "content-encoding": "gzip"}
    compressed_answer = Answer([gzip.compress(full_body)], headers=head)
    with Provider(lambda _: compressed_answer) as provider, CollectingRecorder() as into:
        client = wrap_client(sync_anthropic(provider.url), into)
        assert client.messages.create(**REQUEST).content[0].text == "Hello."
        client.close()
        into.flush()
        assert into.collected.replies[0].body == full_body


def test_requests_without_a_model_are_not_recorded() -> None:
    def counting(request: ReceivedRequest) -> Answer:
        return as_json({"input_tokens": 5})

    with Provider(counting) as provider, CollectingRecorder() as into:
        with wrap_client(sync_anthropic(provider.url), into) as client:
            assert client.messages.count_tokens(model="m", messages=HI).input_tokens == 5
        into.flush()
        assert into.collected.events == []


def test_wrapped_client_outlives_the_original() -> None:
    with Provider(respond) as provider, CollectingRecorder() as into:
        client = wrap_client(sync_anthropic(provider.url), into)
        gc.collect()
        assert client.messages.create(**REQUEST).content[0].text == "Hello."
        client.close()
        assert client.is_closed()


def test_original_client_still_works_and_is_not_recorded() -> None:
    with (
        Provider(respond) as provider,
        CollectingRecorder() as into,
        sync_openai(provider.url) as client,
    ):
        wrap_client(client, into)
        gc.collect()
        o_chat(client)
        into.flush()
        assert into.collected.events == []


def test_client_keeps_its_options_and_its_copies_are_recorded() -> None:
    with Provider(respond) as provider, CollectingRecorder() as into:
        with sync_openai(provider.url, timeout=7, organization="org") as client:
            wrapped = wrap_client(client, into)
            assert (wrapped.timeout, wrapped.organization) == (7, "org")
            o_chat(wrapped.with_options(timeout=5))
            assert wrap_client(wrapped, into) is wrapped
        into.flush()
        assert len(into.collected.calls) == 1


def test_custom_http_client_is_used() -> None:
    request_headers: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        request_headers.append(request.url.path)
        return httpx2.Response(200, json=RESPONSES["/v1/messages"])

    http = httpx2.Client(transport=httpx2.MockTransport(answer), headers={"x-mine": "1"})
    with (
        CollectingRecorder() as into,
        sync_anthropic("http://provider", http_client=http) as client,
    ):
        assert a_messages(wrap_client(client, into)) == a_messages(client)
        into.flush()
        assert request_headers == ["/v1/messages"] * 2
        assert json.loads(into.collected.replies[0].body) == RESPONSES["/v1/messages"]


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_plain_httpx_client_is_recorded(library: Any) -> None:
    with Provider(respond) as provider, CollectingRecorder() as into, library.Client() as client:
        wrapped = wrap_client(client, into)
        url = f"{provider.url}/v1/messages?beta=true"
        plain = client.post(url, json=REQUEST).json()
        assert wrapped.post(url, json=REQUEST).json() == plain
        with wrapped.stream("POST", url, json={**REQUEST, "stream": True}) as response:
            assert b"".join(response.iter_bytes()) == b"".join(STREAMS["/v1/messages"])
        into.flush()
        assert [call.path for call in into.collected.calls] == ["/v1/messages?beta=true"] * 2


def test_clients_of_other_vendors_are_recorded() -> None:
    """Azure paths, the older httpx below OpenAI's client, aiohttp below Anthropic's."""

    def any_answer(request: ReceivedRequest) -> Answer:
        is_chat = "chat/completions" in request.path
        return as_json(RESPONSES["/v1/chat/completions" if is_chat else "/v1/messages"])

    async def by_aiohttp(url: str, into: BackgroundRecorder) -> None:
        http = anthropic.DefaultAioHttpClient()
        async with wrap_client(async_anthropic(url, http_client=http), into) as client:
            assert (await b_messages(client))["id"] == "msg_1"

    with Provider(any_answer) as provider, CollectingRecorder() as into:
        azure = openai.AzureOpenAI(
            api_key=KEY, azure_endpoint=provider.url, api_version="1", azure_deployment="d"
        )
        older = sync_openai(provider.url, http_client=httpx.Client())
        for client in (azure, older):
            with wrap_client(client, into) as wrapped:
                assert o_chat(wrapped)["id"] == "c1"
        asyncio.run(by_aiohttp(provider.url, into))
        into.flush()
        assert [(reply.status, reply.broken) for reply in into.collected.replies] == [(200, "")] * 3
        assert into.collected.calls[0].path == (
            "/openai/deployments/d/chat/completions?api-version=1"
        )


def test_other_objects_cannot_be_wrapped() -> None:
    with CollectingRecorder() as into, pytest.raises(TypeError, match="object cannot be wrapped"):
        wrap_client(object(), into)


def test_open_calls_are_ended_at_close() -> None:
    steps: list[Step] = [*STREAMS["/v1/messages"][:4], "hang"]
    with Provider(lambda _: Answer(steps)) as provider:
        into = CollectingRecorder()
        with wrap_client(sync_anthropic(provider.url), into) as client:
            stream = client.messages.create(**REQUEST, stream=True)
            next(iter(stream))
            into.close()
            stream.close()
        assert [reply.broken for reply in into.collected.replies] == ["the program ended"]


def test_forked_process_works_without_recording() -> None:
    with Provider(respond) as provider, CollectingRecorder() as into:
        with wrap_client(sync_anthropic(provider.url), into) as client:
            client.messages.create(**REQUEST)
            into.flush()
            child = os.fork()
            if child == 0:
                logging.disable()
                call_count = 1
                with contextlib.suppress(BaseException):
                    fresh = wrap_client(sync_anthropic(provider.url), into)
                    fresh.messages.create(**REQUEST)
                    into.close()
                    call_count = 0 if len(into.collected.calls) == 1 else 2
                os._exit(call_count)
            assert os.waitpid(child, 0)[1] == 0
            client.messages.create(**REQUEST)
        into.flush()
        assert len(into.collected.calls) == 2
        assert len(provider.asked) == 3
