"""What a person wrote of an MCP server: a program to run, or an address to talk to.

Values may name variables of the environment (`${NAME}`, `${NAME:-else}`). They are put in when the
server is started and nowhere before, so a description can be shown and compared without a secret.

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

from harken.errors import ConfigError
from harken.world.private_file import read_settings_file

MCP_JSON = ".mcp.json"
MAX_SERVERS = 64
MAX_NAME = 32
For: TypeAlias = Literal["all", "named"]
Protocol: TypeAlias = Literal["auto", "2025-11-25"]
Grant: TypeAlias = Literal["authorization_code", "client_credentials"]
Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_))*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]+")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SCOPE = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")
_SENDABLE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
"""What a header can hold: whoever tried to send anything else would repeat it in an error."""


_OAUTH_TEXTS = ("client_id", "client_secret", "private_key", "issuer")
"""The members of `OAuthTable` that may name variables."""


class OAuthTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp.servers.NAME.oauth]`: who we are where one logs in, where nobody can register."""

    grant: Grant = "authorization_code"
    """How we get tokens: a person logs in, or the program has what it takes."""
    client_id: str = ""
    """A name that the server's people gave; or the https address of a document that says it. Empty:
    we register there."""
    client_secret: str = ""
    """`"${NAME}"`, the variable that holds it."""
    callback_port: int = 0
    """Where the browser comes back to, where that was agreed on; 0: at any port."""
    scope: str = ""
    """What a token shall allow, words with a space between; empty: what the server says."""
    issuer: str = ""
    """Who gives tokens to a program, and is sent its secret; empty: the server itself."""
    private_key: str = ""
    """In place of a secret, `"${NAME}"`: the variable that holds a key, as PEM."""
    signing_algorithm: Algorithm = "RS256"
    """What the key signs with."""


class ServerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server is written: `[mcp.servers.NAME]` of `config.toml`, `mcp` of a template."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    sandbox: bool = False
    """Whether the program runs in a sandbox, or not at all."""
    network: bool = False
    """Whether it reaches the network from there."""
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthTable = OAuthTable()
    tools: list[str] | None = None
    """Patterns of the tools that are let in; None for all."""
    agents: For = "all"
    """`named`: only agents whose template names the server have its tools."""
    trust_annotations: bool = False
    protocol: Protocol = "auto"
    start_timeout_s: float | None = None
    timeout_s: float | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server, as it was written."""

    name: str
    command: str | None = None
    """The program, for one that is run here; None for one that has a `url`."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    """Where it runs; a relative path starts at the world's folder, which is the default."""
    sandbox: bool = False
    """Whether it runs in a sandbox, or not at all: it writes in its folder only."""
    network: bool = False
    """Whether it reaches the network from there."""
    url: str | None = None
    """Where it answers, for one that is elsewhere: streamable HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuthTable = field(default=OAuthTable(), repr=False)
    """Who we are where one logs in."""
    tools: tuple[str, ...] | None = None
    """Patterns of the tools that are let in; None for all."""
    reserved: bool = False
    """Only agents whose template names it have its tools."""
    trust_annotations: bool = False
    """Whether what it says of its own tools counts: that one only reads."""
    protocol: Protocol = "auto"
    """`auto`: the newest that both speak; else with which revision it is greeted."""
    start_timeout_s: float = 20.0
    timeout_s: float = 120.0
    """How long a call may go on without a sign of life."""
    origin: str = ""
    """The file that describes it, for a person."""
    may_have_keys: bool = False
    """Whether it may name variables that hold keys of models: only the user's own may."""

    @property
    def program(self) -> str:
        """What is run or connected to, as it was written, on one line."""
        what = self.url if self.command is None else shlex.join([self.command, *self.args])
        return " ".join((what or "").split())

    @property
    def variables(self) -> set[str]:
        """The variables of the environment that it names."""
        return {found[1] for text in self._texts() for found in _VARIABLE.finditer(text)}

    def _texts(self) -> Iterator[str]:
        yield from (self.command or "", *self.args, self.cwd or "", self.url or "")
        yield from (*self.env.values(), *self.headers.values())
        yield from (getattr(self.oauth, member) for member in _OAUTH_TEXTS)

    def filled(self, environ: Mapping[str, str]) -> McpServerConfig:
        """Return it with what its variables stand for.

        Raises ConfigError for one that is unset, or holds what cannot be sent.
        """

        def put(text: str) -> str:
            return _VARIABLE.sub(lambda found: _value(found, environ), text)

        return replace(
            self,
            command=None if self.command is None else put(self.command),
            args=tuple(put(one) for one in self.args),
            env={name: put(value) for name, value in self.env.items()},
            cwd=None if self.cwd is None else put(self.cwd),
            url=None if self.url is None else put(self.url),
            headers={name: _sendable(name, put(value)) for name, value in self.headers.items()},
            oauth=msgspec.structs.replace(
                self.oauth, **{name: put(getattr(self.oauth, name)) for name in _OAUTH_TEXTS}
            ),
        )


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str:
    value = environ.get(found[1])
    if found[2] is not None:
        return value or found[2]
    if value is None:
        raise ConfigError(f"it needs the variable {found[1]}, which is not set")
    return value


