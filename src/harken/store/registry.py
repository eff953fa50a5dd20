"""Opens a store by its URL. The scheme says which kind of store it is.

| scheme | store |
|---|---|
| `sqlite:PATH` | a file |
| `http:`, `https:`, `unix:PATH` | a service, `harken serve` |
| `postgresql:`, `postgres:` | PostgreSQL, with packs in a table, a folder or a bucket |
| `memory:` | the memory of this process |

A package registers a store under the entry point `harken.stores`: the scheme, and the location of a
`StoreOpener`. A built-in scheme cannot be replaced. A store is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from harken.core.arguments import check_arguments
from harken.errors import ConfigError
from harken.store.base import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "harken.stores"
_BUILT_IN = {
    "http": "open_service",
    "https": "open_service",
    "memory": "open_memory",
    "postgres": "open_postgres",
    "postgresql": "open_postgres",
    "sqlite": "open_file",
    "unix": "open_service",
}
POSTGRES_SCHEMES = ("postgresql", "postgres")
SERVICE_SCHEMES = ("http", "https", "unix")
_MAX_SCHEME_CHARS = 32


def _find_no_token(url: str) -> str:
    raise ConfigError(f"{url}: no token of the service was given")


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options with which a store is opened."""

    patience_s: float = 30.0
    """How long to wait for a lock, or for a server that does not answer."""
    refuses_credentials: bool = False
    """Whether writes of content with a credential raise CredentialRefused."""
    find_token: Callable[[str], str] = _find_no_token
    """Returns the token of a service at an address. Raises ConfigError."""
    ca_file: str | None = None
    """The certificates of the issuers that are trusted for a service, in PEM."""
    project: str = ""
    """The project of new commits in a service with users."""


class StoreOpener(Protocol):
    """Opens the store at a URL."""

    def __call__(self, url: str, options: StoreOptions) -> Store:
        """Return the store. Raises ConfigError for an invalid URL, StoreError."""
        ...


def get_scheme(text: str) -> str:
    """Return the scheme of a URL, or "" for a path."""
    scheme, colon, rest = text.partition(":")
    is_scheme = scheme.isascii() and scheme.replace("+", "").replace("-", "").isalnum()
    if not (colon and is_scheme and 1 < len(scheme) <= _MAX_SCHEME_CHARS):
        return ""
    scheme = scheme.lower()
    is_known = rest.startswith("//") or scheme in _BUILT_IN or scheme in list_schemes()
    return scheme if is_known else ""


@check_arguments
def open_store(url: str, options: StoreOptions | None = None) -> Store:
    """Open the store at a URL. Raises ConfigError if no store has its scheme, and StoreError."""
    options = options or StoreOptions()
    scheme = get_scheme(url)
    if scheme in _BUILT_IN:
        opener: StoreOpener = globals()[_BUILT_IN[scheme]]
        return opener(url, options)
    for point in _installed():
        if point.name == scheme:
            return _load(point)(url, options)
    known = ", ".join(f"{name}:" for name in list_schemes())
    raise ConfigError(f"no kind of store has the scheme {scheme!r}; known are {known}")


def describe_url(url: str) -> str:
    """Return a URL without secrets, to show."""
    if get_scheme(url) in POSTGRES_SCHEMES:
        from harken.store.postgresql.address import parse_address  # noqa: PLC0415 - seldom needed

        return parse_address(url).text
    place, slashes, rest = url.partition("://")
    return f"{place}{slashes}{rest.rpartition('@')[2]}" if slashes else url


def list_schemes() -> list[str]:
    """Return the schemes of all stores, sorted, without imports."""
    return sorted({*_BUILT_IN, *(point.name for point in _installed())})


def open_file(url: str, options: StoreOptions) -> Store:
    """Open a file: `sqlite:PATH`, `sqlite:///PATH`."""
    from harken.store.refusing_store import RefusingStore  # noqa: PLC0415 - slow
    from harken.store.sqlite.store import SqliteStore  # noqa: PLC0415 - slow

    text = url.partition(":")[2]
    path = unquote(urlsplit(url).path) if text.startswith("//") else text
    if not path:
        raise ConfigError(f"{url}: the URL has no path")
    kind = RefusingStore if options.refuses_credentials else SqliteStore
    return kind(Path(path).expanduser(), patience_s=options.patience_s)


def open_service(url: str, options: StoreOptions) -> Store:
    """Open the store of a service. No request is sent yet."""
    from harken.store.remote.refusing_store import RefusingRemoteStore  # noqa: PLC0415 - slow
    from harken.store.remote.store import RemoteStore  # noqa: PLC0415 - slow

    kind = RefusingRemoteStore if options.refuses_credentials else RemoteStore
    if get_scheme(url) == "unix":
        return kind(socket=Path(url.partition(":")[2]).expanduser())
    token = options.find_token(url)
    return kind(url, token=token, ca_file=options.ca_file, project=options.project)


def open_memory(url: str, options: StoreOptions) -> Store:
    """Open a store in memory, which is empty."""
    from harken.store.memory import MemoryStore  # noqa: PLC0415 - slow

    return MemoryStore()


def open_postgres(url: str, options: StoreOptions) -> Store:
    """Open a store in PostgreSQL. Raises ConfigError if its driver is not installed."""
    try:
        from harken.store.postgresql.refusing_store import (  # noqa: PLC0415 - an extra
            RefusingPostgresStore,
        )
        from harken.store.postgresql.store import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        if error.name not in ("psycopg", "obstore"):
            raise
        raise ConfigError(
            f"a store in PostgreSQL needs {error.name}: pip install 'harken[postgresql]'"
        ) from None
    kind = RefusingPostgresStore if options.refuses_credentials else PostgresStore
    return kind(url, patience_s=options.patience_s)


def _installed() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    return entry_points(group=GROUP)


def _load(point: EntryPoint) -> StoreOpener:
    try:
        opener: StoreOpener = point.load()
    except Exception as error:
        raise ConfigError(
            f"the store {point.name}: of {point.value} cannot be loaded: {error!r}"
        ) from error
    return opener
