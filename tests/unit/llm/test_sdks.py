"""SDKs are extras: they are imported when used, and a missing one names its extra."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import blake3
import msgspec
import pytest
import yaml

import harken
from harken.errors import ConfigError
from harken.llm.anthropic import AnthropicModel
from harken.llm.openai import OpenAIModel
from harken.testing import request_of
from tests.agent_kit import run
from tests.provider.server import Provider
from tests.provider.wire import ANTHROPIC, OPENAI, WIRES, Wire, endpoint

MODELS = [("anthropic", "AnthropicModel"), ("openai", "OpenAIModel")]


async def call_model(model: Any) -> list[Any]:
    return [chunk async for chunk in model.stream(request_of("Hi"))]


def missing_module(name: str) -> Any:
    raise ImportError(f"No module named {name!r}")


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
def test_missing_sdk_names_the_extra(kind: type[AnthropicModel | OpenAIModel]) -> None:
    model = kind("some/model", "model", import_sdk=missing_module)
    for use in (model.warm_up, lambda: asyncio.run(call_model(model))):
        with pytest.raises(ConfigError, match=r"pip install 'harken\[(anthropic|openai)\]'"):
            use()


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
def test_incompatible_sdk_names_the_required_version(
    kind: type[AnthropicModel | OpenAIModel],
) -> None:
    old = SimpleNamespace(__version__="0.2.0")
    model = kind("some/model", "model", import_sdk=lambda _: old)
    with pytest.raises(ConfigError, match=r"0\.2\.0 does not fit.*pip install --upgrade 'harken\["):
        asyncio.run(call_model(model))


def test_partially_installed_sdk_is_reported_as_missing() -> None:
    def broken(name: str) -> Any:
        raise RuntimeError(f"{name}: no such symbol")

    with pytest.raises(ConfigError, match="no such symbol"):
        OpenAIModel("some/model", "model", import_sdk=broken).warm_up()


@pytest.mark.parametrize(("sdk", "kind"), MODELS)
@pytest.mark.req("D-06")
def test_local_server_gets_nothing_from_the_environment(sdk: str, kind: str) -> None:
    """In a subprocess whose environment contains the variables that the SDKs read."""
    answer = {"anthropic": ANTHROPIC, "openai": OPENAI}[sdk].answer("Hi.")
    with Provider([answer]) as provider:
        program = (
            "import asyncio, sys\n"
            f"from harken.llm.{sdk} import {kind}\n"
            "from harken.llm.http_model import ModelEndpoint\n"
            "from harken.testing import request_of\n"
            f"model = {kind}('x', 'y', endpoint=ModelEndpoint(base_url=sys.argv[1]))\n"
            "async def ask():\n"
            "    return [chunk async for chunk in model.stream(request_of('Hi'))]\n"
            "assert asyncio.run(ask())\n"
        )
        secrets = {
            **{f"{sdk.upper()}_{name}": "secret" for name in ("API_KEY", "AUTH_TOKEN", "ORG_ID")},
            **{f"{sdk.upper()}_{name}": "secret" for name in ("PROJECT_ID", "WORKSPACE_ID")},
            f"{sdk.upper()}_CUSTOM_HEADERS": "X-Gateway: secret",
            f"{sdk.upper()}_BASE_URL": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "http_proxy": "http://127.0.0.1:9",
        }
        base = provider.url + ("/v1" if sdk == "openai" else "")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **secrets}
        subprocess.run([sys.executable, "-c", program, base], env=environ, check=True, timeout=60)
        [received] = provider.asked
    assert "secret" not in str(received.headers)


@pytest.mark.parametrize(("sdk", "kind"), MODELS)
def test_all_other_features_work_without_the_sdk(tmp_path: Path, sdk: str, kind: str) -> None:
    """In a Python with only the required dependencies of Harken."""
    out = run_without_sdks(
        tmp_path,
        f"from harken.llm.{sdk} import {kind}\n"
        f"model = {kind}('x', 'y')\n"
        f"try: model.warm_up()\n"
        f"except ConfigError as error: print(error)\n",
    )
    assert f"pip install 'harken[{sdk}]'" in out


@pytest.mark.parametrize(("sdk", "kind"), MODELS)
def test_model_with_a_missing_sdk_is_not_resolved(tmp_path: Path, sdk: str, kind: str) -> None:
    out = run_without_sdks(
        tmp_path,
        f"from harken.llm.resolve import resolve_model\n"
        f"from harken.llm.providers import Provider\n"
        f"one = Provider(name='one', protocol='{sdk}', base_url='http://127.0.0.1:1')\n"
        f"try: resolve_model('one/m', providers={{'one': one}})\n"
        f"except ConfigError as error: print(error)\n",
    )
    assert out == f"one needs the package {sdk}: pip install 'harken[{sdk}]'\n"


def run_without_sdks(folder: Path, program: str) -> str:
    """Run a program without installed SDKs. Return its output."""
    for package in (msgspec, blake3, yaml):
        location = Path(str(package.__file__)).parent
        (folder / location.name).symlink_to(location)
    source = Path(str(harken.__file__)).parents[1]
    paths = f"import sys; sys.path += {[str(source), str(folder)]}\n"
    errors = "from harken.errors import ConfigError\n"
    command = [sys.executable, "-S", "-E", "-c", paths + errors + program]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    return completed.stdout


@pytest.mark.parametrize(("sdk", "kind"), MODELS)
def test_creating_a_model_imports_no_sdk(sdk: str, kind: str) -> None:
    program = (
        f"import sys; from harken.llm.{sdk} import {kind}; {kind}('x', 'y');"
        "print({'anthropic', 'openai', 'httpx2', 'pydantic'} & {*sys.modules})"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "set()"


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_model_that_was_warmed_up_in_a_thread_imports_nothing_more(wire: Wire) -> None:
    imported: list[str] = []

    def importing(name: str) -> Any:
        imported.append(threading.current_thread().name)
        return importlib.import_module(name)

    with Provider([wire.answer("Hi.")]) as provider:
        base = "" if wire is ANTHROPIC else "/v1"
        kind = AnthropicModel if wire is ANTHROPIC else OpenAIModel
        model = kind("x", "y", endpoint=endpoint(provider, base), import_sdk=importing)
        thread = threading.Thread(target=model.warm_up, name="while a person types")
        thread.start()
        thread.join()
        assert provider.asked == [], "nothing is sent"
        assert {*imported} == {"while a person types"}
        assert run(call_model(model))


@pytest.mark.parametrize(("sdk", "kind"), MODELS)
def test_warmed_up_model_has_imported_the_slow_modules(sdk: str, kind: str) -> None:
    program = (
        f"import sys, asyncio; from harken.llm.{sdk} import {kind}\n"
        f"from harken.llm.http_model import ModelEndpoint\n"
        f"from harken.errors import ModelError\n"
        f"from harken.testing.model import request_of\n"
        f"asked = ModelEndpoint(base_url='http://127.0.0.1:1', max_retries=0)\n"
        f"model = {kind}('x', 'y', endpoint=asked)\n"
        f"model.warm_up(); before = {{*sys.modules}}\n"
        f"async def ask(): return [one async for one in model.stream(request_of('Hi'))]\n"
        f"try: asyncio.run(ask())\n"
        f"except ModelError: print({{one.partition('.')[0] for one in {{*sys.modules}} - before}})"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "anyio" not in completed.stdout
    assert completed.stdout.startswith(("{", "set()"))


def test_endpoint_does_not_show_its_key() -> None:
    with Provider([]) as provider:
        assert "secret" not in repr(endpoint(provider))
        assert "secret" not in repr(vars(OPENAI.model(provider)))
