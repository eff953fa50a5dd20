"""Each provider failure is reported in one line, and the session continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harken.core.messages import Message, ThinkingPart
from harken.errors import Failure, ModelError
from tests.agent_kit import Stage, check_log, open_stage, run
from tests.provider.server import HANG, STREAM, Answer, Provider, as_json
from tests.provider.wire import KEY, WIRES, Wire

pytestmark = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

Make = Callable[[Wire], Answer]
HTML = {"content-type": "text/html"}
TOO_LONG = "prompt is too long: 215000 tokens > 200000 maximum"


THOUGHT = Message("assistant", [ThinkingPart("Hm, very long.")])


def partial_answer(wire: Wire, *responses: object) -> Answer:
    """Return an answer that starts correctly and continues with `more`."""
    events = wire.events("It is Jack, and he is late.")
    return Answer([*events[: len(events) // 2], *responses])  # type: ignore[list-item]


FAULTS: dict[str, tuple[Failure, int | None, Make]] = {
    "the key is refused": ("auth", 401, lambda w: w.error(401, f"no such key: {KEY}")),
    "no permission": ("auth", 403, lambda w: w.error(403, "not for you", "permission_error")),
    "no such model": ("unknown_model", 404, lambda w: w.error(404, "model: test-1")),
    "no such model, as a 400": (
        "unknown_model",
        400,
        lambda w: w.error(400, "The model `test-1` does not exist", "model_not_found"),
    ),
    "too many requests": ("rate_limit", 429, lambda w: w.error(429, "slow\ndown")),
    "overloaded": ("overloaded", 529, lambda w: w.error(529, "Overloaded", "overloaded_error")),
    "a failure inside": ("overloaded", 500, lambda w: w.error(500, "oops", "api_error")),
    "a gateway's page": (
        "overloaded",
        503,
        lambda w: Answer([b"<html><h1>503</h1>no\nserver</html>"], 503, HTML),
    ),
    "too long": ("context_too_long", 400, lambda w: w.error(400, TOO_LONG)),
    "too many bytes": ("context_too_long", 413, lambda w: w.error(413, "too large")),
    "refused": ("refused", 400, lambda w: w.error(400, "temperature: no such parameter")),
    "hang": ("timeout", None, lambda w: HANG),
    "hang in the middle": ("timeout", None, lambda w: partial_answer(w, "hang")),
    "cut": ("network", None, lambda w: partial_answer(w, "cut")),
    "cut, and it looks like an end": ("network", None, partial_answer),
    "nothing but an end": ("network", None, lambda w: Answer()),
    "overloaded in the stream": (
        "overloaded",
        None,
        lambda w: partial_answer(w, w.error_event("Overloaded")),
    ),
    "too long in the stream": (
        "context_too_long",
        None,
        lambda w: Answer([w.error_event(TOO_LONG, "invalid_request_error")]),
    ),
    "words for an error": (
        "failed",
        None,
        lambda w: partial_answer(w, b"event: error\ndata: it broke\n\n"),
    ),
    "no JSON": ("malformed", None, lambda w: partial_answer(w, b"event: x\ndata: {oops\n\n")),
    "no sense": (
        "malformed",
        None,
        lambda w: partial_answer(
            w, b'event: x\ndata: {"type":"content_block_delta","choices":[{"delta":7}]}\n\n'
        ),
    ),
    "no text": ("malformed", None, lambda w: partial_answer(w, b"event: x\ndata: \xff\xfe\n\n")),
    "no such encoding": (
        "malformed",
        None,
        lambda w: Answer([b"no gzip"], 200, {"content-encoding": "gzip"}),
    ),
    "no stream": ("malformed", None, lambda w: Answer([b"<html>Welcome</html>"], 200, HTML)),
    "no stream but JSON": ("malformed", None, lambda w: as_json({"hello": "world"})),
    "an error instead of a stream": (
        "rate_limit",
        429,
        lambda w: as_json({"error": {"message": "no credit left", "code": 429}}),
    ),
    "an error of another shape instead of a stream": (
        "refused",
        400,
        lambda w: as_json({"object": "error", "message": "too odd", "code": 400}),
    ),
    "an error of another shape": (
        "refused",
        400,
        lambda w: partial_answer(w, b'data: {"object":"error","message":"too odd","code":400}\n\n'),
    ),
    "aborted": ("failed", None, lambda w: w.answer("Hi", stop_reason="abort")),
    "an end that is none": ("failed", None, lambda w: w.answer("Hi", stop_reason="error")),
    "nothing is said": ("failed", None, lambda w: w.answer(THOUGHT, stop_reason="length")),
    "a refusal": ("refused", None, lambda w: w.answer("", stop_reason="refusal")),
}


USED = {"aborted", "an end that is none", "nothing is said", "a refusal"}
"""Faults of complete responses that report their usage."""


@pytest.mark.req("S0-22")
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_reported_in_one_line_and_the_session_continues(
    tmp_path: Path, wire: Wire, fault: str
) -> None:
    why, status, make = FAULTS[fault]
    with Provider([make(wire), wire.answer("It is Jill.")]) as provider:
        model = wire.model(provider, timeout_s=0.2 if "hang" in fault else 10)
        play = open_stage(tmp_path, model)

        async def ask() -> tuple[ModelError, Stage]:
            with pytest.raises(ModelError) as failed:
                await play.root.response("Who is it?")
            resumed = play.resume(wire.model(provider) if "hang" in fault else model)
            assert await resumed.root.response() == "It is Jill."
            return failed.value, resumed

        error, resumed = run(ask())
    assert (error.kind, error.status) == (why, status)
    text = str(error)
    assert text.startswith(f"{wire.name}/test: 127.0.0.1:")
    assert "\n" not in text
    assert KEY not in text
    assert len(text) < 500
    assert provider.bodies[0] == provider.bodies[1], "asked again, the same: nothing is doubled"
    assert ("usage" in resumed.select_lines(event_type="llm_response")[0]) == (fault in USED)
    ends = [row["stop_reason"] for row in resumed.select_lines(event_type="llm_response")]
    assert ends[0] == "error"
    assert len(ends) == 2
    check_log(play.log)


ENDLESS = [b'{"error":{"message":"too odd"},"more":"', *[b"x" * 65536] * 400, "hang"]


@pytest.mark.parametrize(("status", "why"), [(400, "refused"), (200, "malformed")])
def test_endless_error_body_is_read_up_to_a_limit(
    tmp_path: Path, wire: Wire, status: int, why: str
) -> None:
    endless = Answer(ENDLESS, status, {"content-type": "application/json"})  # type: ignore[arg-type]
    with Provider([endless]) as provider, pytest.raises(ModelError) as failed:
        open_stage(tmp_path, wire.model(provider)).ask("Who is it?")
    assert failed.value.kind == why
    assert len(str(failed.value)) < 500


def test_stream_with_another_content_type_is_decoded(tmp_path: Path, wire: Wire) -> None:
    """Also if its first event is long and arrives in chunks."""
    events = [b": " + b"x" * 200_000, b"\n", *wire.events("It is Jill.")]
    with Provider([Answer(events, 200, {"content-type": "text/plain"})]) as provider:
        assert open_stage(tmp_path, wire.model(provider)).ask("Who is it?") == "It is Jill."


def test_error_with_an_interrupted_body_is_reported(tmp_path: Path, wire: Wire) -> None:
    broken = Answer([b"it is ", "cut"], 403)
    with Provider([broken]) as provider, pytest.raises(ModelError, match="it is") as failed:
        open_stage(tmp_path, wire.model(provider)).ask("Who is it?")
    assert failed.value.kind == "auth"


@pytest.mark.parametrize("name", ["request-id", "x-request-id"])
def test_error_contains_the_request_id(tmp_path: Path, wire: Wire, name: str) -> None:
    refused = wire.error(400, "too odd", **{name: "req_011CS"})
    later = Answer([wire.error_event("Overloaded")], 200, {**STREAM, name: "req_02"})
    unusual = wire.error(400, "too odd", **{name: f"no id, but {KEY}"})
    with Provider([refused, later, unusual]) as provider:
        play = open_stage(tmp_path, wire.model(provider))
        with pytest.raises(ModelError, match=r"\(400, request req_011CS\): too odd; "):
            play.ask("Who is it?")
        with pytest.raises(ModelError, match=r"\(request req_02\)"):
            play.ask("So?")
        with pytest.raises(ModelError, match=r"\(400\): too odd; "):
            play.ask("So?")


@pytest.mark.parametrize("reason", ["max_tokens", "length"])
def test_answer_truncated_by_the_token_limit_advises_a_higher_one(
    tmp_path: Path, wire: Wire, reason: str
) -> None:
    short, members = (
        wire.answer(THOUGHT, stop_reason=reason),
        "; raise max_tokens, then resume",
    )
    with Provider([short]) as provider, pytest.raises(ModelError, match=members):
        open_stage(tmp_path, wire.model(provider)).ask("Who is it?")


@pytest.mark.req("D-06")
def test_redirect_is_not_followed(tmp_path: Path, wire: Wire) -> None:
    """It would send the conversation to a host that the user did not choose."""
    with Provider([wire.answer("Hi.")]) as elsewhere:
        moved = Answer([], 307, {"location": elsewhere.url + wire.path})
        with Provider([moved]) as provider:
            play = open_stage(tmp_path, wire.model(provider))
            with pytest.raises(ModelError, match=r"\(307\).*base URL") as failed:
                play.ask("Who is it?")
    assert failed.value.kind == "unknown_model"
    assert not elsewhere.asked


def test_refused_connection_is_reported(tmp_path: Path, wire: Wire) -> None:
    with Provider([]) as provider:
        pass  # The server is closed now.
    with pytest.raises(ModelError, match="could not be reached") as failed:
        open_stage(tmp_path, wire.model(provider)).ask("Who is it?")
    assert failed.value.kind == "network"


@pytest.mark.parametrize("status", [429, 500, 529])
def test_busy_service_is_retried(tmp_path: Path, wire: Wire, status: int) -> None:
    busy = wire.error(status, "later", retry_after_ms="1")
    with Provider([busy, busy, wire.answer("It is Jill.")]) as provider:
        play = open_stage(tmp_path, wire.model(provider, max_retries=2))
        assert play.ask("Who is it?") == "It is Jill."
    assert len(provider.asked) == 3
    assert len(play.select_lines(event_type="llm_request")) == 1, "for the log it is one call"


def test_retry_after_beyond_the_limit_is_not_waited_for(tmp_path: Path, wire: Wire) -> None:
    busy = wire.error(429, "come back tomorrow", retry_after="90")
    with Provider([busy, wire.answer("It is Jill.")]) as provider:
        play = open_stage(tmp_path, wire.model(provider, max_retries=2))
        with pytest.raises(ModelError, match="come back tomorrow"):
            play.ask("Who is it?")
    assert len(provider.asked) == 1


def test_missing_key_names_the_variable_to_set(tmp_path: Path, wire: Wire) -> None:
    with Provider([wire.error(401, "no key")]) as provider:
        play = open_stage(tmp_path, wire.model(provider, api_key=None))
        with pytest.raises(ModelError, match="none is set.*; set THE_KEY"):
            play.ask("Who is it?")


def test_key_that_no_header_can_hold_is_not_shown(tmp_path: Path, wire: Wire) -> None:
    """For example, a key pasted with additional text."""
    key = f"{KEY}\nexport X=é"
    with Provider([]) as provider, pytest.raises(ModelError) as failed:
        open_stage(tmp_path, wire.model(provider, api_key=key)).ask("Who is it?")
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("url", ["nonsense", "http://[::1", "ftp://example.org"])
def test_invalid_address_is_reported(tmp_path: Path, wire: Wire, url: str) -> None:
    with Provider([]) as provider:
        model = wire.model(provider, base_url=url)
    with pytest.raises(ModelError, match="check the connection and the base URL") as failed:
        open_stage(tmp_path, model).ask("Who is it?")
    assert failed.value.kind == "network"
