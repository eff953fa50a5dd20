"""The configuration of an MCP server: a program to run, or a URL to connect to.

Values may contain variables of the environment (`${NAME}`, `${NAME:-else}`). They are substituted
only when the server is started, so a configuration can be shown and compared without secrets.

Source: docs/how-to/use-mcp-servers.md; `.mcp.json` is the format of Claude Code and Cursor.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from harken.core import structs
from harken.errors import ConfigError
from harken.world.private_file import read_settings_file

MCP_JSON = ".mcp.json"
MAX_SERVERS = 64
MAX_NAME = 32
AgentScope: TypeAlias = Literal["all", "named"]
Protocol: TypeAlias = Literal["auto", "2025-11-25"]
Grant: TypeAlias = Literal["authorization_code", "client_credentials"]
Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

_NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_))*")
_VARIABLE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_INVALID_CHARS_PATTERN = re.compile(r"[^A-Za-z0-9-]+")
_HEADER_NAME_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SCOPE_PATTERN = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")
_HEADER_VALUE_PATTERN = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
"""The valid header values: the HTTP library would repeat an invalid one in an error."""
_OAUTH_TEXTS = ("client_id", "client_secret", "private_key", "issuer")
"""The members of `OAuthTable` that may contain variables."""


class OAuthTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp.servers.NAME.oauth]`: the OAuth client, for servers without dynamic registration."""

    grant: Grant = "authorization_code"
    """The grant: a person logs in, or the program has credentials."""
    client_id: str = ""
    """A client id from the server's operator, or the https URL of a client metadata document.

    Empty: register dynamically.
    """
    client_secret: str = ""
    """`"${NAME}"`, the variable with the secret."""
    callback_port: int = 0
    """The registered port of the redirect; 0: any port."""
    scope: str = ""
    """The requested scopes, separated by spaces; empty: those that the server requests."""
    issuer: str = ""
    """The issuer of tokens for a program, which gets its secret; empty: the server itself."""
    private_key: str = ""
    """`"${NAME}"`: the variable with a PEM key, instead of a secret."""
    signing_algorithm: Algorithm = "RS256"
    """The signature algorithm of the key."""


class ServerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format of a server: `[mcp.servers.NAME]` of `config.toml`, `mcp` of a template."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    sandbox: bool = False
    """Whether the program must run in a sandbox."""
    network: bool = False
    """Whether the sandbox has network access."""
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthTable = OAuthTable()
    tools: list[str] | None = None
    """Patterns of the allowed tools; None for all."""
    agents: AgentScope = "all"
    """`named`: only agents with a template that names the server have its tools."""
    trust_annotations: bool = False
    protocol: Protocol = "auto"
    start_timeout_s: float | None = None
    timeout_s: float | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server configuration with unresolved variables."""

    name: str
    command: str | None = None
    """The program of a local server; None for a server with a `url`."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    """Its working folder; a relative path starts at the world's folder, which is the default."""
    sandbox: bool = False
    """Whether it must run in a sandbox, where it writes in its folder only."""
    network: bool = False
    """Whether the sandbox has network access."""
    url: str | None = None
    """The URL of a remote server: streamable HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuthTable = field(default=OAuthTable(), repr=False)
    """The OAuth client."""
    tools: tuple[str, ...] | None = None
    """Patterns of the allowed tools; None for all."""
    reserved: bool = False
    """Whether only agents with a template that names it have its tools."""
    trust_annotations: bool = False
    """Whether its annotations, such as read-only, are trusted."""
    protocol: Protocol = "auto"
    """`auto`: the newest common revision of the protocol; else a fixed revision."""
    start_timeout_s: float = 20.0
    timeout_s: float = 120.0
    """The time limit of a call without progress."""
    origin: str = ""
    """The file that contains it, for a person."""
    may_have_keys: bool = False
    """Whether it may name variables with API keys: only the user's own servers may."""

    @property
    def program(self) -> str:
        """The unresolved command or URL, on one line."""
        command_or_url = (
            self.url if self.command is None else shlex.join([self.command, *self.args])
        )
        return " ".join((command_or_url or "").split())

    @property
    def variables(self) -> set[str]:
        """The environment variables that it names."""
        return {
            match[1] for text in self._iter_texts() for match in _VARIABLE_PATTERN.finditer(text)
        }

    def _iter_texts(self) -> Iterator[str]:
        yield from (self.command or "", *self.args, self.cwd or "", self.url or "")
        yield from (*self.env.values(), *self.headers.values())
        yield from (getattr(self.oauth, member) for member in _OAUTH_TEXTS)

    def with_resolved_variables(self, environ: Mapping[str, str]) -> McpServerConfig:
        """Return a copy with resolved variables.

        Raises ConfigError if a variable is unset, or contains an invalid header value.
        """

        def resolve(text: str) -> str:
            return _VARIABLE_PATTERN.sub(lambda match: _resolve(match, environ), text)

        oauth: dict[str, Any] = {name: resolve(getattr(self.oauth, name)) for name in _OAUTH_TEXTS}
        return replace(
            self,
            command=None if self.command is None else resolve(self.command),
            args=tuple(resolve(argument) for argument in self.args),
            env={name: resolve(value) for name, value in self.env.items()},
            cwd=None if self.cwd is None else resolve(self.cwd),
            url=None if self.url is None else resolve(self.url),
            headers={
                name: _check_header(name, resolve(value)) for name, value in self.headers.items()
            },
            oauth=structs.replace(self.oauth, **oauth),
        )


