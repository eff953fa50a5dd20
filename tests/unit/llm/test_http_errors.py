"""Which kind of failure it is, and what of a provider's words a person sees."""

from __future__ import annotations

from typing import Any

import pytest

from harken.llm.http_errors import ModelErrorFactory

KEY = "sk-proj-ABCdef0123456789-ghijkl"
FAILURES = ModelErrorFactory(model="x/y", host="example.org", key=KEY)


class Refused(Exception):
    """What an SDK raises for an answer with an error status."""

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
def test_a_conversation_that_is_too_long_is_known_by_the_words_of_many(text: str) -> None:
    for body in ({"error": {"message": text}}, {"message": text}, text):
        assert FAILURES.from_exception(Refused(400, body)).kind == "context_too_long"
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
def test_a_status_says_what_failed(status: int, body: Any, why: str) -> None:
    error = FAILURES.from_exception(Refused(status, body))
    assert (error.kind, error.status) == (why, status)


class ConnectTimeout(Exception):
    """What the HTTP library below an SDK raises."""


class APITimeoutError(Exception):
    """What an SDK raises for it, as for every silence."""


def test_a_connection_that_takes_too_long_is_no_silence_of_the_model() -> None:
    slow, silent = APITimeoutError(), APITimeoutError()
    slow.__cause__ = ConnectTimeout()
    assert [FAILURES.from_exception(error).kind for error in (slow, silent)] == [
        "network",
        "timeout",
    ]


def test_the_message_is_found_wherever_it_stands() -> None:
    for body in ({"error": {"message": "oops"}}, [{"error": {"message": "oops"}}], "oops"):
        assert "(400): oops; " in str(FAILURES.from_exception(Refused(400, body)))


def test_what_nobody_has_thought_of_is_told_with_its_name() -> None:
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
def test_an_event_says_what_failed(event: Any, why: str) -> None:
    assert FAILURES.from_body(event).kind == why


@pytest.mark.parametrize(
    "said",
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
def test_nothing_like_a_key_is_shown(said: str) -> None:
    text = FAILURES.quote(said)
    assert "[key]" in text
    for secret in (KEY[8:16], "ABCdef01", "somebody", "whatever", "89abcdef", "SyA123"):
        assert secret not in text


@pytest.mark.parametrize(
    "said",
    [
        "The model claude-sonnet-4-5-20250929 does not exist",
        "messages.3.content.0.tool_use.id: should match '^[a-zA-Z0-9_-]+$'",
        "skipped-something, keyboard-interrupted; see https://docs.example.org/en/api/errors",
        "prompt is too long: 215000 tokens > 200000 maximum",
    ],
)
def test_what_is_no_key_is_shown(said: str) -> None:
    assert FAILURES.quote(said) == said


def test_a_key_that_is_a_word_hides_no_other_words() -> None:
    """Servers of one's own take any key: `x`, `none`."""
    failures = ModelErrorFactory(model="a/b", host="here", key="x")
    assert failures.quote("x is no key; the context is too long") == (
        "[key] is no key; the context is too long"
    )


def test_what_a_provider_says_is_one_short_line() -> None:
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
def test_a_body_of_any_shape_gives_a_text(body: Any) -> None:
    text = str(FAILURES.from_exception(Refused(400, body)))
    assert text.startswith("x/y: example.org refused the request (400)")