def _sendable(name: str, value: str) -> str:
    """Return the value of a header. Raises ConfigError, without it: it may be a secret."""
    if not _SENDABLE.fullmatch(value):
        raise ConfigError(
            f"its header {name} holds what cannot be sent: a line break or a space at its end, "
            f"or a letter that is not ASCII"
        )
    return value


def server_of(name: str, table: ServerTable, origin: str) -> McpServerConfig:
    """Return the server of a table. Raises ConfigError, which does not say where.

    >>> server_of("docs", ServerTable(command="npx", args=["-y", "docs"]), "config.toml").program
    'npx -y docs'
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ConfigError(
            f"a server's name is at most {MAX_NAME} of a-z, A-Z, 0-9, - and single _, not {name!r}"
        )
    if (table.command is None) == (table.url is None):
        raise ConfigError("says either command, a program to run, or url, where a server answers")
    if table.command is not None and (not table.command.strip() or table.headers):
        raise ConfigError("command names a program, and headers are for a url")
    _check_oauth(table)
    if table.url is not None:
        _check_url(table.url)
        if table.args or table.env or table.cwd is not None or table.sandbox:
            raise ConfigError("args, env, cwd and sandbox are for a command, not for a url")
    if table.network and not table.sandbox:
        raise ConfigError("network is for a sandbox: without one every program reaches it")
    _check_values(table)
    own = McpServerConfig(name=name)
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
        start_timeout_s=_seconds(table.start_timeout_s, own.start_timeout_s),
        timeout_s=_seconds(table.timeout_s, own.timeout_s),
        origin=origin,
    )


def granted(value: Any, origin: str) -> tuple[tuple[str, ...], tuple[McpServerConfig, ...]]:
    """Return the servers that a template names, and those that it describes itself.

    value: a name, a list of names and tables, or a table of servers by name. Raises ConfigError.

    >>> granted(["docs", {"own": {"command": "own-docs"}}], "poet.md")[0]
    ('docs', 'own')
    """
    given = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(given, Sequence):
        raise ConfigError("mcp is a list of names of servers: write `mcp: [docs]`")
    names: list[str] = []
    servers: list[McpServerConfig] = []
    for one in given:
        if isinstance(one, str) and _NAME.fullmatch(one):
            names.append(one)
        elif isinstance(one, Mapping):
            servers += [_own(name, table, origin) for name, table in one.items()]
            names += [str(name) for name in one]
        else:
            raise ConfigError("mcp is a list of names of servers, or a table of servers")
    return tuple(dict.fromkeys(names)), tuple(servers)


def _own(name: Any, table: Any, origin: str) -> McpServerConfig:
    try:
        written = msgspec.convert(table, ServerTable)
        return replace(server_of(str(name), written, origin), reserved=True)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"mcp.{name}: {error}") from None


def _seconds(given: float | None, default: float) -> float:
    if given is not None and not 0 < given <= 86_400:
        raise ConfigError(f"a time is a number of seconds above 0 and up to 86400, not {given:g}")
    return default if given is None else given


def _check_url(url: str, member: str = "url") -> None:
    """Refuse what is no address, without repeating what may be a secret in it."""
    plain = _VARIABLE.sub("x", url)
    try:
        parts = urlsplit(plain)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    is_variable = bool(_VARIABLE.match(url))
    if not (is_one or is_variable) or not plain.isprintable() or " " in plain or "@" in plain:
        raise ConfigError(
            f"{member} is an address such as https://example.org/mcp, without a user in it"
        )


def _check_oauth(table: ServerTable) -> None:
    oauth = table.oauth
    if table.url is None and oauth != OAuthTable():
        raise ConfigError("oauth is for a url")
    for member in ("client_secret", "private_key"):
        found = _VARIABLE.fullmatch(text := getattr(oauth, member))
        if text and (found is None or found[2]):
            raise ConfigError(f'a secret never stands in a file: {member} is "${{NAME}}"')
    if not 0 <= oauth.callback_port < 1 << 16:
        raise ConfigError("callback_port is a port: a number from 1 to 65535")
    if oauth.scope and not _SCOPE.fullmatch(oauth.scope):
        raise ConfigError("scope is what a token shall allow: words with a space between")
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
            raise ConfigError("env is a table of variables and their values")
    for name, value in table.headers.items():
        if not _HEADER.fullmatch(name) or not value.isprintable():
            raise ConfigError("headers is a table of header names and their values")


def read_mcp_json(file: Path) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of a `.mcp.json`, and a line for each that cannot be used.

    One that is not there has none. Raises ConfigError, on one line, where the file is no such file.
    """
    data = read_settings_file(file)
    if data is None:
        return [], []
    try:
        written = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"{file}: is no JSON") from None
    tables = written.get("mcpServers") if isinstance(written, dict) else None
    if not isinstance(tables, dict) or len(tables) > MAX_SERVERS:
        raise ConfigError(f'{file}: has no table "mcpServers" of at most {MAX_SERVERS} servers')
    servers: list[McpServerConfig] = []
    notes: list[str] = []
    for name, table in tables.items():
        try:
            servers.append(_of_json(str(name), table, str(file)))
        except ConfigError as error:
            notes.append(f"{file}: {plain_name(str(name))}: {error}")
    return servers, notes


