"""Resolving a model name to a model."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken.errors import ConfigError, LogNotFound, ScriptError
from harken.llm.base import ModelResolver
from harken.llm.prices import Price, Prices
from harken.llm.providers import BUILT_IN, Provider
from harken.llm.resolve import caching_resolver, resolve_model
from tests.loopback_kit import Loopback, serve_loopback, sse_body
from tests.unit.llm.model_kit import SessionRecorder, accumulate, get_answer, request

resolver: ModelResolver = resolve_model  # mypy checks the protocol.


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "cafe.yaml"
    file.write_text("rules: [{answer: Hi}]")
    return file


def test_script_is_resolved_by_its_path(script: Path) -> None:
    assert get_answer(resolver(f"scripted:{script}"), request("")).content == "Hi"


def test_relative_path_is_resolved_against_the_base(script: Path) -> None:
    model = resolve_model("scripted:cafe.yaml", base=script.parent)
    assert get_answer(model, request("")).content == "Hi"


def test_model_has_the_name_by_which_it_was_resolved(script: Path) -> None:
    assert resolve_model("scripted:cafe.yaml", base=script.parent).name == "scripted:cafe.yaml"


def test_recorded_session_is_resolved_by_its_path(tmp_path: Path) -> None:
    recorder = SessionRecorder.create(tmp_path / "a:b.jsonl")
    recorder.add_turn(recorder.create_agent("Jack"), "Hi", "Hi Jill")
    recorder.session.close()
    model = resolve_model("replay:a:b.jsonl", base=tmp_path)
    assert (model.name, get_answer(model, request("Hi")).content) == ("replay:a:b.jsonl", "Hi Jill")


@pytest.mark.parametrize("name", ["", "gpt", "scripted", "scripted:", "replay: ", "scripted:/"])
def test_unknown_name_is_rejected_with_the_supported_kinds(name: str) -> None:
    with pytest.raises((ConfigError, ScriptError)) as caught:
        resolve_model(name)
    if name != "scripted:/":  # This path is a folder.
        assert str(caught.value) == (
            f"model {name!r} not found; a model is `scripted:FILE` (rules in YAML), "
            "`replay:SESSION` (a recorded log), or `PROVIDER/MODEL` such as "
            "anthropic/claude-opus-5-5"
        )


def test_unknown_provider_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_model("opnai/gpt-6.2-sol")
    assert str(caught.value).startswith(
        "provider 'opnai' not found; did you mean 'openai'? Existing providers: anthropic, openai, gemini, xai, "
    )
    assert "[providers.opnai] with a base_url in config.toml adds one" in str(caught.value)
    with pytest.raises(ConfigError, match="which model of ollama"):
        resolve_model("ollama/")


def test_missing_key_is_reported_with_its_location() -> None:
    providers = {"anthropic": replace(BUILT_IN["anthropic"], api_key="")}
    with pytest.raises(ConfigError) as caught:
        resolve_model("anthropic/claude-opus-5-5", providers=providers)
    assert str(caught.value) == "no key for anthropic: set ANTHROPIC_API_KEY"


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_provider_model_has_the_full_name_and_sends_no_request(protocol: Any) -> None:
    provider = Provider(name="work", protocol=protocol, base_url="http://127.0.0.1:1/v1")
    model = resolve_model("work/a/b:c", providers={"work": provider})
    assert model.name == "work/a/b:c"


SAID: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "big"}
ANSWER = sse_body(
    {**SAID, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
    {**SAID, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**SAID, "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}},
)


def test_first_slash_separates_the_provider_that_sets_key_and_price(
    tmp_path: Path,
) -> None:
    with serve_loopback(Loopback(ANSWER, content_type="text/event-stream")) as server:
        provider = Provider(name="work", base_url=server.url, key_env="WORK_KEY", api_key="k1")
        prices = Prices([Price(model="work/big", input=3, output=5)])
        model = resolve_model("work/vendor/big", providers={"work": provider}, prices=prices)
        drafted = accumulate(model, request("Hello"))
    [(path, headers, body)] = server.requests
    assert (path, headers["authorization"]) == ("/v1/chat/completions", "Bearer k1")
    assert body["model"] == "vendor/big"
    assert drafted.message().content == "Hi"
    assert drafted.finish is not None
    assert drafted.finish.cost_usd == pytest.approx((1000 * 3 + 10 * 5) / 1e6)


def test_server_without_a_key_gets_no_other_key(tmp_path: Path) -> None:
    with serve_loopback(Loopback(ANSWER, content_type="text/event-stream")) as server:
        code = (
            "import asyncio, sys\n"
            "from harken.llm.providers import Provider\n"
            "from harken.llm.resolve import resolve_model\n"
            "from harken.testing import request_of\n"
            f"provider = Provider(name='here', base_url={server.url!r})\n"
            "model = resolve_model('here/big', providers={'here': provider})\n"
            "async def ask():\n"
            "    return [chunk async for chunk in model.stream(request_of('Hi'))]\n"
            "asyncio.run(ask())\n"
        )
        environ = {**os.environ, "OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://x"}
        ran = subprocess.run([sys.executable, "-c", code], env=environ, check=False)
    assert ran.returncode == 0
    [(_, headers, _)] = server.requests
    assert "secret" not in str(headers)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.yaml"):
        resolve_model("scripted:none.yaml", base=tmp_path)
    with pytest.raises(LogNotFound, match=r"none\.jsonl"):
        resolve_model("replay:none.jsonl", base=tmp_path)


def test_run_has_one_model_per_name(script: Path) -> None:
    models = caching_resolver(base=script.parent)
    assert models("scripted:cafe.yaml") is models("scripted:cafe.yaml")
    assert models("scripted:cafe.yaml") is not caching_resolver(base=script.parent)(
        "scripted:cafe.yaml"
    )


def test_yaml_and_sdks_are_imported_lazily() -> None:
    code = (
        "import sys; from harken.llm.resolve import resolve_model\n"
        "resolve_model('ollama/llama3.2')\n"
        "sys.exit(bool({'yaml', 'openai', 'anthropic'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
