"""`harken mcp add` and `remove`: what they write, and that all else in the file stays."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.cli.commands.mcp.edit import without_server
from tests.cli.kit import Cli
from tests.mcp_kit import TOY

OWN = """\
# Mine: do not lose this.
model = "scripted:x"   # the one I like

[mcp.servers.first]    # why I have it
command = "cat"
args = [
  "[mcp.servers.second]",
]

# About the second one.
[mcp.servers.second]
url = "https://a.example/mcp"

# About headers.
[mcp.servers.second.headers]
x-team = "tea"

# About tools.
[tools]
sandbox = "auto"
"""


def config(cli: Cli) -> Path:
    return cli.home / "config.toml"


def write(cli: Cli, text: str) -> None:
    cli.home.mkdir(exist_ok=True)
    config(cli).write_text(text)


def test_a_program_is_added_and_works(cli: Cli) -> None:
    said = cli.ok("mcp", "add", "toy", "--env", "A b=c", "--", sys.executable, "-I", str(TOY))
    assert said.out.startswith(f"Added toy to {config(cli)}. `harken mcp test toy`")
    assert config(cli).stat().st_mode & 0o777 == 0o600
    assert cli.ok("mcp").out.startswith("toy  ready\n")
    assert cli.ok("mcp", "remove", "toy").out == f"Removed toy from {config(cli)}.\n"
    assert "No MCP servers" in cli.ok("mcp").out


def test_who_a_program_is_is_added_and_its_secret_is_not_written(cli: Cli) -> None:
    web = ("mcp", "add", "web", "--url", "https://b.example/mcp", "--client-id", "ci")
    grant = ("--oauth", "grant=client_credentials", "--oauth")
    refused = cli.refused(*web, *grant, "client_secret=s3cret")
    assert "not a valid value" in refused
    assert "s3cret" not in refused
    cli.ok(*web, *grant, "client_secret=${CI_SECRET}")
    assert tomllib.loads(config(cli).read_text())["mcp"]["servers"]["web"]["oauth"] == {
        "client_id": "ci",
        "grant": "client_credentials",
        "client_secret": "${CI_SECRET}",
    }


def test_all_that_can_be_said_is_written_and_all_else_stays(cli: Cli) -> None:
    write(cli, OWN)
    header = ("--header", "Authorization: Bearer ${TOKEN}", "--header", "x: ü\"'")
    cli.ok("mcp", "add", "web", "--url", "https://b.example/mcp", *header, "--client-id", "me")
    cli.ok("mcp", "add", "box", "--sandbox", "--network", "--", "cat", "-n", "--url", "\\")
    text = config(cli).read_text()
    assert text.startswith(OWN)
    servers = tomllib.loads(text)["mcp"]["servers"]
    assert servers["web"] == {
        "url": "https://b.example/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "x": "ü\"'"},
        "oauth": {"client_id": "me"},
    }
    assert servers["box"] == {
        "command": "cat",
        "args": ["-n", "--url", "\\"],
        "sandbox": True,
        "network": True,
    }
    for name in ("web", "box"):
        cli.ok("mcp", "remove", name)
    assert config(cli).read_text().rstrip() == OWN.rstrip()


def test_a_server_goes_and_comments_stay(cli: Cli) -> None:
    write(cli, OWN)
    cli.ok("mcp", "remove", "second")
    text = config(cli).read_text()
    assert "a.example" not in text
    assert "x-team" not in text
    for comment in ("# Mine", "# the one I like", "# why I have it", "# About tools."):
        assert comment in text
    cli.ok("mcp", "remove", "first")
    assert tomllib.loads(config(cli).read_text()) == {
        "model": "scripted:x",
        "tools": {"sandbox": "auto"},
    }


def test_a_link_to_the_file_stays_one(cli: Cli, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("# mine\n")
    real.chmod(0o644)
    cli.home.mkdir()
    config(cli).symlink_to(real)
    cli.ok("mcp", "add", "a", "--", "cat")
    assert config(cli).is_symlink()
    assert real.read_text() == '# mine\n\n[mcp.servers.a]\ncommand = "cat"\n'
    assert real.stat().st_mode & 0o777 == 0o644


def test_the_ends_of_lines_stay_as_they_are(cli: Cli) -> None:
    cli.home.mkdir()
    text = "# mine\r\n[tools]\r\nsandbox = 'auto' # a\u2028[b]\r\n"
    config(cli).write_bytes(text.encode())
    cli.ok("mcp", "add", "a", "--", "cat")
    added = '\r\n[mcp.servers.a]\r\ncommand = "cat"\r\n'
    assert config(cli).read_bytes().decode() == text + added
    cli.ok("mcp", "remove", "a")
    assert config(cli).read_bytes().decode().rstrip() == text.rstrip()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("first", "--", "cat"), "remove it first: `harken mcp remove first`"),
        (("a b", "--", "cat"), "the name of a server has at most 32"),
        (("a",), "must have either `command` (a program) or `url`"),
        (("a", "--url", "https://a.example", "--", "cat"), "must have either `command`"),
        (("a", "--url", "ftp://a"), "url must be a URL such as"),
        (("a", "--env", "B", "--", "cat"), "write --env NAME=VALUE"),
        (("a", "--url", "https://a.example", "--header", "B"), "write --header"),
        (("a", "--env", "API_KEY=abc", "--", "cat"), "keys must not be in the file"),
        (("a", "--", "cat", "sk-" + "a" * 30), "this looks like a key"),
        (("a", "--network", "--", "cat"), "network is for a sandbox"),
        (("a", "--", "cat", "\udcff"), "not a valid value: it is not UTF-8 text"),
    ],
)
def test_what_cannot_be_is_refused_and_the_file_stays(
    cli: Cli, arguments: tuple[str, ...], why: str
) -> None:
    write(cli, OWN)
    assert why in cli.refused("mcp", "add", *arguments)
    assert config(cli).read_text() == OWN
    assert [one.name for one in cli.home.iterdir() if one.is_file()] == ["config.toml"]


@pytest.mark.parametrize(
    "text",
    [
        "mcp = { servers = { x = { command = 'cat' } } }\n",
        "[mcp]\nservers.x.command = 'cat'\n",
        "[mcp.servers]\nx = { command = 'cat' }\n",
    ],
)
def test_a_file_that_is_written_in_another_way_is_left_to_the_user(cli: Cli, text: str) -> None:
    write(cli, text)
    assert "edit the file" in cli.refused("mcp", "remove", "x")
    assert config(cli).read_text() == text


def test_who_removes_what_is_not_there_is_told_what_is(cli: Cli) -> None:
    write(cli, OWN)
    said = cli.refused("mcp", "remove", "x")
    assert said == f"MCP server 'x' not found in {config(cli)}; existing servers: first, second"


@given(st.text(alphabet="[]mcp.servers.x='\"#\n ab{}", max_size=200))
def test_whatever_stands_in_a_file_looking_for_a_server_does_not_fail(text: str) -> None:
    found = without_server(text, "x")
    assert without_server(found, "x").count("\n") <= text.count("\n")
