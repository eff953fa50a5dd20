"""`harken otlp`, as a process of its own, and programs that emit spans with the real exporter."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.session.log.reader import iter_events as events_of
from tests.cli.kit import HARKEN, Cli, one_line, start
from tests.forks import processes

PROGRAM = """
import json, sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http import Compression

provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(compression=Compression.Gzip)))
tracer = provider.get_tracer("shop")

def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}

def chat(asked, answer):
    with tracer.start_as_current_span("chat m") as span:
        span.set_attributes({
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps([answer]),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 3,
        })
    return [*asked, answer]

def agent(name):
    return tracer.start_as_current_span(
        f"invoke_agent {name}",
        attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name},
    )

with agent("Chief"):
    call = {"type": "tool_call", "id": "c1", "name": "ask", "arguments": {"whom": "Scout"}}
    asked = chat([text("user", "Who is there?")], {"role": "assistant", "parts": [call]})
    with tracer.start_as_current_span("execute_tool ask"), agent("Scout"):
        chat([text("user", "Look.")], text("assistant", "A bird."))
    result = {"type": "tool_call_response", "id": "c1", "response": "A bird."}
    chat([*asked, {"role": "tool", "parts": [result]}], text("assistant", "It is a bird."))
provider.shutdown()
print("emitted")
"""


@contextmanager
def receiving(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A receiver as a process, and what it says at its start."""
    command = [str(HARKEN), "otlp", "--home", str(home), "--json", "--port", "0", *options]
    with processes.start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate()
            yield process, json.loads(line)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)


def emit(told: dict[str, Any]) -> None:
    """Run the program in a shell, where exactly what was printed is set."""
    exports = "".join(f"export {name}={value}\n" for name, value in told["set"].items())
    ran = subprocess.run(
        ["sh", "-c", f'{exports}exec "$0" -c "$1"', sys.executable, PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("emitted\n", ""), ran


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> tuple[int, str, str]:
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize("options", [(), ("--no-token",)], ids=["token", "no token"])
def test_what_a_program_emits_becomes_a_session(tmp_path: Path, options: tuple[str, ...]) -> None:
    with receiving(tmp_path, *options) as (process, told):
        emit(told)
        code, out, err = stopped(process, signal.SIGTERM)
    assert (code, json.loads(out), err) == (0, {"calls": 3, "without_messages": 0}, "")
    (log,) = (tmp_path / "sessions").glob("*.jsonl")
    events = list(events_of(log))
    names = {one.agent_id: one.name for one in events if isinstance(one, ev.AgentCreated)}
    said = [
        (names[one.agent_id], one.role, one.content)
        for one in events
        if isinstance(one, ev.TranscriptEntry)
    ]
    assert said == [
        ("main", "user", "Who is there?"),
        ("main", "assistant", None),
        ("Scout", "user", "Look."),
        ("Scout", "assistant", "A bird."),
        ("main", "tool", "A bird."),
        ("main", "assistant", "It is a bird."),
    ]


def test_the_same_spans_again_add_nothing(tmp_path: Path) -> None:
    """A receiver that was killed took them; the next takes them from the spool, and not twice."""
    with receiving(tmp_path) as (process, told):
        emit(told)
        process.kill()
    with receiving(tmp_path) as (process, _):
        assert stopped(process, signal.SIGINT)[0] == 0
    (log,) = (tmp_path / "sessions").glob("*.jsonl")
    events = list(events_of(log))
    assert sum(isinstance(one, ev.LlmResponse) for one in events) == 3
    assert [*(tmp_path / "otlp").iterdir()] == []


def test_it_stops_when_nobody_sends_anything(tmp_path: Path) -> None:
    with receiving(tmp_path, "--idle-timeout", "0.2s") as (process, _):
        assert process.wait(20) == 0


def test_a_person_is_told_what_to_set(tmp_path: Path) -> None:
    ran = start(tmp_path, "otlp", "--port", "0", "--idle-timeout", "0.1s")
    assert ran.returncode == 0, ran
    out = ran.stdout.decode()
    token = (tmp_path / "service.token").read_text().strip()
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:" in out
    assert "CAPTURE_MESSAGE_CONTENT" in out
    assert token not in out


def test_a_port_that_is_taken_is_said_on_one_line(cli: Cli, tmp_path: Path) -> None:
    with receiving(tmp_path / "other") as (_, told):
        port = told["address"].rpartition(":")[2]
        assert "choose another --port" in cli.refused("otlp", "--port", port)


def test_two_receivers_of_one_home_are_one_too_many(tmp_path: Path) -> None:
    with receiving(tmp_path):
        ran = start(tmp_path, "otlp", "--port", "0")
        assert ran.returncode == 2
        assert "another receiver" in one_line(ran.stderr.decode())
