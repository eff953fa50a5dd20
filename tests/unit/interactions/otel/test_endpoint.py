"""Batches are sent to an endpoint: accepted, refused permanently, or retried."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest
from requests import Request
from requests.adapters import HTTPAdapter

from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, SendError
from harken.interactions.otel import exporter
from harken.interactions.otel.endpoint import OtlpEndpoint, decode_response, open_http_session
from harken.interactions.otel.exporter import OtlpExportSummary, OtlpOptions, iter_spans, send
from harken.interactions.otel.readable_span import to_readable_spans
from harken.interactions.otel.span import Sender, Span, Value
from harken.session.log.reader import iter_events
from tests.session_kit import create_agent, log_turn, new_session
from tests.spans_kit import BackendResponse, partial_success, serve_backend, span_attributes

DEMO = Path(__file__).parents[3] / "golden" / "demo.jsonl"
SENDER = Sender("1", resource={"deployment.environment": "test"})
OPTIONS = OtlpOptions(sender=SENDER)
NOW = {"Retry-After": "0"}


def send_demo(url: str, **settings: Any) -> OtlpExportSummary:
    with closing(OtlpEndpoint(url=url, **settings)) as endpoint:
        return send(iter_events(DEMO), "demo", endpoint, OPTIONS)


def demo_spans() -> list[Span]:
    return list(iter_spans(iter_events(DEMO), "demo", OPTIONS, Credentials()))


@pytest.mark.req("S3-30")
def test_session_arrives_compressed_with_headers_and_resource() -> None:
    with serve_backend() as endpoint:
        summary = send_demo(endpoint.url, headers={"x-key": "v"})
        [(path, headers, body)] = endpoint.requests
        assert path == "/v1/traces"
        assert (headers["x-key"], headers["content-encoding"]) == ("v", "gzip")
        assert headers["content-type"] == "application/x-protobuf"
        assert b"deployment.environment" in body
        assert (summary.spans, summary.batches, summary.retries) == (len(endpoint.spans), 1, 0)
        assert {span_attributes(span)["gen_ai.conversation.id"] for span in endpoint.spans} == {
            "demo"
        }
        assert {span.kind for span in endpoint.spans} == {1, 3}


@pytest.mark.req("S3-30")
def test_ids_times_attributes_and_errors_arrive_unchanged() -> None:
    values: dict[str, Value] = {
        "int": 3,
        "float": 0.5,
        "bool": True,
        "text": "x" * 9_999,
        "list": ["a", "b"],
    }
    first, *spans = demo_spans()
    sent_spans = [msgspec.structs.replace(first, attributes=values, failed="it broke"), *spans]
    with serve_backend() as receiver, closing(OtlpEndpoint(url=receiver.url)) as endpoint:
        endpoint.send(to_readable_spans(sent_spans, SENDER))
        received = receiver.spans
    assert [span.span_id for span in received] == [span.place.span for span in sent_spans]
    assert [span.trace_id for span in received] == [span.place.trace for span in sent_spans]
    assert [span.parent_span_id for span in received] == [span.parent or b"" for span in sent_spans]
    assert [span.start_time_unix_nano for span in received] == [
        span.start_ns for span in sent_spans
    ]
    assert [span.end_time_unix_nano for span in received] == [span.end_ns for span in sent_spans]
    assert [span_attributes(span) for span in received] == [span.attributes for span in sent_spans]
    assert (received[0].status.code, received[0].status.message) == (2, "it broke")
    assert {span.status.code for span in received[1:]} == {0}


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_busy_endpoint_receives_the_same_batch_again(status: int) -> None:
    with serve_backend(
        BackendResponse(status, headers=NOW),
        BackendResponse(status, headers=NOW),
        BackendResponse(),
    ) as endpoint:
        summary = send_demo(endpoint.url)
        assert (summary.retries, len(endpoint.requests)) == (2, 3)
        assert endpoint.requests[0] == endpoint.requests[2]


def test_retry_waits_for_the_retry_after_time() -> None:
    with serve_backend(
        BackendResponse(503, headers={"Retry-After": "2"}), BackendResponse()
    ) as endpoint:
        start_s = monotonic()
        send_demo(endpoint.url)
        assert monotonic() - start_s >= 2


def test_retries_end_at_the_timeout() -> None:
    with serve_backend(BackendResponse(503, b"\x1b[31mtoo\nmuch")) as endpoint:
        with pytest.raises(SendError, match="answers 503 Service Unavailable: .*too much") as error:
            send_demo(endpoint.url, timeout_s=1.5)
        assert len(endpoint.requests) == 2
    assert str(error.value).isprintable()
    hour = BackendResponse(429, headers={"Retry-After": "3600"})
    with serve_backend(hour) as endpoint:
        with pytest.raises(SendError, match="answers 429"):
            send_demo(endpoint.url)
        assert len(endpoint.requests) == 1


def test_environment_timeout_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with serve_backend(BackendResponse(503)) as endpoint:
        with pytest.raises(SendError, match="answers 503"):
            send_demo(endpoint.url, timeout_s=None)
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 301])
def test_refusal_or_redirect_is_an_immediate_error(status: int) -> None:
    """The library treats a redirect as success, which would lose the spans silently."""
    refusal = BackendResponse(status, b'{"error":"no"}', headers={"Location": "/elsewhere"})
    with serve_backend(refusal) as endpoint:
        with pytest.raises(SendError, match=rf"{endpoint.url}/v1/traces: answers {status} .*no"):
            send_demo(endpoint.url)
        assert len(endpoint.requests) == 1


def test_unreachable_endpoint_is_an_error_after_retries() -> None:
    with serve_backend() as receiver:
        pass
    with closing(OtlpEndpoint(url=f"{receiver.url}?key=s3cret", timeout_s=1.5)) as endpoint:
        with pytest.raises(SendError, match=r"cannot be reached: .*refused") as error:
            send(iter_events(DEMO), "demo", endpoint, OPTIONS)
        assert endpoint.requests > 2
    assert "s3cret" not in str(error.value)


def test_refused_connection_is_reported_at_once_and_fails_soon() -> None:
    with serve_backend() as receiver:
        pass
    start_s, reasons = monotonic(), list[str]()
    endpoint = OtlpEndpoint(url=receiver.url, timeout_s=60, on_retry=reasons.append)
    with closing(endpoint), pytest.raises(SendError, match=r"cannot be reached: .*refused"):
        send(iter_events(DEMO), "demo", endpoint, OPTIONS)
    assert monotonic() - start_s < 6
    [reason] = reasons
    assert "refused" in reason


@pytest.mark.req("S3-30")
def test_partial_success_is_in_the_summary() -> None:
    with serve_backend(BackendResponse(200, partial_success(3, "too\nold"))) as endpoint:
        summary = send_demo(endpoint.url)
    assert (summary.rejected, summary.message) == (3, "too old")
    for body in (b"", b"no", b"[]", b"\xff" * 9):
        assert decode_response(body).rejected == 0


def test_many_spans_are_sent_in_batches() -> None:
    limits = exporter.BATCH_SPANS, exporter.BATCH_BYTES
    spans = demo_spans()
    sizes = [len(batch) for batch in exporter._batches(spans * 30)]
    assert sum(sizes) == len(spans) * 30
    assert max(sizes) <= limits[0]
    large = [
        msgspec.structs.replace(span, attributes={"a": "x" * (limits[1] // 2 + 1)})
        for span in spans[:4]
    ]
    assert [len(batch) for batch in exporter._batches(large)] == [1, 1, 1, 1]


def test_refused_later_batch_reports_the_accepted_count(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        for number in range(70):
            log_turn(session, agent, number)
    with (
        serve_backend(BackendResponse(), BackendResponse(400)) as receiver,
        closing(OtlpEndpoint(url=receiver.url)) as endpoint,
    ):
        with pytest.raises(SendError, match=r"\(after 256\)$"):
            send(iter_events(session.path), "s", endpoint, OPTIONS)
        assert len(receiver.spans) == 280


def test_unencodable_spans_are_an_error() -> None:
    [span, *_] = demo_spans()
    with serve_backend() as receiver, closing(OtlpEndpoint(url=receiver.url)) as endpoint:
        with pytest.raises(SendError, match="cannot be encoded"):
            endpoint.send(to_readable_spans([msgspec.structs.replace(span, start_ns=-1)], SENDER))
        assert not receiver.requests


@pytest.fixture
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Collect every log record of the process."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.mark.req("D-06")
def test_libraries_log_no_credential(
    monkeypatch: pytest.MonkeyPatch, all_logs: pytest.LogCaptureFixture
) -> None:
    """The library logs headers that it cannot parse, and the URL if a connection fails."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", 'authorization=Basic s3cret"')
    with serve_backend(
        BackendResponse(503, b"s3cret", headers=NOW), BackendResponse(401)
    ) as endpoint:
        with pytest.raises(SendError, match="answers 401"):
            send_demo(f"{endpoint.url}?key=s3cret")
        url = endpoint.url
    with pytest.raises(SendError, match="cannot be reached"):
        send_demo(f"{url}?key=s3cret", timeout_s=0.5)
    assert "s3cret" not in all_logs.text
    logging.getLogger("opentelemetry.util.re").warning("logged again afterwards")
    assert "logged again afterwards" in all_logs.text


