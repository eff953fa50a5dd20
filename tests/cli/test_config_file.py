"""What is wrong with a `config.toml`: the line, the member, and what is expected instead."""

from __future__ import annotations

import pytest

from harken.config.file import ConfigFile, find_line, parse_config
from harken.errors import ConfigError


def wrong(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_file_says_nothing() -> None:
    assert parse_config("# nothing") == ConfigFile()


def test_everything_can_be_said() -> None:
    config = parse_config(
        """
        model = "anthropic/claude-opus-5-5"
        permission = "plan"
        permissions = { allow = ["a"], ask = ["b"], deny = ["c"] }
        parameters = { thinking = { type = "adaptive" }, stop = ["x"], temperature = 1.5 }
        [models."a/b".parameters]
        max_tokens = 5
        [providers.work]
        protocol = "anthropic"
        base_url = "https://llm.example.org"
        key_env = "WORK_KEY"
        [prices."a/b"]
        input = 1
        output = 2.5
        cache_read = 0.1
        cache_write = 1.25
        effective_from = 2026-01-31
        [tools]
        allow_folders = ["x"]
        """
    )
    assert config.parameters["thinking"] == {"type": "adaptive"}
    assert config.models["a/b"].parameters == {"max_tokens": 5}
    assert config.providers["work"].protocol == "anthropic"
    assert config.prices["a/b"].cache_write == 1.25


KNOWN = "model, permission, actions, redact, compact_at, permissions, parameters, models, providers, prices, tools"

BAD = {
    "model = 'a'\nmodle = 'b'": f", line 2: modle: unknown; valid names: {KNOWN}",
    "model = 5": ", line 1: model: must be a string; put it in quotes",
    "model = ' '": ", line 1: model: must name a model",
    "\npermission = 'alll'": ", line 2: permission: must be one of ask, edits, all, plan",
    "compact_at = 1.5": ", line 1: compact_at: must be a number from 0 to 1",
    "compact_at = '80%'": ", line 1: compact_at: must be a number from 0 to 1",
    "[models.x]\ncontext_window = 0": ", line 2: models.x.context_window: must be a whole number from 1",
    "permission = true": ", line 1: permission: must be one of ask, edits, all, plan",
    "permissions = 5": ", line 1: permissions: must be a table: write [permissions]",
    "[permissions]\nallow = 'bash'": (
        ', line 2: permissions.allow: must be a list of strings; write ["...", "..."]'
    ),
    "[permissions]\nallow = [1]": ", line 2: permissions.allow: must be a string; put it in quotes",
    "[permissions]\nask = ['a']\ndeny = ['bash(git *']": (
        ", line 3: permissions.deny: 'bash(git *' is not a rule: write TOOL, TOOL(PATTERN)"
    ),
    "[permissions]\nalow = []": ", line 2: permissions.alow: unknown; valid names: allow, ask, deny",
    "[parameters]\nday = 2026-01-31": (
        ", line 2: parameters.day: must be a string, a number, true, false, a list or a table"
    ),
    "[parameters.x]\ny = nan": ", line 2: parameters.x.y: must be a string, a number, true, false",
    "[parameters]\nx = [[inf]]": ", line 2: parameters.x: must be a string, a number, true, false",
    f"[parameters]\nx = {'9' * 400}": ", line 2: parameters.x: must be a string, a number",
    "[models.x]\nmax_tokens = 5": ", line 2: models.x.max_tokens: unknown; valid names: parameters",
    "[providers.work]\nprotocol = 'openai'": ", line 1: providers.work: needs base_url: a string",
    "[providers.work]\nprotocol = 'grpc'\nbase_url = 'http://x'": (
        ", line 2: providers.work.protocol: must be one of anthropic, openai"
    ),
    "[providers.work]\nbase_url = 'http://x'\nshort_ids = 1": (
        ", line 3: providers.work.short_ids: must be true or false"
    ),
    "[providers.work]\nbase_url = 'http://x'\nomit = 'seed'": (
        ', line 3: providers.work.omit: must be a list of strings; write ["...", "..."]'
    ),
    "[providers.'a/b']\nbase_url = 'http://x'": (
        ', line 1: providers."a/b": a provider name has the characters a-z, 0-9, - and _'
    ),
    "[providers.replay]\nbase_url = 'http://x'": ", line 1: providers.replay: a provider name",
    "providers.work.base_url = 'ftp://x'": (
        ", line 1: providers.work.base_url: must be a URL such as https://llm.example.org/v1"
    ),
    "[prices.'a/b']\ninput = -1\noutput = 1": ', line 2: prices."a/b".input: must be a number from 0',
    "[prices.'a/b']\ninput = 1": ', line 1: prices."a/b": needs output: a number from 0',
    "[prices.'a/b']\ninput = 1\noutput = 1\nlong_prompt = {from_tokens = 0, input = 1, output = 1}": (
        ', line 4: prices."a/b".long_prompt.from_tokens: must be a whole number from 1'
    ),
    "[prices.'a/b']\ninput = 1\noutput = 1\neffective_from = 'May'": (
        ', line 4: prices."a/b".effective_from: must be a date such as 2026-01-31'
    ),
    "x = [\n": ": invalid TOML: Invalid value (at end of document)",
    "a = 1\n\nx": "invalid TOML: ",
    "a = 1\nb = ?\nc = 3": ", line 2: invalid TOML: Invalid value",
    "'a\\nb' = 1": "unknown",
    '"a\\nb" = 1': ': "a b": unknown',
    "[tools]\nallow_folders = { a = 1 }": ", line 2: tools.allow_folders: must be a list of strings",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_told_with_its_line_and_what_is_expected(text: str) -> None:
    assert BAD[text] in wrong(text)


def test_what_is_nested_too_deeply_is_refused() -> None:
    assert "nested" in wrong("parameters.x = " + "[" * 5000 + "]" * 5000)


SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"

KEYS = [
    f"[providers.work]\nbase_url = 'http://x'\napi_key = '{SECRET}'",
    "[providers.work]\nbase_url = 'http://x'\nAPI-Key = 'hunter2'",
    "[providers.work]\nbase_url = 'http://x'\ntoken = 'hunter2'",
    f"[providers.work]\nbase_url = 'http://x'\nkey_env = '{SECRET}'",
    "[providers.work]\nbase_url = 'http://x'\nkey_env = 'hunter2'",
    "[providers.work]\nbase_url = 'http://me:hunter2@x'",
    "[providers.work]\nbase_url = 'http://x/v1?key=hunter2'",
    f"model = '{SECRET}'",
    f"[parameters]\nuser = '{SECRET}'",
    "[parameters]\napi_key = 'hunter2'",
    "[parameters.extra.headers]\nAuthorization = 'Bearer hunter2'",
    "api_key = 'hunter2'",
    f"[permissions]\nallow = ['bash(curl -H {SECRET})']",
]


@pytest.mark.parametrize("text", KEYS)
def test_a_key_in_the_file_is_refused_and_not_repeated(text: str) -> None:
    said = wrong(text)
    assert "keys must not be in the file; use an environment variable" in said
    assert "hunter2" not in said
    assert "abcdef" not in said


def test_what_only_sounds_like_a_key_is_no_key() -> None:
    config = parse_config("[parameters]\nmax_tokens = 5\nprompt_cache_key = 'x'\nseed = 'sk-1'")
    assert len(config.parameters) == 3
    assert parse_config("model = 'groq/hf-some-very-long-name-of-a-model-xai-large'").model


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["model"], 1),
        (["providers", "work"], 3),
        (["providers", "work", "base_url"], 4),
        (["providers", "work", "gone"], 3),
        (["models", "a/b", "parameters", "x"], 7),
        (["many", "b"], 9),
        (["nothing"], None),
    ],
)
def test_a_line_is_that_of_the_member_or_of_the_nearest_above(
    path: list[str], line: int | None
) -> None:
    text = (
        "model = 'x = y'  # model\n\n[providers.work]\nbase_url='b'\n\n"
        '[models."a/b".parameters]\n  x = 5\n[[many]]\nb = 1\n'
    )
    assert find_line(text, path) == line


def test_a_secret_of_a_login_is_named_and_not_written() -> None:
    text = '[mcp.servers.x]\nurl = "https://a.example"\noauth = { client_secret = "pw" }\n'
    said = wrong(text)
    assert said.startswith(", line 1: mcp.servers.x: secrets must not be in the file")
    assert "pw" not in said
    assert parse_config(text.replace("pw", "${X}")).mcp.servers["x"].oauth.client_secret == "${X}"


def test_a_start_of_an_agent_names_an_event_and_is_not_one_of_a_review() -> None:
    text = '[start.work]\nevent = "ready"\ntemplate = "coder"\ntypes = ["bug"]\n'
    assert parse_config(text).start["work"].types == ["bug"]
    assert "start.work: needs event" in wrong("[start.work]\n")
    assert "start.work: needs template" in wrong('[start.work]\nevent = "ready"\n')
    assert "that of a condition of reviews" in wrong('[start.review]\nevent = "review"\n')
    assert "must be one of" in wrong('[start.work]\nevent = "soon"\n')