def _resolve(match: re.Match[str], environ: Mapping[str, str]) -> str:
    value = environ.get(match[1])
    if match[2] is not None:
        return value or match[2]
    if value is None:
        raise ConfigError(f"it needs the variable {match[1]}, which is not set")
    return value


def _check_header(name: str, value: str) -> str:
    """Return a valid header value. Raises ConfigError without the value, which may be secret."""
    if not _HEADER_VALUE_PATTERN.fullmatch(value):
        raise ConfigError(
            f"its header {name} cannot be sent: it has a line break, a trailing "
            "space, or a character that is not ASCII"
        )
    return value


def server_of(name: str, table: ServerTable, origin: str) -> McpServerConfig:
    """Return the server of a table. Raises ConfigError, without the location.

    >>> server_of("docs", ServerTable(command="npx", args=["-y", "docs"]), "config.toml").program
    'npx -y docs'
    """
    if not _NAME_PATTERN.fullmatch(name) or len(name) > MAX_NAME:
        raise ConfigError(
            f"the name of a server has at most {MAX_NAME} characters of a-z, A-Z, "
            f"0-9, - and single _, not {name!r}"
        )
    if (table.command is None) == (table.url is None):
        raise ConfigError("must have either `command` (a program) or `url`")
    if table.command is not None and (not table.command.strip() or table.headers):
        raise ConfigError("headers are for a url, not for a command")
    _check_oauth(table)
    if table.url is not None:
        _check_url(table.url)
        if table.args or table.env or table.cwd is not None or table.sandbox:
            raise ConfigError("args, env, cwd and sandbox are for a command, not for a url")
    if table.network and not table.sandbox:
        raise ConfigError("network is for a sandbox; without one every program has network access")
    _check_values(table)
    defaults = McpServerConfig(name=name)
    return McpServerConfig(
        name=name,
        command=table.command,
        args=tuple(table.args),
        env=dict(table.env),
        cwd=table.cwd,
        sandbox=table.sandbox,
        network=table.network,
        url=table.url,
        headers=dict(table.headers),
        oauth=table.oauth,
        tools=None if table.tools is None else tuple(table.tools),
        reserved=table.agents == "named",
        trust_annotations=table.trust_annotations,
        protocol=table.protocol,
        start_timeout_s=_check_seconds(table.start_timeout_s, defaults.start_timeout_s),
        timeout_s=_check_seconds(table.timeout_s, defaults.timeout_s),
        origin=origin,
    )


def parse_granted_servers(
    value: Any, origin: str
) -> tuple[tuple[str, ...], tuple[McpServerConfig, ...]]:
    """Return the names of the servers in a template, and the servers that it defines.

    value: a name, a list of names and tables, or a table of servers by name. Raises ConfigError.

    >>> parse_granted_servers(["docs", {"own": {"command": "own-docs"}}], "poet.md")[0]
    ('docs', 'own')
    """
    items = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(items, Sequence):
        raise ConfigError("mcp must be a list of names of servers: write `mcp: [docs]`")
    names: list[str] = []
    servers: list[McpServerConfig] = []
    for item in items:
        if isinstance(item, str) and _NAME_PATTERN.fullmatch(item):
            names.append(item)
        elif isinstance(item, Mapping):
            servers += [_parse_own_server(name, table, origin) for name, table in item.items()]
            names += [str(name) for name in item]
        else:
            raise ConfigError("mcp must be a list of names of servers, or a table of servers")
    return tuple(dict.fromkeys(names)), tuple(servers)


def _parse_own_server(name: Any, table: Any, origin: str) -> McpServerConfig:
    try:
        server_table = msgspec.convert(table, ServerTable)
        return replace(server_of(str(name), server_table, origin), reserved=True)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"mcp.{name}: {error}") from None


def _check_seconds(seconds: float | None, default: float) -> float:
    if seconds is not None and not 0 < seconds <= 86_400:
        raise ConfigError(
            f"a time must be a number of seconds above 0 and up to 86400, not {seconds:g}"
        )
    return default if seconds is None else seconds


