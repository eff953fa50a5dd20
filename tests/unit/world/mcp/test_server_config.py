"""What a person writes of servers, in their own file and in those of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.errors import ConfigError
from harken.world.mcp.server_config import (
    McpServerConfig,
    OAuthTable,
    ServerTable,
    distinct,
    parse_granted_servers,
    read_mcp_json,
    server_of,
)


def program(**more: str) -> OAuthTable:
    return OAuthTable(grant="client_credentials", **more)  # type: ignore[arg-type]


def written(folder: Path, servers: Any) -> Path:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def test_the_file_of_other_programs_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "${B:-c}"}},
            "My docs": {"type": "http", "url": "https://docs.example/mcp", "disabled": False},
            "old": {"type": "sse", "url": "https://docs.example/sse"},
            "bad": {"args": ["x"]},
            "worse": 5,
            "odd": {"command": ["npx"]},
            "login": {"url": "https://l.example", "oauth": {"clientId": "me", "callbackPort": 8}},
        },
    )
    (git, docs, login), notes = read_mcp_json(file)
    assert (git.name, git.program, git.variables) == ("git", "uvx mcp-server-git", {"B"})
    assert (docs.name, docs.program) == ("My_docs", "https://docs.example/mcp")
    assert (login.oauth.client_id, login.oauth.callback_port) == ("me", 8)
    assert [note.partition(".mcp.json: ")[2].partition(":")[0] for note in notes] == [
        "old",
        "bad",
        "worse",
        "odd",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": []}', "\xff", '{"a":' * 9999])
def test_a_file_that_is_none_is_said_on_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".mcp.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as error:
        read_mcp_json(file)
    assert "\n" not in str(error.value)
    assert read_mcp_json(tmp_path / "none") == ([], [])


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "either `command`"),
        ({"command": "x", "url": "http://x"}, "either `command`"),
        ({"command": " "}, "headers are for a url"),
        ({"command": "x", "headers": {"a": "b"}}, "headers are for a url"),
        ({"url": "ftp://x"}, "must be a URL"),
        ({"url": "http://me:pw@x/mcp"}, "must be a URL"),
        ({"url": "http://x/ y"}, "must be a URL"),
        ({"url": "http://x", "args": ["y"]}, "not for a url"),
        ({"url": "http://x", "headers": {"a b": "c"}}, "header names"),
        ({"url": "http://x", "headers": {"a": "c\nd: e"}}, "header names"),
        ({"command": "x", "env": {"A=B": "c"}}, "variables and their values"),
        ({"command": "x", "timeout_s": 0.0}, "a number of seconds"),
        ({"command": "x", "oauth": OAuthTable(client_id="me")}, "oauth is for a url"),
        ({"url": "https://x", "oauth": OAuthTable(client_secret="pw")}, "must not be in the file"),
        ({"url": "https://x", "oauth": OAuthTable(callback_port=1 << 16)}, "must be a number from"),
        *[
            ({"url": "https://x", "oauth": oauth}, why)
            for oauth, why in [
                (
                    OAuthTable(client_secret="${X:-pw}"),
                    "must not be in the file: write client_secret",
                ),
                (
                    OAuthTable(private_key="-----BEGIN pw"),
                    "must not be in the file: write private_key",
                ),
                (OAuthTable(private_key="${X}"), "are for grant"),
                (OAuthTable(issuer="https://i.example"), "are for grant"),
                (OAuthTable(scope='read", x="'), "words separated by spaces"),
                (program(), "needs client_id, and either"),
                (program(client_id="me"), "needs client_id, and either"),
                (program(client_secret="${X}"), "needs client_id, and either"),
                (program(client_id="me", client_secret="${X}", private_key="${Y}"), "and either"),
                (
                    program(client_id="me", client_secret="${X}", issuer="pw"),
                    "issuer must be a URL",
                ),
            ]
        ],
    ],
)
def test_what_cannot_be_right_is_refused(table: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        server_of("x", ServerTable(**table), "config.toml")
    assert "pw" not in str(error.value)


@pytest.mark.parametrize("name", ["", "a b", "a__b", "ü", "x" * 33, "_a", "a.b"])
def test_a_name_is_one_that_tools_can_have_in_theirs(name: str) -> None:
    with pytest.raises(ConfigError, match="the name of a server has"):
        server_of(name, ServerTable(command="x"), "config.toml")


def test_variables_are_put_in_when_it_is_started_and_not_before() -> None:
    table = ServerTable(
        url="https://${HOST}/mcp", headers={"authorization": "Bearer ${TOKEN}", "x": "${Y:-z}"}
    )
    server = server_of("x", table, "config.toml")
    assert server.variables == {"HOST", "TOKEN", "Y"}
    filled = server.with_resolved_variables({"HOST": "h.example", "TOKEN": "s", "Y": ""})
    assert filled.url == "https://h.example/mcp"
    assert filled.headers == {"authorization": "Bearer s", "x": "z"}
    assert "Bearer" not in repr(filled)
    with pytest.raises(ConfigError, match="it needs the variable TOKEN"):
        server.with_resolved_variables({"HOST": "h"})


def test_of_two_servers_of_one_name_the_first_counts() -> None:
    mine = McpServerConfig(name="x", command="a", origin="config.toml")
    theirs = McpServerConfig(name="x", command="b", origin=".mcp.json")
    found, [note] = distinct([[mine], [theirs, McpServerConfig(name="y", command="c")]])
    assert [server.command for server in found] == ["a", "c"]
    assert note == ("MCP server x of .mcp.json skipped: config.toml has a server of this name")


def test_a_template_names_servers_or_describes_them() -> None:
    assert parse_granted_servers("docs", "t.md") == (("docs",), ())
    assert parse_granted_servers(["docs", "docs", "git"], "t.md")[0] == ("docs", "git")
    names, [own] = parse_granted_servers({"own": {"command": "x", "agents": "all"}}, "t.md")
    assert names == ("own",)
    assert own.reserved
    for wrong in (5, [5], [["x"]], ["a b"], {"own": 5}, {"own": {"command": 5}}):
        with pytest.raises(ConfigError):
            parse_granted_servers(wrong, "t.md")


@pytest.mark.parametrize("value", ["s3cret\n", "s3cret ", "s3cr\0et", "s3crét", "s3cret\r\nx: y"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    server = McpServerConfig(
        name="web", url="https://a.example", headers={"x-key": "Bearer ${KEY}"}
    )
    with pytest.raises(ConfigError) as caught:
        server.with_resolved_variables({"KEY": value})
    assert "its header x-key cannot be sent" in str(caught.value)
    assert "s3cr" not in str(caught.value)
