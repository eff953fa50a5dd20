"""From a model's name to the model."""

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
from tests.unit.llm.asking import Recorder, answer, draft, request

resolver: ModelResolver = resolve_model  # mypy: it is one


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "cafe.yaml"
    file.write_text("rules: [{answer: Hi}]")
    return file


def test_a_script_is_found_by_its_path(script: Path) -> None:
    assert answer(resolver(f"scripted:{script}"), request("")).content == "Hi"


def test_a_relative_path_counts_from_the_base(script: Path) -> None:
    model = resolve_model("scripted:cafe.yaml", base=script.parent)
    assert answer(model, request("")).content == "Hi"


def test_a_model_has_the_name_by_which_it_is_found(script: Path) -> None:
    assert resolve_model("scripted:cafe.yaml", base=script.parent).name == "scripted:cafe.yaml"


def test_a_recorded_session_is_found_by_its_path(tmp_path: Path) -> None:
    recorder = Recorder.begin(tmp_path / "a:b.jsonl")
    recorder.says(recorder.born("Jack"), "Hi", "Hi Jill")
    recorder.session.close()
    model = resolve_model("replay:a:b.jsonl", base=tmp_path)
    assert (model.name, answer(model, request("Hi")).content) == ("replay:a:b.jsonl", "Hi Jill")


@pytest.mark.parametrize("name", ["", "gpt", "scripted", "scripted:", "replay: ", "scripted:/"])
def test_another_name_is_refused_with_the_kinds_that_there_are(name: str) -> None:
    with pytest.raises((ConfigError, ScriptError)) as caught:
        resolve_model(name)
    if name != "scripted:/":  # a folder
        assert str(caught.value) == (
            f"there is no model {name!r}; a model is `scripted:FILE` (rules in YAML), "
            "`replay:SESSION` (a recorded log), or `PROVIDER/MODEL` such as "
            "anthropic/claude-opus-5-5"
        )


def test_a_provider_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_model("opnai/gpt-6.2-sol")
    assert str(caught.value).startswith(
        "there is no provider 'opnai'; did you mean 'openai'?; there is: anthropic, openai, gemini, xai, "
    )
    assert "[providers.opnai] with a base_url in config.toml adds one" in str(caught.value)
    with pytest.raises(ConfigError, match="which model of ollama"):
        resolve_model("ollama/")


def test_a_key_that_is_missing_is_told_with_where_to_put_it() -> None:
    looked = {"anthropic": replace(BUILT_IN["anthropic"], api_key="")}
    with pytest.raises(ConfigError) as caught:
        resolve_model("anthropic/claude-opus-5-5", providers=looked)
    assert str(caught.value) == "no key for anthropic: set ANTHROPIC_API_KEY"


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_a_model_of_a_provider_has_the_whole_name_and_asks_nobody_yet(protocol: Any) -> None:
    provider = Provider(name="work", protocol=protocol, base_url="http://127.0.0.1:1/v1")
    model = resolve_model("work/a/b:c", providers={"work": provider})
    assert model.name == "work/a/b:c"


SAID: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "big"}
ANSWER = sse_body(
    {**SAID, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
    {**SAID, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**SAID, "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}},
)


def test_the_first_slash_separates_and_key_and_price_are_the_providers(
    tmp_path: Path,
) -> None:
    with serve_loopback(Loopback(ANSWER, content_type="text/event-stream")) as server:
        provider = Provider(name="work", base_url=server.url, key_env="WORK_KEY", api_key="k1")
        prices = Prices([Price(model="work/big", input=3, output=5)])
        model = resolve_model("work/vendor/big", providers={"work": provider}, prices=prices)
        drafted = draft(model, request("Hello"))
    [(path, headers, body)] = server.requests
    assert (path, headers["authorization"]) == ("/v1/chat/completions", "Bearer k1")
    assert body["model"] == "vendor/big"
    assert drafted.message().content == "Hi"
    assert drafted.finish is not None
    assert drafted.finish.cost_usd == pytest.approx((1000 * 3 + 10 * 5) / 1e6)


def test_a_server_without_a_key_is_never_sent_that_of_another(tmp_path: Path) -> None:
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


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.yaml"):
        resolve_model("scripted:none.yaml", base=tmp_path)
    with pytest.raises(LogNotFound, match=r"none\.jsonl"):
        resolve_model("replay:none.jsonl", base=tmp_path)


def test_one_run_has_one_model_per_name(script: Path) -> None:
    models = caching_resolver(base=script.parent)
    assert models("scripted:cafe.yaml") is models("scripted:cafe.yaml")
    assert models("scripted:cafe.yaml") is not caching_resolver(base=script.parent)(
        "scripted:cafe.yaml"
    )


def test_yaml_and_sdks_are_not_imported_before_they_are_needed() -> None:
    code = (
        "import sys; from harken.llm.resolve import resolve_model\n"
        "resolve_model('ollama/llama3.2')\n"
        "sys.exit(bool({'yaml', 'openai', 'anthropic'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