def _check_url(url: str, member: str = "url") -> None:
    """Raise ConfigError for an invalid URL, without repeating it, since it may contain a secret."""
    resolved = _VARIABLE_PATTERN.sub("x", url)
    try:
        parts = urlsplit(resolved)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    is_variable = bool(_VARIABLE_PATTERN.match(url))
    if (
        not (is_url or is_variable)
        or not resolved.isprintable()
        or " " in resolved
        or "@" in resolved
    ):
        raise ConfigError(f"{member} must be a URL such as https://example.org/mcp, without a user")


def _check_oauth(table: ServerTable) -> None:
    oauth = table.oauth
    if table.url is None and oauth != OAuthTable():
        raise ConfigError("oauth is for a url")
    for member in ("client_secret", "private_key"):
        match = _VARIABLE_PATTERN.fullmatch(text := getattr(oauth, member))
        if text and (match is None or match[2]):
            raise ConfigError(f'secrets must not be in the file: write {member} as "${{NAME}}"')
    if not 0 <= oauth.callback_port < 1 << 16:
        raise ConfigError("callback_port must be a number from 1 to 65535")
    if oauth.scope and not _SCOPE_PATTERN.fullmatch(oauth.scope):
        raise ConfigError("scope must be words separated by spaces")
    if oauth.grant == "client_credentials":
        if not oauth.client_id or bool(oauth.client_secret) == bool(oauth.private_key):
            raise ConfigError(
                f"{oauth.grant} needs client_id, and either client_secret or private_key"
            )
        if oauth.issuer:
            _check_url(oauth.issuer, "issuer")
    elif oauth.private_key or oauth.issuer:
        raise ConfigError('private_key and issuer are for grant = "client_credentials"')


def _check_values(table: ServerTable) -> None:
    for name, value in table.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError("env must be a table of variables and their values")
    for name, value in table.headers.items():
        if not _HEADER_NAME_PATTERN.fullmatch(name) or not value.isprintable():
            raise ConfigError("headers must be a table of header names and their values")


def read_mcp_json(file: Path) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of a `.mcp.json`, and a note for each invalid one.

    A missing file has no servers. Raises ConfigError, on one line, if the file is invalid.
    """
    data = read_settings_file(file)
    if data is None:
        return [], []
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"{file}: not JSON") from None
    tables = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(tables, dict) or len(tables) > MAX_SERVERS:
        raise ConfigError(f'{file}: no table "mcpServers" with at most {MAX_SERVERS} servers')
    servers: list[McpServerConfig] = []
    notes: list[str] = []
    for name, table in tables.items():
        try:
            servers.append(_parse_json_server(str(name), table, str(file)))
        except ConfigError as error:
            notes.append(f"{file}: {plain_name(str(name))}: {error}")
    return servers, notes


def _parse_json_server(name: str, table: Any, origin: str) -> McpServerConfig:
    if not isinstance(table, dict):
        raise ConfigError("is not a table")
    if table.get("type") == "sse":
        raise ConfigError("uses the old SSE transport; only streamable HTTP is supported")
    members = {member: table[member] for member in _JSON_MEMBERS if table.get(member) is not None}
    if isinstance(oauth := table.get("oauth"), dict):
        oauth_members = {
            member_name: oauth.get(name) for name, member_name in _OAUTH_MEMBERS.items()
        }
        members["oauth"] = {
            member_name: value for member_name, value in oauth_members.items() if value is not None
        }
    try:
        return server_of(plain_name(name), msgspec.convert(members, ServerTable), origin)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot be used: {error}") from None


_OAUTH_MEMBERS = {"clientId": "client_id", "callbackPort": "callback_port"}
_JSON_MEMBERS = ("command", "args", "env", "cwd", "url", "headers")


def plain_name(text: str) -> str:
    """Return the name of a server in the form used in tool names.

    >>> plain_name("My Server"), plain_name("a__b"), plain_name("!")
    ('My_Server', 'a_b', 'server')
    """
    return _INVALID_CHARS_PATTERN.sub("_", text).strip("_-")[:MAX_NAME].strip("_-") or "server"


def distinct(
    groups: Sequence[Sequence[McpServerConfig]],
) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of several sources, and a note for each duplicate name.

    The first server with a name counts.
    """
    by_name: dict[str, McpServerConfig] = {}
    notes: list[str] = []
    for server in (member for group in groups for member in group):
        existing = by_name.setdefault(server.name, server)
        if existing is not server:
            notice = f"MCP server {server.name} of {server.origin} skipped"
            notes.append(f"{notice}: {existing.origin} has a server of this name")
    return list(by_name.values()), notes
