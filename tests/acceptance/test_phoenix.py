"""Spans in a backend that people use: Arize Phoenix takes a session, and gives it back.

It runs where Phoenix is installed: `make backends`, or HARKEN_PHOENIX names a python that has it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from harken.interactions.otel.endpoint import OtlpEndpoint
from harken.interactions.otel.exporter import OtlpExportSummary, OtlpOptions, send
from harken.interactions.otel.span import Sender
from harken.session.log.reader import iter_events

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "tests" / "golden" / "demo.jsonl"
PYTHON = Path(os.environ.get("HARKEN_PHOENIX", ROOT / ".venv-backends" / "bin" / "python"))
PATIENCE_S = 240

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not PYTHON.exists(), reason="Phoenix is not installed: make backends"),
]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """A Phoenix of our own, with nothing in it: its address."""
    url = f"http://127.0.0.1:{(port := _free_port())}"
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(tmp_path),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(_free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(
            [PYTHON.with_name("phoenix"), "serve"], env=environment, stdout=out, stderr=out
        )
    try:
        _wait_for(f"{url}/healthz", running)
        yield url
    finally:
        running.terminate()
        running.wait(30)


def _wait_for(url: str, running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and running.poll() is None:
        try:
            with urlopen(url):
                return
        except (URLError, OSError):
            time.sleep(0.3)
    raise AssertionError("Phoenix did not start")


def _spans(url: str, project: str, count: int) -> list[dict[str, Any]]:
    """Return the spans of a project, when so many have come: Phoenix takes them in later."""
    until = time.monotonic() + PATIENCE_S
    spans: list[dict[str, Any]] = []
    while len(spans) < count and time.monotonic() < until:
        time.sleep(0.5)
        try:
            with urlopen(f"{url}/v1/projects/{project}/spans?limit=1000") as answer:
                spans = json.load(answer)["data"]
        except (URLError, OSError):
            continue
    return spans


def _send(url: str) -> OtlpExportSummary:
    sender = Sender("1", resource={"openinference.project.name": "cafe"})
    with closing(OtlpEndpoint(url=url)) as endpoint:
        return send(iter_events(DEMO), "demo", endpoint, OtlpOptions(sender=sender))


@pytest.mark.req("S3-30")
def test_phoenix_stores_a_session_once_and_returns_it(phoenix: str) -> None:
    assert (_send(phoenix).spans, _send(phoenix).rejected) == (18, 0)
    spans = _spans(phoenix, "cafe", 18)
    time.sleep(2)
    spans = _spans(phoenix, "cafe", 18)
    kinds = Counter(span["span_kind"] for span in spans)
    assert kinds == {"AGENT": 4, "LLM": 9, "TOOL": 5}
    by_id = {span["context"]["span_id"]: span for span in spans}
    by_name = {span["name"]: span for span in spans}
    inner = by_name["invoke_agent Inner"]
    asked_by = by_id[inner["parent_id"]]
    assert asked_by["name"] == "execute_tool discuss"
    assert by_id[asked_by["parent_id"]]["name"] == "invoke_agent Jill"
    [call] = [span for span in spans if span["parent_id"] == inner["context"]["span_id"]]
    attributes = call["attributes"]
    assert attributes["session.id"] == "demo"
    assert "Inner" in str(inner["attributes"])
    assert "Be friendly but not over-eager" in str(attributes["gen_ai.output.messages"])
    assert "What should I say?" in str(attributes["gen_ai.input.messages"])