def _of_json(name: str, table: Any, origin: str) -> McpServerConfig:
    if not isinstance(table, dict):
        raise ConfigError("is no table")
    if table.get("type") == "sse":
        raise ConfigError("speaks the old transport SSE: ask for one that speaks streamable HTTP")
    known = {member: table[member] for member in _JSON_MEMBERS if table.get(member) is not None}
    if isinstance(oauth := table.get("oauth"), dict):
        said = {ours: oauth.get(name) for name, ours in _OAUTH.items()}
        known["oauth"] = {ours: value for ours, value in said.items() if value is not None}
    try:
        return server_of(plain_name(name), msgspec.convert(known, ServerTable), origin)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot be used: {error}") from None


_OAUTH = {"clientId": "client_id", "callbackPort": "callback_port"}
_JSON_MEMBERS = ("command", "args", "env", "cwd", "url", "headers")


def plain_name(written: str) -> str:
    """Return the name of a server as tools can have it in theirs.

    >>> plain_name("My Server"), plain_name("a__b"), plain_name("!")
    ('My_Server', 'a_b', 'server')
    """
    return _NOT_PLAIN.sub("_", written).strip("_-")[:MAX_NAME].strip("_-") or "server"


def distinct(
    groups: Sequence[Sequence[McpServerConfig]],
) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of several places, and a line for each whose name another has.

    The first of a name counts.
    """
    found: dict[str, McpServerConfig] = {}
    notes: list[str] = []
    for server in (one for group in groups for one in group):
        before = found.setdefault(server.name, server)
        if before is not server:
            where = f"the MCP server {server.name} of {server.origin} is left out"
            notes.append(f"{where}: {before.origin} has one of this name")
    return list(found.values()), notes
