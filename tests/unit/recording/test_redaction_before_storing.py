"""Recorders, loggers and sessions that remove credentials before they store anything."""

from __future__ import annotations

import json
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from harken.capture.otlp.decode import JSON, PROTOBUF, decode_traces
from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead, FrameKind
from harken.capture.proxy.spool_redactor import SpoolRedactor
from harken.chat.screen.input_history import PrivateHistory
from harken.core import events as ev
from harken.core.messages import FunctionCall, Message, ToolCall, text_of
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, InvalidEvent
from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
from harken.interactions.sdk.wrap import recording, wrap_client
from harken.recording.exchange import CapturedRequest, CapturedResponse
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.recording.streamed_text import redact_streamed
from harken.session.session import Session, SessionOptions
from harken.session.verify import verify
from harken.store.sqlite.store import SqliteStore
from tests.otlp_kit import chat_attributes, new_span, text_message
from tests.provider.server import Provider
from tests.provider.wire import ANTHROPIC as ANTHROPIC_WIRE
from tests.provider.wire import OPENAI
from tests.redaction_kit import ANTHROPIC, AWS, GITHUB, find_in_home, gzip
from tests.sdk_kit import REQUEST, respond, sync_anthropic

TIME = "2026-01-31T12:00:00.000000Z"


@pytest.mark.req("D-06", "D-03")
def test_a_session_is_resumed_with_what_was_stored(tmp_path: Path) -> None:
    credentials = Credentials()
    options = SessionOptions(redact=credentials)
    with Session(tmp_path / "a.jsonl", options=options) as session:
        session.log_agent_created("agent_001", name="main")
        session.log_transcript_entry("agent_001", {"role": "user", "content": f"Use {AWS}."})
        schema = {"name": "ask", "description": f"with {GITHUB}"}
        session.append(ev.ToolsDefined(tools=[schema], tools_hash="0" * 64))
        live = list(session.context("agent_001"))
    assert text_of(live[0].content) == "Use [redacted aws-key-id]."
    assert not list(verify(tmp_path / "a.jsonl"))
    with Session.load(tmp_path / "a.jsonl") as session:
        assert list(session.context("agent_001")) == live
    assert find_in_home(tmp_path) == set()
    assert credentials.kinds == {"aws-key-id": 1, "github-token": 1}


def test_two_agents_whose_ids_are_credentials_are_refused(tmp_path: Path) -> None:
    """Their ids would be equal."""
    other = "AKIAQ7WZX5T2MN3BVC5E"
    options = SessionOptions(redact=Credentials())
    with Session(tmp_path / "a.jsonl", options=options) as session:
        birth = session.log_agent_created(AWS, name="one")
        with pytest.raises(InvalidEvent):
            session.log_agent_created(other, cause=birth, name="two")
        session.log_transcript_entry(
            "[redacted aws-key-id]", {"role": "user", "content": "The log goes on."}
        )
    assert not list(verify(tmp_path / "a.jsonl"))


@pytest.mark.req("D-06")
def test_spans_are_recorded_without_credentials(tmp_path: Path) -> None:
    credentials = Credentials()
    asked = [text_message("user", f"Use {AWS}.")]
    answer = text_message("assistant", f"It is {GITHUB}.")
    later = [*asked, answer, text_message("user", "Again.")]
    with (
        closing(SqliteStore(tmp_path / "store.db")) as store,
        Recorder(tmp_path, store, options=RecorderOptions(redact=credentials)) as recorder,
    ):
        receiver = Receiver(recorder)
        for number, inputs in enumerate((asked, later)):
            receiver.add([new_span(number, chat_attributes(inputs, [answer]))])
    assert find_in_home(tmp_path) == set()
    [log] = tmp_path.glob("*.jsonl")
    with Session.load(log) as session:
        texts = [text_of(message.content) for message in session.context("agent_001")]
    assert texts == [
        "Use [redacted aws-key-id].",
        "It is [redacted github-token].",
        "Again.",
        "It is [redacted github-token].",
    ], "the second call continues the first"
    assert credentials.summary == "aws-key-id (1), github-token (1)"


@pytest.mark.req("D-06")
def test_calls_of_a_wrapped_client_are_recorded_without_credentials(tmp_path: Path) -> None:
    notices: list[str] = []
    messages: list[Any] = [{"role": "user", "content": f"Use {AWS}."}]
    with (
        Provider(respond) as provider,
        closing(SqliteStore(tmp_path / "store.db")) as store,
        recording(tmp_path, store, tell=notices.append, redact=Credentials()) as record,
        wrap_client(sync_anthropic(provider.url), record) as client,
    ):
        for text in ("Hello.", f"And {ANTHROPIC}?"):
            client.messages.create(**{**REQUEST, "messages": messages})
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": text}]
        assert AWS in json.dumps(provider.bodies), "the provider gets what the program sent"
    assert find_in_home(tmp_path) == set()
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert notices == ["credentials redacted, and not stored: aws-key-id (1)"]


