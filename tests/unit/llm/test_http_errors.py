"""Classification of HTTP failures, and the part of the provider's message that the user sees."""

from __future__ import annotations

from typing import Any

import pytest

from harken.llm.http_errors import ModelErrorFactory

KEY = "sk-proj-ABCdef0123456789-ghijkl"
FAILURES = ModelErrorFactory(model="x/y", host="example.org", key=KEY)


class StatusError(Exception):
    """The exception of an SDK for a response with an error status."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"Error code: {status}")
        self.status_code, self.body = status, body


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 215000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
        "Your input exceeds the context window of this model.",
        "the request exceeds the available context size, try increasing it",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "Input is too long for requested model.",
    ],
)
def test_context_overflow_is_recognized_in_the_words_of_each_provider(text: str) -> None:
    for body in ({"error": {"message": text}}, {"message": text}, text):
        assert FAILURES.from_exception(StatusError(400, body)).kind == "context_too_long"
    assert FAILURES.from_body({"message": text}).kind == "context_too_long"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (402, {"message": "no credit"}, "refused"),
        (400, {"error": {"type": "invalid_request_error", "message": "no"}}, "refused"),
        (400, {"message": "foo/bar is not a valid model ID"}, "unknown_model"),
        (408, None, "timeout"),
        (422, [], "refused"),
        (429, {"code": "insufficient_quota", "message": "check your plan"}, "rate_limit"),
        (502, "<html>Bad Gateway</html>", "overloaded"),
        (529, None, "overloaded"),
    ],
)
def test_status_determines_the_kind_of_failure(status: int, body: Any, why: str) -> None:
    error = FAILURES.from_exception(StatusError(status, body))
    assert (error.kind, error.status) == (why, status)


class ConnectTimeout(Exception):
    """The exception of the HTTP library below an SDK."""


class APITimeoutError(Exception):
    """The exception of the SDK for each timeout."""


def test_connect_timeout_is_not_a_response_timeout() -> None:
    slow, silent = APITimeoutError(), APITimeoutError()
    slow.__cause__ = ConnectTimeout()
    assert [FAILURES.from_exception(error).kind for error in (slow, silent)] == [
        "network",
        "timeout",
    ]


def test_error_message_is_found_in_each_body_shape() -> None:
    for body in ({"error": {"message": "oops"}}, [{"error": {"message": "oops"}}], "oops"):
        assert "(400): oops; " in str(FAILURES.from_exception(StatusError(400, body)))


def test_unknown_failure_is_reported_with_its_name() -> None:
    assert "ZeroDivisionError: by zero" in str(
        FAILURES.from_exception(ZeroDivisionError("by zero"))
    )


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        ({"type": "rate_limit_error", "message": "slow down"}, "rate_limit"),
        ({"code": 502, "message": "the provider is gone"}, "overloaded"),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, "rate_limit"),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, "auth"),
        ("it broke", "failed"),
        ({}, "failed"),
    ],
)
def test_error_event_determines_the_kind_of_failure(event: Any, why: str) -> None:
    assert FAILURES.from_body(event).kind == why


@pytest.mark.parametrize(
    "expected",
    [
        KEY,
        f"Incorrect API key provided: {KEY}. You can find yours there.",
        "Incorrect API key provided: ABCdef01*********jkl.",
        f"header value b'Bearer {KEY}'",
        f"...{KEY[4:20]}...",
        "key sk-ant-api03-other-key-of-somebody",
        "authorization: Bearer whatever",
        "token 0123456789abcdef0123456789abcdef",
        "AIzaSyA1234567890abcdefg",
    ],
)
def test_text_that_resembles_a_key_is_redacted(expected: str) -> None:
    text = FAILURES.quote(expected)
    assert "[key]" in text
    for secret in (KEY[8:16], "ABCdef01", "somebody", "whatever", "89abcdef", "SyA123"):
        assert secret not in text


@pytest.mark.parametrize(
    "expected",
    [
        "The model claude-sonnet-4-5-20250929 does not exist",
        "messages.3.content.0.tool_use.id: should match '^[a-zA-Z0-9_-]+$'",
        "skipped-something, keyboard-interrupted; see https://docs.example.org/en/api/errors",
        "prompt is too long: 215000 tokens > 200000 maximum",
    ],
)
def test_other_text_is_not_redacted(expected: str) -> None:
    assert FAILURES.quote(expected) == expected


def test_short_key_does_not_redact_other_words() -> None:
    """Local servers accept any key: `x`, `none`."""
    failures = ModelErrorFactory(model="a/b", host="here", key="x")
    assert failures.quote("x is no key; the context is too long") == (
        "[key] is no key; the context is too long"
    )


def test_provider_message_is_truncated_to_one_line() -> None:
    text = FAILURES.quote("<h1>\r\n" + "no \u2028 way\n" * 1000)
    assert text.startswith("<h1> no way no way")
    assert len(text) == 240
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        [],
        {},
        {"error": {}},
        {"error": {"message": {"a": ["deep"]}}},
        {"error": [1]},
        "\ud800",
    ],
)
def test_body_of_any_shape_becomes_a_text(body: Any) -> None:
    text = str(FAILURES.from_exception(StatusError(400, body)))
    assert text.startswith("x/y: example.org refused the request (400)")
