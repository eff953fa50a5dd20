"""The schema of `config.toml`, and a parser that reports errors by line.

Every member has a type; a value of another type is an error that names the file, line, member and
expected type. A file never holds a key: keys come from the environment.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.config.home import CONFIG
from harken.errors import ConfigError
from harken.llm.prices import LongPrompt, Rates
from harken.llm.providers import Protocol
from harken.review.conditions import REVIEW_CONDITIONS
from harken.store.registry import get_scheme, list_schemes
from harken.tickets.ticket import TicketEvent, TicketType
from harken.world.mcp.server_config import ServerTable, server_of
from harken.world.permissions.mode import Mode
from harken.world.permissions.rules import PermissionRules
from harken.world.private_file import read_settings_file
from harken.world.shell.sandbox import SandboxMode as Sandboxed

RedactAt: TypeAlias = Literal["export", "store"]
Path_: TypeAlias = tuple[str, ...]
"""The path of a member in a file: `("providers", "work", "base_url")`."""

_VARIABLE_PATTERN = re.compile(r"[A-Z_][A-Z0-9_]*")
_PROVIDER_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SECRET_NAMES = {"apikey", "key", "token", "authtoken", "accesstoken", "secret", "password"}
_SECRET_NAMES |= {"authorization", "credential", "credentials", "bearer", "xapikey"}
_SECRET_PATTERN = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{20}|AIza[A-Za-z0-9_-]{20}|(gsk_|xai-|hf_|ghp_)[A-Za-z0-9]{20})"
)
_NO_KEYS = "keys must not be in the file; use an environment variable"


class ProviderTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: a provider of models."""

    base_url: str
    protocol: Protocol | None = None
    key_env: str | None = None
    """Empty if the provider takes no key."""
    omit: list[str] | None = None
    """Parameters of a request that the server refuses."""
    short_ids: bool | None = None
    """Whether the server accepts only call ids of nine letters and digits."""


class PermissionsTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[permissions]`: rules such as `bash(git status*)`."""

    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []


class ModelTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[models.NAME]`: the settings of one model."""

    parameters: dict[str, Any] = {}
    context_window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The size of the context window, in tokens."""


class PriceTable(Rates, frozen=True, kw_only=True):
    """`[prices.NAME]`: the prices of a model, in USD per million tokens."""

    effective_from: date = date.min
    long_prompt: LongPrompt | None = None


class ToolsTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: limits of the tools that agents use."""

    allow_folders: list[str] = []
    """Folders that tools may use in addition to the working folder."""
    sandbox: Sandboxed | None = None
    """Whether commands run in a sandbox: if one is available, always, or never."""
    network: bool | None = None
    """Whether commands in the sandbox have network access."""
    pass_env: list[str] = []
    """Secret environment variables that commands and MCP servers get nevertheless."""


class HooksTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[hooks]`: the hooks of new sessions."""

    use: list[str] = []
    """Names of hooks that watch the first agent of each new session."""
    claude_settings: bool = False
    """Whether the command hooks of the Claude Code settings watch new sessions."""
    claude_may_allow: bool = False
    """Whether an action that these hooks allow runs without asking the user."""


class WebTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[web]`: web search, and the hosts that may be fetched from."""

    search: Literal["searxng", "brave"] | None = None
    """The search provider."""
    url: str | None = None
    """The address of the search provider."""
    key_env: str | None = None
    """The environment variable that holds the key of the search provider."""
    allow: list[str] = []
    """Hosts and networks that may be fetched from although they are not public."""


class StoreTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: the store for commits."""

    url: str | None = None
    """The service that commits go to, in place of the file in the home."""
    backing: str | None = None
    """The backing store of the file in the home: a service, or the path of another store's file."""
    most_mb: float | None = None
    """Size limit of the file: the least recently used objects that `backing` has are evicted."""


class McpTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[mcp]`: MCP servers."""

    servers: dict[str, ServerTable] = {}
    """`[mcp.servers.NAME]`: MCP servers that provide tools to agents."""


class StartTable(msgspec.Struct, frozen=True, kw_only=True):
    """`[start.NAME]`: a change of a ticket that starts an agent, for `harken agents watch`."""

    event: TicketEvent
    template: str = ""
    """The template of the agent. Empty: that of the assignee, the reviewer or the author."""
    types: list[TicketType] = []
    labels: list[str] = []
    """Labels that a ticket must have."""


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """One `config.toml`."""

    model: str | None = None
    permission: Mode | None = None
    actions: Literal["all", "basic"] | list[str] | None = None
    """The structural actions of agents that have no list of allowed tools."""
    redact: RedactAt | None = None
    """When credentials are redacted: in all that leaves the machine, or before it is stored."""
    compact_at: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """The fraction of the context window at which a context is compacted. With 0 it is compacted
    only on request."""
    permissions: PermissionsTable = PermissionsTable()
    parameters: dict[str, Any] = {}
    models: dict[str, ModelTable] = {}
    providers: dict[str, ProviderTable] = {}
    prices: dict[str, PriceTable] = {}
    tools: ToolsTable = ToolsTable()
    hooks: HooksTable = HooksTable()
    web: WebTable = WebTable()
    store: StoreTable = StoreTable()
    mcp: McpTable = McpTable()
    start: dict[str, StartTable] = {}


class _Malformed(Exception):
    """An error in the file, and the path of the member that has to be changed."""

    def __init__(self, text: str, path: Path_ = ()) -> None:
        super().__init__(text)
        self.path = path


def read_config(file: Path) -> ConfigFile:
    """Read a `config.toml`; a missing file counts as empty. Raises ConfigError, on one line."""
    data = read_settings_file(file)
    if data is None:
        return ConfigFile()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 (byte {error.start})") from None
    try:
        return parse_config(text)
    except ConfigError as error:
        raise ConfigError(f"{file}{error}") from None


def parse_config(text: str) -> ConfigFile:
    """Parse the text of a `config.toml`. Raises ConfigError: `, line 3: model: ...`."""
    try:
        document = tomllib.loads(text)
        config: ConfigFile = _convert(document, ConfigFile, ())
        _check(config)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        location = f", line {match[1]}" if match else ""
        reason = str(error)[: match.start()] if match else str(error)
        raise ConfigError(f"{location}: invalid TOML: {_one_line(reason)}") from None
    except RecursionError:
        raise ConfigError(": is nested too deeply") from None
    except _Malformed as error:
        line = find_line(text, error.path)
        location = f", line {line}" if line else ""
        raise ConfigError(f"{location}: {'.'.join(map(_quote_key, error.path))}: {error}") from None
    return config


def _convert(value: Any, kind: Any, path: Path_) -> Any:
    """Convert a value to a type. Raises _Malformed with its path and the expected type."""
    kind = _without_none(kind)
    if isinstance(value, str) and _SECRET_PATTERN.search(value):
        raise _Malformed(f"this looks like a key; {_NO_KEYS}", path)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _convert_table(value, kind, path)
    if get_origin(kind) is dict:
        item_kind, entries = get_args(kind)[1], _table_items(value, path)
        if item_kind is Any:
            return _check_json(dict(entries), path)
        return {name: _convert(item, item_kind, (*path, name)) for name, item in entries}
    if get_origin(kind) in (Union, UnionType):
        return _convert_union(value, get_args(kind), path)
    try:
        if get_origin(kind) is list and isinstance(value, list):
            return [_convert(item, get_args(kind)[0], path) for item in value]
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise _Malformed(f"must be {_describe_type(kind)}", path) from None


def _convert_union(value: Any, kinds: Sequence[Any], path: Path_) -> Any:
    """Convert a value to the first of several types that accepts it."""
    for kind in kinds:
        try:
            return _convert(value, kind, path)
        except _Malformed:
            continue
    raise _Malformed(f"must be {', or '.join(map(_describe_type, kinds))}", path)


def _convert_table(value: Any, kind: type[msgspec.Struct], path: Path_) -> Any:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    members: dict[str, Any] = {}
    for name, member in _table_items(value, path):
        if name not in fields:
            if _is_secret(name):
                hint = ", and its name into key_env" if kind is ProviderTable else ""
                raise _Malformed(f"{_NO_KEYS}{hint}", (*path, name))
            raise _Malformed(f"unknown; valid names: {', '.join(fields)}", (*path, name))
        members[name] = _convert(member, fields[name].type, (*path, name))
    for name, field in fields.items():
        if field.required and name not in members:
            raise _Malformed(f"needs {name}: {_describe_type(field.type)}", path)
    return kind(**members)


def _table_items(value: Any, path: Path_) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _Malformed(f"must be a table: write [{'.'.join(map(_quote_key, path))}]", path)
    return list(value.items())


def _check_json(value: Any, path: Path_) -> Any:
    """Check a parameter, which may be any JSON value. Raises _Malformed if it holds a key."""
    if isinstance(value, dict):
        for name in value:
            if _is_secret(name):
                raise _Malformed(f"{_NO_KEYS}; parameters are logged", (*path, name))
        return {name: _check_json(item, (*path, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_check_json(item, path) for item in value]
    if isinstance(value, str) and _SECRET_PATTERN.search(value):
        raise _Malformed(f"this looks like a key; {_NO_KEYS}", path)
    if not isinstance(value, str | int | float) or not math.isfinite(_as_float(value)):
        raise _Malformed("must be a string, a number, true, false, a list or a table", path)
    return value


def _as_float(value: str | float) -> float:
    try:
        return 0.0 if isinstance(value, str) else float(value)
    except OverflowError:
        return math.inf


def _is_secret(name: str) -> bool:
    return re.sub("[^a-z]", "", name.casefold()) in _SECRET_NAMES


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kinds = [option for option in get_args(kind) if option is not NoneType]
        return kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - made here
    return kind


def _describe_type(kind: Any) -> str:
    """Describe the values of a type, for an error text."""
    kind = _without_none(kind)
    if get_origin(kind) is Annotated:
        number = "number" if get_args(kind)[0] is float else "whole number"
        limits = get_args(kind)[1]
        return f"a {number} from {limits.ge}" + (f" to {limits.le}" if limits.le else "")
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if get_origin(kind) is list:
        return 'a list of strings; write ["...", "..."]'
    return {
        str: "a string; put it in quotes",
        bool: "true or false",
        date: "a date such as 2026-01-31",
    }.get(kind, "a table")


def _check(config: ConfigFile) -> None:
    """Raise _Malformed for a value that has the right type but is invalid."""
    for name, provider in config.providers.items():
        path = ("providers", name)
        if not _PROVIDER_PATTERN.fullmatch(name) or name in ("scripted", "replay"):
            raise _Malformed("a provider name has the characters a-z, 0-9, - and _", path)
        if provider.key_env and not _VARIABLE_PATTERN.fullmatch(provider.key_env):
            expected = "the name of a variable such as WORK_API_KEY"
            raise _Malformed(f"must be {expected}; {_NO_KEYS}", (*path, "key_env"))
        _check_url(provider.base_url, (*path, "base_url"))
    for name in config.tools.pass_env:
        if not _VARIABLE_PATTERN.fullmatch(name.upper()):
            expected = "names of variables such as GITHUB_TOKEN"
            raise _Malformed(f"must contain {expected}; {_NO_KEYS}", ("tools", "pass_env"))
    _check_rules(config)
    _check_web(config.web)
    _check_store(config.store)
    for name in [] if isinstance(config.actions, str) else config.actions or ():
        if name not in ACTIONS:
            names = ", ".join(ACTIONS)
            raise _Malformed(f"unknown action {name!r}; actions: {names}", ("actions",))
    for name, table in config.mcp.servers.items():
        _check_server(name, table)
    for name, start in config.start.items():
        if name in {condition.name for condition in REVIEW_CONDITIONS}:
            raise _Malformed("this name is that of a condition of reviews", ("start", name))
        if start.event == "ready" and not start.template:
            raise _Malformed("needs template: the agent that works on the ticket", ("start", name))
    if config.model is not None and not config.model.strip():
        raise _Malformed("must name a model", ("model",))


def _check_rules(config: ConfigFile) -> None:
    for name in ("allow", "ask", "deny"):
        try:
            PermissionRules.parse(allow=getattr(config.permissions, name))
        except ConfigError as error:
            raise _Malformed(str(error), ("permissions", name)) from None


def _check_web(web: WebTable) -> None:
    if web.url is not None:
        _check_url(web.url, ("web", "url"))
    if web.key_env and not _VARIABLE_PATTERN.fullmatch(web.key_env):
        expected = "the name of a variable such as BRAVE_API_KEY"
        raise _Malformed(f"must be {expected}; {_NO_KEYS}", ("web", "key_env"))
    if web.search == "searxng" and web.url is None:
        raise _Malformed('needs url, the URL of your SearXNG: "https://..."', ("web", "search"))
    if web.search == "brave" and not web.key_env:
        raise _Malformed("needs key_env, the name of the variable with the key", ("web", "search"))


def _check_store_url(url: str, path: tuple[str, ...]) -> None:
    """Raise unless a store has the scheme of a URL. The store itself checks the rest."""
    if get_scheme(url) in ("http", "https", ""):
        _check_url(url, path)
    elif get_scheme(url) not in list_schemes():
        known = ", ".join(f"{scheme}:" for scheme in list_schemes())
        raise _Malformed(f"has an unknown scheme; stores have {known}", path)


def _check_store(store: StoreTable) -> None:
    if store.url is not None:
        _check_store_url(store.url, ("store", "url"))
    if store.backing is not None and store.url is not None:
        raise _Malformed(
            "is for the local store, which url replaces; remove one of them", ("store", "backing")
        )
    if store.backing is not None and "://" in store.backing:
        _check_store_url(store.backing, ("store", "backing"))
    if store.most_mb is not None and store.backing is None:
        raise _Malformed(
            "needs a backing store, to which objects are evicted", ("store", "most_mb")
        )
    if store.most_mb is not None and not (math.isfinite(store.most_mb) and store.most_mb > 0):
        raise _Malformed("must be a number of megabytes above 0", ("store", "most_mb"))


def _check_server(name: str, table: ServerTable) -> None:
    path = ("mcp", "servers", name)
    for member, values in (("env", table.env), ("headers", table.headers)):
        for key, value in values.items():
            if _is_secret(key) and value and "${" not in value:
                hint = 'write "${NAME}" for it'
                raise _Malformed(f"{_NO_KEYS}, and {hint}", (*path, member, key))
    if not table.enabled and table.command is None and table.url is None:
        return  # The table disables a server of a project.
    try:
        server_of(name, table, CONFIG)
    except ConfigError as error:
        raise _Malformed(str(error), path) from None


def _check_url(url: str, path: Path_) -> None:
    """Raise _Malformed for an invalid URL. The text does not repeat it: it may hold a secret."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        plain = False
    if not plain or not url.isprintable() or " " in url:
        raise _Malformed("must be a URL such as https://llm.example.org/v1", path)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise _Malformed(f"must be a URL without user, `?` and `#`; {_NO_KEYS}", path)


def find_line(text: str, path: Sequence[str]) -> int | None:
    r"""Return the line number, from 1, of a member or of its nearest ancestor in the file.

    Return None if the file has neither.

    >>> find_line('model = "x"\n[providers.work]\nbase_url = 5', ["providers", "work", "base_url"])
    3
    """
    best: tuple[int, int | None] = (0, None)
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = keys = _parse_keys(stripped)
        else:
            keys = (*table, *_parse_keys(stripped.partition("=")[0] + "= 0"))
        if keys and keys == tuple(path[: len(keys)]) and len(keys) > best[0]:
            best = (len(keys), number)
    return best[1]


def _parse_keys(line: str) -> tuple[str, ...]:
    """Return the names in a table header or before a `=`. Return () for any other line."""
    try:
        level: Any = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    keys: list[str] = []
    while isinstance(level, Mapping | list) and level:
        level = level[0] if isinstance(level, list) else level
        if not level:
            break
        (name, level), *_ = level.items()
        keys.append(name)
    return tuple(keys)


def _quote_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else '"' + _one_line(name) + '"'


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
