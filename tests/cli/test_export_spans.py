"""`harken export SESSION --otlp URL`: what goes out, and comes back into another Harken."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.server import OtlpServer
from harken.core.events import LlmRequest
from harken.core.ids import AgentId
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.views.context import context
from tests.cli.kit import HARKEN, Cli, one_line
from tests.forks import processes
from tests.session_kit import log_user_message
from tests.spans_kit import BackendResponse, partial_success, serve_backend, span_attributes


def read_by(log: Path) -> list[list[str]]:
    """Return what each model call of a log read: roles and texts, sorted."""
    found = []
    read = list(iter_events(log))
    for event in read:
        if isinstance(event, LlmRequest):
            rows = context(read, event.message_id).messages
            found.append([f"{row.message.role}: {row.message.content}" for row in rows])
    return sorted(found)


@pytest.mark.req("S3-30")
def test_a_session_goes_out_and_says_where(demo: Cli) -> None:
    with serve_backend() as there:
        ran = demo.ok("export", "demo", "--otlp", there.url)
        assert ran.out == f"18 spans sent to {there.url}/v1/traces\n"
        assert len({span.span_id for span in there.spans}) == 18
        again = demo.ok("export", "latest", "--otlp", there.url, "--json").json
        assert (again["spans"], again["batches"], again["rejected"]) == (18, 1, 0)
        assert len({span.span_id for span in there.spans}) == 18, "nothing is new"


@pytest.mark.req("S3-30")
def test_what_goes_out_comes_back_into_another_harken(demo: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with (
        Recorder(folder, options=RecorderOptions(durability="none")) as recorder,
        OtlpServer(Receiver(recorder)) as server,
    ):
        thread = Thread(target=server.serve)
        thread.start()
        try:
            demo.ok("export", "demo", "--otlp", server.url)
        finally:
            server.shutdown()
            thread.join()
    [log] = folder.glob("*.jsonl")
    assert read_by(log) == read_by(demo.sessions()[0])


@pytest.mark.req("D-06")
def test_credentials_stay_here_and_that_is_said(demo: Cli) -> None:
    key = "ghp_" + "a1B2" * 9
    with Session.load(demo.sessions()[0]) as session:
        log_user_message(session, AgentId("agent_001"), f"it is {key}")
        message = {"role": "assistant", "content": f"so it is {key}"}
        session.log_transcript_entry("agent_001", message)
    with serve_backend() as there:
        ran = demo.ok("export", "demo", "--otlp", there.url)
        assert ran.err.splitlines()[1:] == ["Redacted: 1 github-token"]
        assert key not in str(there.requests)
        as_it_is = demo.ok("export", "demo", "--otlp", there.url, "--no-redact", "--json")
        assert key in str(there.requests)
        assert (len(as_it_is.err.splitlines()), as_it_is.json["credentials"]) == (1, {})


def test_a_session_that_is_being_written_is_told_as_far_as_it_has_ended(demo: Cli) -> None:
    with Session.load(demo.sessions()[0]) as session, serve_backend() as there:
        log_user_message(session, AgentId("agent_001"), "more")
        session.log_transcript_entry(
            "agent_001",
            {
                "role": "assistant",
                "tool_calls": [{"id": "x", "function": {"name": "look", "arguments": "{}"}}],
            },
        )
        assert demo.ok("export", "demo", "--otlp", there.url, "--json").json["spans"] == 18
    with serve_backend() as there:
        assert demo.ok("export", "demo", "--otlp", there.url, "--json").json["spans"] == 20


@pytest.mark.req("S3-30")
def test_an_imported_session_and_a_packed_one_go_out_too(demo: Cli, tmp_path: Path) -> None:
    demo.ok("sessions", "compress", "demo")
    lines = [
        {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u1"},
        {
            "type": "assistant",
            "message": {
                "id": "m1",
                "role": "assistant",
                "model": "claude-x",
                "content": [{"type": "text", "text": "ho"}],
                "usage": {"input_tokens": 5, "output_tokens": 2},
            },
            "uuid": "u2",
            "parentUuid": "u1",
        },
    ]
    common = {"sessionId": "c0ffee00-0000-4000-8000-000000000000", "version": "2.1.0", "cwd": "/x"}
    source = tmp_path / "c0ffee00-0000-4000-8000-000000000000.jsonl"
    with source.open("w") as file:
        for second, line in enumerate(lines):
            time = f"2026-01-31T12:00:0{second}.000Z"
            file.write(json.dumps({**common, "parentUuid": None, **line, "timestamp": time}) + "\n")
    demo.ok("import", source)
    with serve_backend() as there:
        assert demo.ok("export", "demo", "--otlp", there.url, "--json").json["spans"] == 18
        there.requests.clear()
        demo.ok("export", "claude:c0ffee00", "--otlp", there.url)
        calls = [span_attributes(span) for span in there.spans if span.kind == 3]
        [call] = calls
        assert (call["gen_ai.provider.name"], call["gen_ai.request.model"]) == (
            "anthropic",
            "claude-x",
        )
        assert call["gen_ai.usage.input_tokens"] == 5


def test_headers_come_from_options_or_the_environment_and_are_never_shown(demo: Cli) -> None:
    demo.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20s3cret,x=y"
    with serve_backend() as there:
        ran = demo.ok("export", "demo", "--otlp", there.url, "--json")
        demo.ok("export", "demo", "--otlp", there.url, "--header", "api-key=n3w")
        first, second = (headers for _, headers, _ in there.requests)
        assert (first["authorization"], first["x"]) == ("Bearer s3cret", "y")
        assert (second["api-key"], "authorization" in second) == ("n3w", False)
        assert "s3cret" not in ran.out + ran.err
    for odd in ("s3cret", "=s3cret", "a b=s3cret"):
        refusal = demo.refused("export", "demo", "--otlp", "https://x", "--header", odd)
        assert "s3cret" not in refusal
    demo.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "s3cret"
    refusal = demo.refused("export", "demo", "--otlp", "https://x")
    assert refusal == "OTEL_EXPORTER_OTLP_HEADERS: header 1 is not of the form NAME=VALUE"


def test_what_goes_wrong_is_one_line(demo: Cli) -> None:
    assert "write http" in demo.refused("export", "demo", "--otlp", "localhost:4318")
    assert "no session given" in demo.refused("export", "--otlp", "http://127.0.0.1:9")
    assert "these options require --otlp" in demo.refused("export", "demo", "--no-redact")
    assert "nobody" in demo.refused("export", "nobody", "--otlp", "http://127.0.0.1:9")
    with serve_backend(BackendResponse(401, b"who?")) as there:
        ran = demo("export", "demo", "--otlp", there.url)
        sending, failure = ran.err.splitlines()
        assert (ran.code, sending) == (2, f"Sending demo to {there.url}/v1/traces")
        assert "answers 401 Unauthorized: who?" in failure
    with serve_backend(BackendResponse(200, partial_success(2, "too old"))) as there:
        ran = demo.ok("export", "demo", "--otlp", there.url)
        assert ran.err.splitlines()[1:] == ["2 spans not taken: too old"]


def test_refused_connection_is_reported_soon(demo: Cli) -> None:
    with serve_backend() as there:
        pass
    start_s = time.monotonic()
    ran = demo("export", "demo", "--otlp", there.url)
    assert time.monotonic() - start_s < 6
    sending, retrying, failure = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert sending == f"Sending demo to {there.url}/v1/traces"
    assert "refused" in retrying
    assert retrying.endswith("; retrying")
    assert "refused" in failure


def test_without_the_extra_it_names_it(demo: Cli, tmp_path: Path) -> None:
    """In a Python that finds no OpenTelemetry."""
    package = tmp_path / "hidden" / "opentelemetry"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path])}
    command = [
        str(HARKEN),
        "--home",
        str(demo.home),
        "export",
        "demo",
        "--otlp",
        "http://127.0.0.1:9",
    ]
    process = processes.run(command, env=environ, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "pip install 'harken[otel]'" in one_line(process.stderr)


@pytest.mark.req("S3-30")
def test_the_variables_of_opentelemetry_apply(demo: Cli) -> None:
    with serve_backend(BackendResponse(503)) as there:
        variables = {
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=Bearer%20s3cret",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=other",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
        }
        command = [str(HARKEN), "--home", str(demo.home), "export", "demo", "--otlp", there.url]
        environ = {**os.environ, **variables}
        process = processes.run(command, env=environ, capture_output=True, text=True, check=False)
        assert process.returncode == 2
        assert "answers 503" in process.stderr.splitlines()[-1]
        [(_, headers, _)] = there.requests
    assert headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in process.stdout + process.stderr


def test_how_much_is_said_can_be_chosen(demo: Cli) -> None:
    with serve_backend() as there:
        demo.ok("export", "demo", "--otlp", there.url, "--messages", "none", "--project", "cafe")
        [(_, _, body)] = there.requests
        assert b"Jack. You work" not in body
        assert b"cafe" in body
    with serve_backend() as there, closing(Session.load(demo.sessions()[0])):
        demo.ok("export", "demo", "--otlp", there.url, "--messages", "new")
        assert there.spans


def test_a_log_of_no_meaning_is_one_line(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "odd.jsonl"
    rows: list[dict[str, object]] = [
        {"event_type": "session_started", "message_id": "msg_000", "session_id": "odd"},
        {"event_type": "agent_created", "message_id": "msg_001", "agent_id": "agent_001"},
        {
            "event_type": "transcript_edited",
            "message_id": "msg_002",
            "agent_id": "agent_001",
            "segments": [{"entries": ["msg_999"]}],
        },
    ]
    log.write_text(
        "".join(json.dumps({**row, "time": "2026-01-31T12:00:00Z"}) + "\n" for row in rows)
    )
    ran = cli("export", log, "--otlp", "http://127.0.0.1:9")
    assert ran.code == 2
    assert "cannot be exported as spans: no entry msg_999" in ran.err.splitlines()[-1]
