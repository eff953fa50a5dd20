"""Requests go to an endpoint: taken, refused for good, or sent again for a while."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, SendError
from harken.interactions.otel import exporter
from harken.interactions.otel.endpoint import OtlpEndpoint
from harken.interactions.otel.exporter import OtlpExportSummary, OtlpOptions, send
from harken.interactions.otel.otlp import JSON, Sender, decode_response
from harken.session.log.reader import iter_events
from tests.session_kit import born, new_session, turn
from tests.spans_kit import Answer, backend, partial, said

DEMO = Path(__file__).parents[3] / "golden" / "demo.jsonl"
HOW = OtlpOptions(sender=Sender("1", resource={"deployment.environment": "test"}))


class Time:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def endpoint(url: str, time_: Time | None = None, **more: Any) -> OtlpEndpoint:
    time_ = time_ or Time()
    return OtlpEndpoint(url=url, clock=time_.clock, sleep=time_.sleep, **more)


def go(url: str, time_: Time | None = None, **more: Any) -> OtlpExportSummary:
    with closing(endpoint(url, time_, **more)) as there:
        return send(iter_events(DEMO), "demo", there, HOW)


@pytest.mark.req("S3-30")
def test_a_session_arrives_packed_with_its_headers_and_resource() -> None:
    with backend() as there:
        done = go(there.url, headers={"x-key": "v"})
        [(path, headers, body)] = there.asked
        assert path == "/v1/traces"
        assert (headers["x-key"], headers["content-encoding"]) == ("v", "gzip")
        assert headers["content-type"] == "application/x-protobuf"
        assert b"deployment.environment" in body
        assert (done.spans, done.batches, done.retries) == (len(there.spans), 1, 0)
        assert {said(span)["gen_ai.conversation.id"] for span in there.spans} == {"demo"}
        assert {span.kind for span in there.spans} == {1, 3}


@pytest.mark.req("S3-30")
def test_the_json_form_says_the_same() -> None:
    with backend() as there:
        go(there.url)
        spans = there.spans
        there.asked.clear()
        go(there.url, content_type=JSON)
        [told] = there.jsons
    written = told["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [one["spanId"] for one in written] == [span.span_id.hex() for span in spans]
    assert [one["traceId"] for one in written] == [span.trace_id.hex() for span in spans]
    assert [one["kind"] for one in written] == [span.kind for span in spans]
    assert written[0]["startTimeUnixNano"] == str(spans[0].start_time_unix_nano)
    assert "gen_ai-dev" in json.dumps(told) or "gen-ai-dev" in json.dumps(told)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_who_is_busy_is_asked_again(status: int) -> None:
    time_ = Time()
    with backend(Answer(status), Answer(status), Answer()) as there:
        done = go(there.url, time_)
        assert (done.retries, len(there.asked)) == (2, 3)
        assert there.asked[0] == there.asked[2]
    first, second = time_.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


def test_who_says_when_is_asked_then() -> None:
    time_ = Time()
    soon = formatdate(time() + 20, usegmt=True)
    later = [Answer(503, headers={"Retry-After": value}) for value in ("7", soon, "soon", "-3")]
    with backend(*later, Answer()) as there:
        go(there.url, time_)
    assert time_.slept[0] == 7
    assert 17 < time_.slept[1] <= 20
    assert time_.slept[2] <= 4
    assert time_.slept[3] == 0


def test_patience_ends() -> None:
    time_ = Time()
    with backend(Answer(503, b"\x1b[31mtoo\nmuch")) as there:
        with pytest.raises(SendError, match="answers 503 Service Unavailable: .*too much") as error:
            go(there.url, time_, retry_timeout_s=20)
        assert len(there.asked) > 4
    assert sum(time_.slept) <= 20
    assert str(error.value).isprintable()
    hour = Answer(429, headers={"Retry-After": "3600"})
    with backend(hour) as there:
        with pytest.raises(SendError, match="answers 429"):
            go(there.url, retry_timeout_s=60)
        assert len(there.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 301])
def test_who_refuses_is_not_asked_again(status: int) -> None:
    with backend(Answer(status, b'{"error":"no"}')) as there:
        with pytest.raises(SendError, match=rf"{there.url}/v1/traces: answers {status} .*no"):
            go(there.url)
        assert len(there.asked) == 1


def test_nobody_there_is_one_line_after_some_tries() -> None:
    with backend() as there:
        pass
    time_ = Time()
    with pytest.raises(SendError, match=r"cannot be reached: .*refused"):
        go(there.url, time_, retry_timeout_s=5)
    assert len(time_.slept) > 2


@pytest.mark.req("S3-30")
def test_what_was_taken_in_part_is_told() -> None:
    with backend(Answer(200, partial(3, "too\nold"))) as there:
        done = go(there.url)
    assert (done.rejected, done.message) == (3, "too old")
    told = b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}}'
    assert decode_response(told, JSON).rejected == 2
    for odd in (b"", b"no", b"[]", b'{"partialSuccess":{"rejectedSpans":"x"}}', b"\xff" * 9):
        for form in (JSON, "application/x-protobuf"):
            assert decode_response(odd, form).rejected == 0


def test_much_goes_in_batches(tmp_path: Path) -> None:
    before = exporter.BATCH_SPANS, exporter.BATCH_BYTES
    many = list(exporter.iter_spans(iter_events(DEMO), "s", HOW, Credentials()))
    sizes = [len(batch) for batch in exporter._batches(many * 30)]
    assert sum(sizes) == len(many) * 30
    assert max(sizes) <= before[0]
    large = [replace(one, attributes={"a": "x" * (before[1] // 2 + 1)}) for one in many[:4]]
    assert [len(batch) for batch in exporter._batches(large)] == [1, 1, 1, 1]


def test_a_later_batch_that_is_refused_says_how_much_was_taken(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = born(session)
        for number in range(70):
            turn(session, agent, number)
    with backend(Answer(), Answer(400)) as there, closing(endpoint(there.url)) as to:
        with pytest.raises(SendError, match=r"\(after 256\)$"):
            send(iter_events(session.path), "s", to, HOW)
        assert len(there.spans) == 280


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:4318", "say http"),
        ("ftp://x/", "say http"),
        ("http://", "say http"),
        ("http://x:port", "say http"),
        ("http://user:pa55@x", "no password"),
        ("http://collector.example/v1", "in the clear"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        OtlpEndpoint(url=url, headers={"authorization": "Bearer s3cret"})
    assert "s3cret" not in str(error.value)
    assert "pa55" not in str(error.value)


def test_headers_are_never_shown() -> None:
    for headers in ({"a b": "s3cret"}, {"a": "s3cret\n"}, {"": "s3cret"}, {"ä": "s3cret"}):
        with pytest.raises(ConfigError) as error:
            OtlpEndpoint(url="https://x", headers=headers)
        assert "s3cret" not in str(error.value)
    assert "s3cret" not in repr(OtlpEndpoint(url="https://x", headers={"a": "s3cret"}))


def test_the_path_of_traces_is_added_where_it_is_missing() -> None:
    for url, name in {
        "https://x": "https://x/v1/traces",
        "https://x/": "https://x/v1/traces",
        "https://x:44/otlp": "https://x:44/otlp/v1/traces",
        "https://x/v1/traces": "https://x/v1/traces",
    }.items():
        assert OtlpEndpoint(url=url).name == name
