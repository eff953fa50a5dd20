"""What of the web the agents of a chat have: as it is configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.chat.world import build_web_tools, find_search_provider
from harken.config.file import WebTable, parse_config
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.errors import ConfigError
from harken.world.web.search import BRAVE, Brave, Searxng
from tests.cli.kit import Cli


def test_pages_can_be_fetched_without_any_configuration() -> None:
    tools, web = build_web_tools(WebTable())
    assert ([one.name for one in tools], web) == (["fetch"], None)


def test_who_finds_pages_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    tools, web = build_web_tools(
        WebTable(search="searxng", url="https://s.example.org", allow=["a.b"])
    )
    assert [one.name for one in tools] == ["fetch", "websearch"]
    assert web is not None
    assert web.search == Searxng("https://s.example.org")
    assert web.downloads.network_policy.allowed == ("a.b",)
    monkeypatch.setenv("MY_KEY", "k3y")
    assert find_search_provider(WebTable(search="brave", key_env="MY_KEY")) == Brave("k3y", BRAVE)


def test_a_search_without_its_key_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="set the variable NO_SUCH_KEY"):
        find_search_provider(WebTable(search="brave", key_env="NO_SUCH_KEY"))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("search = 'searxng'", "needs url"),
        ("search = 'brave'", "needs key_env"),
        ("search = 'other'", "must be one of searxng, brave"),
        ("url = 'no address'", "must be a URL"),
        ("key_env = 'not a name'", "must be the name of a variable"),
    ],
)
def test_what_is_no_setting_is_refused(said: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_config(f"[web]\n{said}\n")


def test_a_project_does_not_say_where_questions_go(cli: Cli) -> None:
    (Path.cwd() / ".harken").mkdir()
    (Path.cwd() / ".harken/config.toml").write_text("[web]\nallow = ['10.0.0.1']\n")
    cli.ok("trust")
    assert "web would choose the receiver of queries; only config.toml" in cli.refused("models")


def test_the_key_of_the_search_is_kept_from_commands(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[web]\nsearch = 'brave'\nkey_env = 'LAB'\n")
    assert "LAB" in load_settings(Home(str(tmp_path)), environ={}).key_variables
