"""Tests against the strict fake provider, which rejects the requests that real providers reject."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken import tool
from harken.llm.anthropic import AnthropicModel
from harken.llm.http_model import ModelEndpoint
from harken.llm.openai import OpenAIModel
from tests.agent_kit import check_log, open_stage
from tests.provider.checks import SHARED

pytestmark = pytest.mark.skipif(
    not (SHARED / "fake_api.py").exists(), reason="the shared clients are not there"
)


@tool(name="Bash")
def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Run the fake provider in strict mode. Its log is `requests.jsonl`."""
    command = [sys.executable, str(SHARED / "fake_api.py"), "--strict"]
    command += ["--log", str(tmp_path / "requests.jsonl"), "--cwd", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
def test_sequential_and_parallel_calls_pass_the_strict_checks(
    tmp_path: Path, url: str, kind: type[AnthropicModel | OpenAIModel]
) -> None:
    base = url if kind is AnthropicModel else f"{url}/v1"
    model = kind("x/y", "y", endpoint=ModelEndpoint(base_url=base, max_retries=0))
    play = open_stage(tmp_path, model, tools=[bash])
    for prompt in ("RUNTOOL please", "PARALLEL please", "RUNTOOL again"):
        assert play.ask(prompt).startswith("Done, the tool has answered.")
        play = play.resume()
    check_log(play.log)
    request: list[Any] = [
        json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()
    ]
    assert [(row["status"], row["problem"]) for row in request] == [(200, None)] * 6
