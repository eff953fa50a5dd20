"""From a model's name to the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harken.errors import ConfigError, LogNotFound, ScriptError
from harken.llm.base import ModelResolver
from harken.llm.resolve import one_per_name, resolve_model
from tests.unit.llm.asking import Recorder, answer, request

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


@pytest.mark.parametrize("name", ["", "gpt", "scripted", "scripted:", "replay: ", "openai/gpt-5"])
def test_another_name_is_refused_with_the_kinds_that_there_are(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_model(name)
    assert str(caught.value) == (
        f"there is no model {name!r}; a model is `scripted:FILE` (rules in YAML), "
        "`replay:SESSION` (a recorded log); those of providers come as extras"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.yaml"):
        resolve_model("scripted:none.yaml", base=tmp_path)
    with pytest.raises(LogNotFound, match=r"none\.jsonl"):
        resolve_model("replay:none.jsonl", base=tmp_path)


def test_one_run_has_one_model_per_name(script: Path) -> None:
    models = one_per_name(base=script.parent)
    assert models("scripted:cafe.yaml") is models("scripted:cafe.yaml")
    assert models("scripted:cafe.yaml") is not one_per_name(base=script.parent)(
        "scripted:cafe.yaml"
    )


def test_yaml_is_not_imported_before_a_script_is_read() -> None:
    code = "import sys, harken.llm.resolve; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