@pytest.mark.req("D-06")
def test_only_explicit_headers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library adds the headers of the environment to requests to any URL."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=s3cret")
    with serve_backend() as endpoint:
        send_demo(endpoint.url, headers={"api-key": "n3w"})
        [(_, headers, _)] = endpoint.requests
    assert headers["api-key"] == "n3w"
    assert "s3cret" not in str(headers)


@pytest.mark.req("D-06")
def test_netrc_password_replaces_no_header(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine collector.example login me password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", os.fspath(netrc))
    headers = {"authorization": "Bearer mine"}
    request = Request("POST", "https://collector.example/v1/traces", headers)
    with open_http_session("collector.example", HTTPAdapter()) as session:
        assert session.prepare_request(request).headers["authorization"] == "Bearer mine"


def test_environment_proxy_is_not_used_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve_backend() as endpoint:
        assert send_demo(endpoint.url).spans == 18
    url = "https://collector.example"
    with open_http_session("collector.example", HTTPAdapter()) as session:
        settings = session.merge_environment_settings(url, {}, None, None, None)
    assert settings["proxies"]["https"] == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:4318", "write http"),
        ("ftp://x/", "write http"),
        ("http://", "write http"),
        ("http://x:port", "write http"),
        ("http://user:pa55@x", "do not put a password"),
        ("http://collector.example/v1", "unencrypted"),
    ],
)
def test_invalid_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        OtlpEndpoint(url=url, headers={"authorization": "Bearer s3cret"})
    assert "s3cret" not in str(error.value)
    assert "pa55" not in str(error.value)


def test_headers_are_never_printed() -> None:
    for headers in ({"a b": "s3cret"}, {"a": "s3cret\n"}, {"": "s3cret"}, {"ä": "s3cret"}):
        with pytest.raises(ConfigError) as error:
            OtlpEndpoint(url="https://x", headers=headers)
        assert "s3cret" not in str(error.value)
    assert "s3cret" not in repr(OtlpEndpoint(url="https://x", headers={"a": "s3cret"}))


def test_traces_path_is_added_if_missing() -> None:
    for url, name in {
        "https://x": "https://x/v1/traces",
        "https://x/": "https://x/v1/traces",
        "https://x:44/otlp": "https://x:44/otlp/v1/traces",
        "https://x/v1/traces": "https://x/v1/traces",
    }.items():
        assert OtlpEndpoint(url=url).name == name