@pytest.mark.req("D-06", "S3-13")
def test_a_logger_stores_no_credential(tmp_path: Path) -> None:
    config = InteractionLoggingConfig(log_directory=tmp_path, redact="store")
    messages: list[Any] = []
    for number in range(2):  # The second logger continues the thread of the first.
        with InteractionLogger(config) as log:
            thread = log.start_thread("cafe")
            messages.append({"role": "user", "content": f"{number}: use {AWS}"})
            with log.call(thread, messages, model="mine") as call:
                reply = call.answer(f"I use {GITHUB}")
            messages.append({"role": "assistant", "content": reply})
            assert log.redacted == {"aws-key-id": 1, "github-token": 1}
            message_ids = [row.message_id for row in log.get_thread(thread) if row.message_id]
            found = [log.get_message(id_) for id_ in message_ids]
    assert find_in_home(tmp_path) == set()
    contents = {str(message.content) for message in found if message is not None}
    assert contents == {
        "0: use [redacted aws-key-id]",
        "1: use [redacted aws-key-id]",
        "I use [redacted github-token]",
    }


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_spool_gets_complete_bodies_without_credentials(*, is_compressed: bool) -> None:
    redactor = SpoolRedactor()
    encoding = "gzip" if is_compressed else ""
    data = f'{{"key":"{AWS}"}}'.encode()
    sent = gzip(data) if is_compressed else data
    head = CallHead(
        id="1", protocol="p", path="/", time=TIME, headers={"content-encoding": encoding}
    )
    answer = AnswerHead(status=200, content_encoding=encoding)
    end = CallEnd(time=TIME, latency_s=1.0)
    pieces = [sent[start : start + 7] for start in range(0, len(sent), 7)]
    items: list[Any] = [(1, FrameKind.CALL, head), *((1, FrameKind.BODY, p) for p in pieces)]
    assert list(redactor.redact(items)) == []
    released = list(redactor.redact([(1, FrameKind.ASKED, b"")]))
    items = [(1, FrameKind.ANSWER, answer), *((1, FrameKind.DATA, p) for p in pieces)]
    assert list(redactor.redact(items)) == []
    released += redactor.redact([(1, FrameKind.END, end)])
    redacted = b'{"key":"[redacted aws-key-id]"}'
    assert [(kind, content) for _, kind, content in released] == [
        (FrameKind.CALL, CallHead(id="1", protocol="p", path="/", time=TIME)),
        (FrameKind.BODY, redacted),
        (FrameKind.ASKED, b""),
        (FrameKind.ANSWER, AnswerHead(status=200)),
        (FrameKind.DATA, redacted),
        (FrameKind.END, end),
    ]
    assert list(redactor.report_new()) == ["credentials redacted, and not stored: aws-key-id (1)"]
    assert list(redactor.report_new()) == []


def test_a_call_that_is_cut_off_leaves_its_head_alone() -> None:
    redactor = SpoolRedactor()
    head = CallHead(id="1", protocol="p", path="/", time=TIME)
    end = CallEnd(time=TIME, latency_s=1.0, broken="it was cut off")
    items: list[Any] = [
        (1, FrameKind.CALL, head),
        (1, FrameKind.BODY, b"\x1f\x8b"),
        (1, FrameKind.END, end),
    ]
    kinds = [kind for _, kind, _ in redactor.redact(items)]
    assert kinds == [FrameKind.CALL, FrameKind.BODY, FrameKind.END]


def sse(*events: Any) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(e).encode() + b"\n\n" for e in events)


@pytest.mark.req("D-06")
@pytest.mark.parametrize(
    "pieces", [(AWS[:9], AWS[9:]), ("so ", AWS[:1], AWS[1:19], AWS[19:] + ".")]
)
def test_a_credential_in_several_events_of_a_response_is_not_spooled(
    pieces: tuple[str, ...],
) -> None:
    anthropic: list[Any] = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}}
        for text in pieces
    ]
    arguments: list[Any] = [{"choices": [{"index": 0, "delta": {"arguments": t}}]} for t in pieces]
    other: Any = {"type": "content_block_delta", "index": 0, "delta": {"text": "in between"}}
    for events in (anthropic, arguments):
        events.insert(1, other)
        data = sse(*events)
        redactor = SpoolRedactor()
        list(
            redactor.redact(
                [(1, FrameKind.CALL, CallHead(id="1", protocol="p", path="/", time=TIME))]
            )
        )
        list(redactor.redact([(1, FrameKind.ASKED, b"")]))
        items: list[Any] = [
            (1, FrameKind.ANSWER, AnswerHead(status=200)),
            (1, FrameKind.DATA, data),
            (1, FrameKind.END, CallEnd(time=TIME, latency_s=1.0)),
        ]
        [stored] = [c for _, kind, c in redactor.redact(items) if kind is FrameKind.DATA]
        assert isinstance(stored, bytes)
        assert b"[redacted aws-key-id]" in stored
        assert b"in between" in stored
        assert AWS[4:9].encode() not in stored
        assert AWS[12:18].encode() not in stored
        assert redactor.credentials.kinds == {"aws-key-id": 1}
        assert len(stored.split(b"\n\n")) == len(data.split(b"\n\n")), "each event is still there"


