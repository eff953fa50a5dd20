"""MCP servers on the command line: what is configured, trusted, tried and used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harken.config.file import parse_config
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.config.trust import Trust
from harken.errors import ConfigError
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.mcp_kit import TOY, is_alive
from tests.session_kit import read_lines

TOML = f"""\
[mcp.servers.toy]
command = "{sys.executable}"
args = ["-I", "{TOY}"]
"""
SCRIPT = """\
rules:
  - pattern: "^Echo"
    calls: [{mcp__toy__echo: {text: tea}}]
  - pattern: tea
    answer: It said tea.
"""


def configure(cli: Cli, text: str = TOML) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.toml").write_text(text)


def mcp_json(folder: Path, **servers: Any) -> Path:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def theirs() -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", str(TOY)]}


def test_servers_are_listed_with_their_state_and_tools(cli: Cli) -> None:
    configure(cli, f'{TOML}[mcp.servers.gone]\ncommand = "no-such-program"\n')
    out = cli.ok("mcp").out
    assert "toy  ready" in out
    assert "toy 1, protocol 2025-11-25, " in out
    assert "    mcp__toy__echo" in out
    assert "gone  failed" in out
    assert "program 'no-such-program' not found in PATH" in out
    assert (f"  install it, or change its settings in {cli.home / 'config.toml'}\n") in out
    rows = cli.ok("mcp", "--json").json
    assert [(row["name"], row["state"]) for row in rows] == [("toy", "open"), ("gone", "failed")]


def test_one_server_is_tested_and_the_exit_code_says_whether_it_can_be_used(cli: Cli) -> None:
    configure(cli, f'{TOML}[mcp.servers.gone]\ncommand = "no-such-program"\n')
    assert "mcp__toy__env" in cli.ok("mcp", "test", "toy").out
    ran = cli("mcp", "test", "gone", "--json")
    assert (ran.code, ran.json["state"]) == (1, "failed")
    assert cli.refused("mcp", "test", "x") == (
        "MCP server 'x' not found; existing MCP servers: toy, gone"
    )


def test_where_no_server_can_be_used_the_exit_code_says_so_and_each_says_what_to_do(
    cli: Cli,
) -> None:
    configure(
        cli,
        '[mcp.servers.dies]\ncommand = "sh"\nargs = ["-c", "echo no tea >&2; exit 3"]\n'
        '[mcp.servers.far]\nurl = "http://127.0.0.1:9/mcp"\n',
    )
    ran = cli("mcp")
    assert ran.code == 1
    where = f"or change its settings in {cli.home / 'config.toml'}\n"
    assert "(exit code 3; its last output: no tea)\n" in ran.out
    assert f"  run the command by hand to see its error, {where}" in ran.out
    assert f"  check that the server is running, {where}" in ran.out
    assert cli("mcp", "--json").code == 1


def test_without_servers_it_is_said_how_to_have_one(cli: Cli) -> None:
    assert "mcp add NAME -- COMMAND` adds [mcp.servers.NAME] to" in cli.ok("mcp").out


@pytest.mark.req("S4-40")
def test_a_chat_has_the_tools_of_servers(cli: Cli, tmp_path: Path) -> None:
    configure(cli)
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    ran = cli.ok("chat", "--model", f"scripted:{script}", "--permission", "all", "-p", "Echo!")
    assert ran.out == "It said tea.\n"
    [log] = cli.sessions()
    assert [row["content"] for row in read_lines(log) if row.get("role") == "tool"] == ["tea"]


def test_a_project_s_servers_count_only_after_it_was_trusted(cli: Cli) -> None:
    here = Path.cwd()
    mcp_json(here, toy=theirs())
    ran = cli.ok("mcp")
    assert "No MCP servers" in ran.out
    assert ".mcp.json is ignored until you trust it: `harken trust" in ran.err
    trusted = cli.ok("trust").out
    assert f"setting: MCP server toy runs {sys.executable} -I {TOY}" in trusted
    ran = cli.ok("mcp")
    assert "toy  ready" in ran.out
    assert f"and .mcp.json: MCP server toy runs {sys.executable}" in ran.err
    cli.ok("trust", "--remove")
    assert "No MCP servers" in cli.ok("mcp").out


def test_trusting_names_also_the_programs_of_templates_and_of_the_configuration(
    cli: Cli,
) -> None:
    agents = Path.cwd() / ".harken" / "agents"
    agents.mkdir(parents=True)
    (agents / "reader.md").write_text("---\nmcp: {own: {command: own-docs}}\n---\nRead.\n")
    (agents.parent / "config.toml").write_text(
        '[mcp.servers.git]\ncommand = "uvx"\nargs = ["mcp-server-git"]\n'
        '[mcp.servers.far]\nurl = "https://far.example/mcp"\n'
    )
    out = cli.ok("trust").out
    assert "setting: MCP server git runs uvx mcp-server-git\n" in out
    assert "setting: MCP server far talks with https://far.example/mcp\n" in out
    assert "setting: MCP server own runs own-docs\n" in out


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create_folders()
    return home


@pytest.fixture
def project(tmp_path: Path, home: Home) -> Path:
    folder = tmp_path / "work" / "project"
    (folder / ".harken").mkdir(parents=True)
    Trust(home).trust(folder)
    return folder


def loaded(home: Home, project: Path, mine: str = "", theirs: str = "") -> Settings:
    (home.folder / "config.toml").write_text(mine)
    (project / ".harken" / "config.toml").write_text(theirs)
    return load_settings(home, folder=project, environ={})


def test_a_project_never_takes_the_place_of_a_server_of_the_user(home: Home, project: Path) -> None:
    mcp_json(project, mine={"command": "theirs"}, off={"command": "x"}, more={"command": "y"})
    mine = '[mcp.servers.mine]\ncommand = "ours"\n[mcp.servers.off]\nenabled = false\n'
    settings = loaded(home, project, mine, '[mcp.servers.more]\ncommand = "first"\n')
    assert [(one.name, one.command) for one in settings.servers] == [
        ("mine", "ours"),
        ("more", "first"),
    ]
    assert any("MCP server mine of" in note for note in settings.notes)


def test_a_project_s_servers_run_in_its_folder_and_get_no_key_of_a_model(
    home: Home, project: Path
) -> None:
    key = {"url": "https://x.example", "headers": {"a": "${OPENAI_API_KEY}"}}
    mcp_json(project, far=key, near={"command": "./serve", "cwd": "tools"})
    settings = loaded(home, project, theirs='[mcp.servers.here]\ncommand = "x"\n')
    by_name = {one.name: one for one in settings.servers}
    assert by_name.keys() == {"here", "near"}
    assert by_name["here"].cwd == str(project)
    assert by_name["near"].cwd == str(project / "tools")
    assert any(
        "server far of" in note
        and "uses OPENAI_API_KEY, the API key of a model, which servers do not get" in note
        for note in settings.notes
    )
    mine = '[mcp.servers.own]\ncommand = "x"\nenv = {A = "${OPENAI_API_KEY}"}\n'
    own, *_ = loaded(home, project, mine).servers
    assert (own.name, own.may_have_keys) == ("own", True)


@pytest.mark.parametrize("kind", ["link", "open", "folder"])
def test_a_file_of_servers_that_others_can_change_is_ignored(
    home: Home, project: Path, tmp_path: Path, kind: str
) -> None:
    file = mcp_json(project, toy={"command": "x"})
    if kind == "link":
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "open":
        file.chmod(0o666)
    else:
        file.unlink()
        file.mkdir()
    settings = loaded(home, project)
    assert settings.servers == ()
    [note] = settings.notes
    assert ".mcp.json is ignored: " in note


def test_the_nearest_harken_folder_is_the_project_whatever_servers_lie_nearer(
    home: Home, project: Path
) -> None:
    inner = project / "inner"
    inner.mkdir()
    mcp_json(inner, toy={"command": "x"})
    found = Trust(home).find_project(inner)
    assert found is not None
    assert found.root == project
    settings = load_settings(home, folder=inner, environ={})
    assert settings.servers == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[mcp.servers.x]\ncommand = "a"\nurl = "http://b"\n', "either `command`"),
        ('[mcp.servers."a b"]\ncommand = "a"\n', "the name of a server has"),
        ("[mcp.servers.x]\ncommand = 5\n", "must be a string"),
        ('[mcp.servers.x]\ncomand = "a"\n', "unknown; valid names: command"),
        ('[mcp.servers.x]\ncommand = "a"\nargs = "b"\n', "must be a list of strings"),
        ('[mcp.servers.x]\ncommand = "a"\nagents = "some"\n', "must be one of all, named"),
        ('[mcp.servers.x]\ncommand = "a"\ntimeout_s = -1\n', "a number of seconds"),
        ('[mcp.servers.x]\ncommand = "a"\nenv = {TOKEN = "abc"}\n', 'write "${NAME}" for it'),
        ('[mcp.servers.x]\nurl = "http://a"\nheaders = {Authorization = "x"}\n', "write"),
        ('[mcp.servers.x]\nurl = "http://me:pw@a"\n', "must be a URL"),
        ("[mcp.servers.x]\n", "either `command`"),
    ],
)
def test_what_is_wrong_with_a_server_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r", line \d: mcp\.servers") as error:
        parse_config(text)
    assert why in str(error.value)
    assert "pw" not in str(error.value)


def test_a_harken_that_is_killed_takes_its_servers_along(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    pids = tmp_path / "pids"
    (home / "config.toml").write_text(
        f'[mcp.servers.toy]\ncommand = "{sys.executable}"\n'
        f'args = ["-I", "{TOY}", "stays"]\nenv = {{TOY_LOG = "{pids}"}}\n'
    )
    script = tmp_path / "wait.yaml"
    script.write_text(
        "rules:\n  - pattern: Go\n    calls: [{mcp__toy__child: {}}]\n"
        "  - calls: [{mcp__toy__hang: {}}]\n"
    )
    arguments = ["chat", "--model", f"scripted:{script}", "--permission", "all", "-p", "Go"]
    environment = {**os.environ, "HARKEN_HOME": str(home)}
    harken = processes.start(
        [HARKEN, *arguments],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        child = _child_in(home)
        assert is_alive(child)
    finally:
        harken.send_signal(signal.SIGKILL)
        harken.wait()
    deadline = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child)


def _child_in(home: Path) -> int:
    """Return the process that the server's tool said it had started."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for log in (home / "sessions").glob("*.jsonl"):
            for row in read_lines(log):
                if row.get("role") == "tool":
                    return int(row["content"])
        time.sleep(0.05)
    raise AssertionError("no server was started")
