"""The mock provider speaks the protocols, records requests and forwards nothing."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from harken.capture.resume.mock_provider import (
    MAX_REQUEST_BYTES,
    MockProvider,
    run_mock_provider,
)
from harken.core.messages import Message, text_of
from harken.core.stream import Finish
from harken.formats.wire.registry import find_protocol
from harken.llm.anthropic import AnthropicModel
from harken.llm.http_model import ModelEndpoint
from harken.llm.openai import OpenAIModel
from harken.testing import request_of
from tests.unit.llm.model_kit import get_answer

PROTOCOLS = {
    "/v1/messages": "messages",
    "/v1/responses": "input",
    "/v1/chat/completions": "messages",
    "/v1beta/models/gemini-2.5-pro:generateContent": "contents",
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent": "contents",
}


@pytest.fixture
def server() -> Iterator[MockProvider]:
    with run_mock_provider() as running:
        yield running


def post(server: MockProvider, path: str, body: Any) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize("stream", [True, False])
def test_server_records_a_request_and_answers_ok(
    server: MockProvider, path: str, stream: bool
) -> None:
    conversation = [{"role": "user", "content": "Hi"}]
    body = {"stream": stream, PROTOCOLS[path]: conversation, "tools": [{"name": "look"}]}
    status, text = post(server, f"{path}?beta=true", body)
    assert status == 200
    assert '"ok"' in text
    assert text.startswith(("event: ", "data: ")) == (stream or "stream" in path)
    (request,) = server.requests
    assert (request.path, request.body, request.conversation) == (path, body, conversation)
    assert request.has_tools


def test_vendor_sdks_parse_its_answers(server: MockProvider) -> None:
    models = (
        AnthropicModel(
            "anthropic/m", "m", endpoint=ModelEndpoint(base_url=server.url, api_key="none")
        ),
        OpenAIModel(
            "openai/m", "m", endpoint=ModelEndpoint(base_url=f"{server.url}/v1", api_key="none")
        ),
    )
    for model in models:
        assert get_answer(model, request_of("Hi")).content == "ok"
    assert [request.body["model"] for request in server.requests] == ["m", "m"]


def test_token_count_and_model_list_are_the_only_other_routes(server: MockProvider) -> None:
    status, text = post(server, "/v1/messages/count_tokens", {"messages": []})
    assert (status, json.loads(text)["input_tokens"]) == (200, 1)
    status, text = post(server, "/v1beta/models/m:countTokens", {"contents": []})
    assert (status, json.loads(text)["totalTokens"]) == (200, 1)
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=10) as response:
        assert json.load(response)["data"] == []
    assert post(server, "/api/event_logging", {})[0] == 404
    assert post(server, "/v1/messages", [1])[0] == 404
    assert server.requests == []
    assert len(server.others) == 5


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b'{"messages": 5}', b"null"])
def test_malformed_bodies_are_harmless(server: MockProvider, body: bytes) -> None:
    assert post(server, "/v1/messages", body)[0] in (200, 404)
    assert post(server, "/v1/messages", {"messages": [1, {"role": "user"}]})[0] == 200
    assert server.requests[-1].conversation == [{"role": "user"}]


def test_body_of_unknown_length_is_refused(server: MockProvider) -> None:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    connection.putrequest("POST", "/v1/messages")
    connection.putheader("content-length", "-5")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_server_forwards_nothing(server: MockProvider) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as line:
        line.sendall(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 403")
    assert server.others == ["CONNECT example.org:443"]


def test_wait_returns_the_first_matching_request(server: MockProvider) -> None:
    assert server.wait(lambda _: True, 0.01) is None
    for text in ("a", "b"):
        post(server, "/v1/messages", {"messages": [{"role": "user", "content": text}]})
    match = server.wait(lambda request: request.conversation[0]["content"] == "b", 5)
    assert match is not None
    assert match is server.requests[1]


def test_server_listens_on_loopback_until_the_block_ends() -> None:
    with run_mock_provider() as running:
        port = running.server_address[1]
        assert running.url == f"http://127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def parse(path: str, text: str) -> tuple[list[Message], Finish | None]:
    protocol = find_protocol(path)
    assert protocol is not None
    listener = protocol.listener(200)
    listener.feed(text.encode())
    response = listener.end()
    assert response.error == ""
    return [message for piece in response.pieces for message in protocol.read(piece)[0]], (
        response.finish
    )


@pytest.mark.parametrize("path", PROTOCOLS)
def test_stream_and_body_are_the_same_response(server: MockProvider, path: str) -> None:
    conversation = [{"role": "user", "content": "Hi"}]
    body = {"model": "m", PROTOCOLS[path]: conversation}
    responses = [parse(path, post(server, path, {**body, "stream": s})[1]) for s in (True, False)]
    assert responses[0] == responses[1]
    [message], finish = responses[0]
    assert (message.role, text_of(message.content)) == ("assistant", "ok")
    assert finish is not None
    assert finish.stop_reason in ("stop", "end_turn", "completed", "STOP")
    usage = finish.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (1, 1)


@pytest.mark.parametrize(("length", "status"), [(MAX_REQUEST_BYTES + 1, 413), ("2", 404)])
def test_size_of_a_request_is_limited(server: MockProvider, length: object, status: int) -> None:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    connection.putrequest("POST", "/v1/other")
    connection.putheader("content-length", str(length))
    connection.endheaders(b"{}")
    assert connection.getresponse().status == status
    connection.close()
