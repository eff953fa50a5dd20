"""`harken models` and `harken init`: what they say, and what they write."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harken.cli.commands.init import config_text, toml_text, what_next
from harken.config.discovery import SUGGESTED, ModelChoice, ProviderStatus, choose_model
from harken.config.file import parse_config
from harken.llm.prices import Prices
from harken.llm.providers import BUILT_IN
from tests.cli.kit import Cli, start
from tests.loopback_kit import Loopback, models_body, serve_loopback

NOWHERE = "http://127.0.0.1:1/v1"
LOCAL = [name for name, one in BUILT_IN.items() if one.local]


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serve_loopback(Loopback(models_body("llama3.2", "qwen3:8b"))) as answering:
        yield answering


@pytest.fixture
def cut_off(cli: Cli, server: Loopback) -> Cli:
    """A machine on which nothing runs but Ollama, whatever really does."""
    urls = dict.fromkeys(LOCAL, NOWHERE) | {"ollama": server.url}
    tables = [f'[providers.{name}]\nbase_url = "{url}"\n' for name, url in urls.items()]
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").write_text("".join(tables))
    return cli


def test_what_can_be_used_comes_first_then_what_others_need(cut_off: Cli) -> None:
    cut_off.environ = {"ANTHROPIC_API_KEY": "s3cret", "HARKEN_MODEL": "openai/gpt-6.2-sol"}
    ran = cut_off.ok("models")
    assert ran.err == ""
    assert "s3cret" not in ran.out
    assert ran.out.startswith(
        "New sessions use openai/gpt-6.2-sol (from HARKEN_MODEL).\n"
        "Not ready: set OPENAI_API_KEY.\n"
        "\n"
        "Ready  "
    )
    ready, waiting = ran.out.split("\nNot ready\n")
    assert "\n  anthropic/claude-opus-5-5        4 / 20\n" in ready
    assert "\n  anthropic/claude-haiku-5-5    0.10 / 0.50  up to 100k of prompt\n" in ready
    assert " more: `" in ready
    assert ready.endswith("\n  ollama/llama3.2\n  ollama/qwen3:8b\n")
    assert "  openai      set OPENAI_API_KEY\n" in waiting
    assert f"  vllm        not running: start it at {NOWHERE}\n" in waiting
    assert "\x1b" not in ran.out


def test_one_provider_is_shown_whole_also_where_it_is_not_ready(cut_off: Cli) -> None:
    out = cut_off.ok("models", "anthropic").out
    assert out.startswith("No model is configured: run `")
    assert "Known  " in out
    assert "anthropic/claude-sonnet-4-5" in out
    assert "more: " not in out
    assert out.endswith("Not ready\n  anthropic  set ANTHROPIC_API_KEY\n")
    assert "existing providers: anthropic, openai" in cut_off.refused("models", "nobody")


def test_a_provider_whose_models_are_not_known_says_how_to_ask(cut_off: Cli) -> None:
    cut_off.environ = {"GROQ_API_KEY": "k"}
    assert "  groq/...: `" in cut_off.ok("models").out
    assert "` lists its models\n" in cut_off.ok("models", "groq").out


def test_all_of_it_can_be_had_as_json(cut_off: Cli) -> None:
    cut_off.environ = {"OPENAI_API_KEY": "s3cret", "HARKEN_MODEL": "ollama/llama3.2"}
    ran = cut_off.ok("models", "--json")
    assert "s3cret" not in ran.out
    assert (ran.json["model"], ran.json["model_from"]) == ("ollama/llama3.2", "HARKEN_MODEL")
    rows = {row["name"]: row for row in ran.json["providers"]}
    assert rows.keys() == BUILT_IN.keys()
    assert (rows["openai"]["ready"], rows["openai"]["missing"]) == (True, [])
    [sol] = [one for one in rows["openai"]["models"] if one["name"] == "openai/gpt-6.2-sol"]
    assert sol["usd_per_million_tokens"] == {
        "input": 2,
        "output": 10,
        "cache_read": 0.1,
        "cache_write": 2.5,
    }
    assert rows["ollama"]["models"] == [
        {"name": "ollama/llama3.2", "usd_per_million_tokens": None},
        {"name": "ollama/qwen3:8b", "usd_per_million_tokens": None},
    ]
    assert not rows["lmstudio"]["ready"]


def test_a_configuration_that_is_wrong_is_one_line(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "config.toml").write_text("modle = 5")
    assert "config.toml, line 1: modle: unknown; valid names: model" in cli.refused("models")
    assert "config.toml, line 1: modle: unknown; valid names: model" in cli.refused("init")


def test_a_project_that_is_ignored_is_told_on_standard_error(cut_off: Cli) -> None:
    Path(".harken").mkdir()
    ran = cut_off.ok("models", "--json")
    assert ran.json["model"] is None
    assert f"{Path.cwd()}/.harken is ignored until you trust it: `" in ran.err
    cut_off.ok("trust")
    assert cut_off.ok("models", "--json").err == ""


def test_init_says_what_it_found_and_writes_what_it_chose(cut_off: Cli) -> None:
    (cut_off.home / "config.toml").unlink()
    cut_off.environ = {"ANTHROPIC_API_KEY": "s3cret"}
    ran = cut_off.ok("init")
    file = cut_off.home / "config.toml"
    assert "\n  anthropic  ANTHROPIC_API_KEY\n" in ran.out
    assert f"Wrote {file}.\nNew sessions use anthropic/" in ran.out
    assert "s3cret" not in ran.out + file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(file.read_text()) == {"model": "anthropic/claude-opus-5-5"}


def test_init_never_overwrites_but_shows_what_it_would_write(cut_off: Cli) -> None:
    file = cut_off.home / "config.toml"
    before = file.read_text()
    ran = cut_off.ok("init")
    assert file.read_text() == before
    assert "exists and was not changed (--force replaces it)." in ran.out
    assert 'model = "ollama/llama3.2"\n' in ran.out
    assert "  ollama  http://127.0.0.1:" in ran.out
    assert cut_off.ok("init", "--json").json == {
        "file": str(file),
        "written": False,
        "model": "ollama/llama3.2",
        "ready": ["ollama"],
    }


def test_init_with_force_keeps_the_old_file(cut_off: Cli) -> None:
    file = cut_off.home / "config.toml"
    first = file.read_text()
    cut_off.environ = {"XAI_API_KEY": "k"}
    ran = cut_off.ok("init", "--force")
    second = file.read_text()
    assert "(previous file: config.toml.1)" in ran.out
    assert 'model = "xai/grok-4.7"' in second
    cut_off.ok("init", "--force")
    kept = [(cut_off.home / f"config.toml.{n}").read_text() for n in (1, 2)]
    assert kept == [first, second]
    file.write_text("broken")
    cut_off.ok("init", "--force")  # a way out of a file that cannot be read


def test_init_may_find_that_the_home_cannot_be_written(cli: Cli) -> None:
    cli.home.write_text("a file")
    assert "not a folder; choose another home" in cli.refused("init")


def found(
    name: str, *models: str, key: str | None = None, missing: tuple[str, ...] = ()
) -> ProviderStatus:
    return ProviderStatus(replace(BUILT_IN[name], api_key=key), missing, models)


def test_the_model_to_begin_with_is_one_that_works_now() -> None:
    lacking = found("openai", key="k", missing=("pip install 'harken[openai]'",))
    no_key = found("anthropic", key="", missing=("set ANTHROPIC_API_KEY",))
    assert choose_model([no_key, lacking, found("ollama", "llama3.2")]) == ModelChoice(
        "ollama/llama3.2"
    )
    assert choose_model([no_key, lacking]) == ModelChoice("openai/gpt-6.2-sol", lacking.missing)
    assert (
        choose_model([no_key, found("groq", key="k"), found("ollama", missing=("start it",))])
        is None
    )
    assert choose_model([]) is None
    listed = found("ollama", "nomic-embed-text", "llama3.2")
    assert choose_model([listed]) == ModelChoice("ollama/llama3.2"), "not one that cannot answer"


def test_init_says_how_to_find_a_model_of_a_provider_that_it_found() -> None:
    assert "models groq --remote" in what_next(None, ["groq"])
    assert "Set a key" in what_next(None, [])


def test_a_model_of_a_provider_that_is_not_there_is_told_as_such(cut_off: Cli) -> None:
    cut_off.environ = {"HARKEN_MODEL": "opnai/gpt"}
    assert "Provider 'opnai'" in cut_off.ok("models", "groq").out


@pytest.mark.parametrize("name", SUGGESTED)
def test_a_model_that_is_suggested_has_a_price(name: str) -> None:
    from datetime import UTC, datetime

    assert Prices().price(f"{name}/{SUGGESTED[name]}", datetime.now(UTC).date()) is not None


@pytest.mark.parametrize("model", [None, "ollama/llama3.2", 'a/"b"\\', "a/b\x7f\x00", "a/é"])
def test_what_is_written_can_be_read_and_so_can_every_example_in_it(model: str | None) -> None:
    text = config_text(None if model is None else ModelChoice(model))
    assert parse_config(text).model == model
    keys = [line for line in text.splitlines() if line.startswith(("# [", "# ")) and _is_code(line)]
    everything = "\n".join(line.removeprefix("# ") for line in keys)
    config = parse_config(everything)
    assert config.permission == "ask"
    assert config.providers["work"].key_env == "WORK_API_KEY"
    assert config.prices["work/large"].output == 4.0
    [table] = config.models.values()
    assert table.parameters == {"max_tokens": 16000}
    assert config.tools.allow_folders == ["~/notes"]


def _is_code(line: str) -> bool:
    return line.startswith("# [") or (" = " in line and not line.startswith("# model"))


def test_a_text_is_written_as_toml_reads_it() -> None:
    odd = "".join(map(chr, range(256))) + "\u2028🎉"
    assert tomllib.loads(f"x = {toml_text(odd)}")["x"] == odd


def test_both_work_as_programs_of_their_own(cut_off: Cli) -> None:
    ran = start(cut_off.home, "models", "--json", OPENAI_API_KEY="s3cret")
    rows = {row["name"]: row for row in json.loads(ran.stdout)["providers"]}
    assert rows["openai"]["missing"] == []
    assert b"s3cret" not in ran.stdout + ran.stderr