def test_a_response_without_credentials_is_spooled_as_it_is() -> None:
    data = sse({"delta": {"text": "AK"}}, {"delta": {"text": "IA"}}) + b"data: [DONE]\r\n\r\n"
    assert redact_streamed(data, Credentials()) == data


@pytest.mark.req("D-06")
def test_the_head_of_a_call_is_spooled_without_credentials() -> None:
    redactor = SpoolRedactor()
    head = CallHead(id="1", protocol="p", path=f"/{AWS}", time=TIME, headers={"user-agent": GITHUB})
    list(redactor.redact([(1, FrameKind.CALL, head)]))
    released = list(redactor.redact([(1, FrameKind.ASKED, b"")]))
    assert find_in_texts(str(released)) == set()


def find_in_texts(text: str) -> set[str]:
    return {credential for credential in (AWS, ANTHROPIC, GITHUB) if credential in text}


@pytest.mark.req("D-06")
@pytest.mark.parametrize("is_json", [False, True])
def test_spans_wait_on_disk_without_credentials(tmp_path: Path, *, is_json: bool) -> None:
    """A receiver that is killed leaves the requests of unfinished spans."""
    value = {"stringValue": f"Use {AWS}."}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
        "name": f"chat {GITHUB}", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [
            {"key": "prompt", "value": value},
            {"key": "list", "value": {"arrayValue": {"values": [value]}}},
        ],
    }]}]}]}  # fmt: skip
    data = json.dumps(body).encode()
    if not is_json:
        credentials = Credentials()
        service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        request = service.ExportTraceServiceRequest()
        span = request.resource_spans.add().scope_spans.add().spans.add()
        span.trace_id, span.span_id, span.name = b"t" * 16, b"s" * 8, f"chat {GITHUB}"
        span.attributes.add(key="prompt").value.string_value = f"Use {AWS}."
        span.attributes.add(key="b").value.bytes_value = AWS.encode()
        data = request.SerializeToString() + b"\xfa\x07\x14" + AWS.encode()  # An unknown field.
    credentials = Credentials()
    spool = OtlpSpool(tmp_path, credentials)
    spool.write(SpooledRequest("trace", is_json, data))
    spool.close()
    assert find_in_home(tmp_path) == set()
    assert set(credentials.kinds) == {"aws-key-id", "github-token"}
    [left] = OtlpSpool(tmp_path).iter_unfinished()
    content_type = JSON if is_json else PROTOBUF
    if is_json:
        [span] = decode_traces(left.data, content_type).spans
        assert span.name == "chat [redacted github-token]"
    else:
        assert b"[redacted aws-key-id]" in left.data


@pytest.mark.req("D-06")
@pytest.mark.parametrize(
    "answer",
    [
        f"The key of the account is {AWS} and no other.",
        Message(
            "assistant",
            "",
            tool_calls=[ToolCall("c1", FunctionCall("run", json.dumps({"env": {"KEY": AWS}})))],
        ),
    ],
    ids=["text", "arguments"],
)
@pytest.mark.parametrize("wire", [ANTHROPIC_WIRE, OPENAI], ids=lambda wire: wire.name)
def test_a_credential_in_several_events_is_recorded_and_committed_without_it(
    tmp_path: Path, wire: Any, answer: Any
) -> None:
    body = b"".join(wire.events(answer))
    assert AWS.encode() not in body, "it is streamed in pieces"
    asked = {"model": "m", "stream": True, "max_tokens": 9, "messages": REQUEST["messages"]}
    with (
        closing(SqliteStore(tmp_path / "store.db")) as store,
        Recorder(tmp_path, store, options=RecorderOptions(redact=Credentials())) as recorder,
    ):
        protocol = {"anthropic": "anthropic-messages"}.get(wire.name, "openai-chat")
        recorder.begin(
            CapturedRequest(
                id="1",
                protocol=protocol,
                path=wire.path,
                body=json.dumps(asked).encode(),
                time=TIME,
            )
        )
        reply = CapturedResponse(
            id="1", status=200, content_type="text/event-stream", body=body, time=TIME
        )
        recorder.end(reply)
    assert find_in_home(tmp_path) == set()
    [log] = tmp_path.glob("*.jsonl")
    assert b"[redacted aws-key-id]" in log.read_bytes()


@pytest.mark.req("D-06")
def test_the_input_history_has_no_credential(tmp_path: Path) -> None:
    history = PrivateHistory(tmp_path / "history", Credentials())
    history.append_string(f"Use {AWS}.\nAnd {GITHUB}")
    assert find_in_home(tmp_path) == set()
    assert "[redacted aws-key-id]" in (tmp_path / "history").read_text()


def test_a_logger_refuses_a_session_name_with_a_credential(tmp_path: Path) -> None:
    config = InteractionLoggingConfig(log_directory=tmp_path, redact="store")
    with InteractionLogger(config) as log, pytest.raises(ConfigError, match="the name"):
        log.start_thread(session_id=AWS)
    assert not [*tmp_path.rglob(f"*{AWS}*")]
