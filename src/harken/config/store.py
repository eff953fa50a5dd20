"""Open the store for commits: the file of the home, or the store at a configured URL.

No project may change the settings of stored data, so only `config.toml` of the home is read. A
command that needs no agent loads these instead of all settings, which takes a third of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import msgspec

from harken.config.home import CONFIG, Home, environment
from harken.errors import ConfigError, HarkenError
from harken.llm.prices import Price, Prices
from harken.store import registry
from harken.store.base import Store
from harken.store.refusing_store import RefusingStore
from harken.store.registry import SERVICE_SCHEMES, StoreOptions, get_scheme
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore

if TYPE_CHECKING:
    from harken.config.file import ConfigFile, RedactAt
    from harken.core.events import ContextLoaded
    from harken.core.messages import ChatMessage
    from harken.core.secrets.redaction import Credentials
    from harken.session.fold import Resolver
    from harken.store.remote.store import RemoteStore

TOKEN = "HARKEN_STORE_TOKEN"  # noqa: S105 - the name of a variable
CA_FILE = "HARKEN_STORE_CA"
"""The certificates of the issuers that are trusted for a service, in PEM."""
PROJECT = "HARKEN_STORE_PROJECT"
"""The project of new commits in a service with users."""
UNIX = "unix:"


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a home for stored data."""

    redact: RedactAt = "export"
    """When credentials are redacted: in all that leaves the machine, or before it is stored."""
    store: str | None = None
    """The address of the service that stores commits. None if the file in the home stores them."""
    backing: str | None = None
    """The backing store of that file: the address of a service, or an absolute path."""
    most_mb: float | None = None
    """The size limit of that file."""
    prices: Prices = msgspec.field(default_factory=Prices)

    def credentials(self) -> Credentials | None:
        """Return a new remover of credentials if they are redacted before anything is stored."""
        from harken.core.secrets.redaction import Credentials

        return Credentials() if self.redact == "store" else None


def open_store(
    home: Home, settings: StoreSettings, *, address: str | None = None, patience_s: float = 30.0
) -> Store:
    """Open the configured store: the file of the home, or the store at a URL.

    `address` replaces the configured one: `http://127.0.0.1:8420`, `unix:PATH`,
    `postgresql://...`. With `redact = "store"`, writes raise CredentialRefused. Raises ConfigError,
    StoreError.
    """
    address = address or settings.store
    if address is not None:
        options = _build_options(home, patience_s, refuses_credentials=settings.redact == "store")
        return registry.open_store(address, options)
    local = open_store_file(home, settings, patience_s=patience_s)
    if settings.backing is None:
        return local
    try:
        return TieredStore(local, _open_backing(home, settings.backing))
    except BaseException:
        local.close()
        raise


def open_store_file(
    home: Home, settings: StoreSettings, *, patience_s: float = 30.0
) -> SqliteStore:
    """Open the file of the home. Raises StoreError."""
    kind = RefusingStore if settings.redact == "store" else SqliteStore
    return kind(home.store_file, patience_s=patience_s)


def open_served_store(home: Home, settings: StoreSettings, url: str | None) -> Store:
    """Open the store that a service serves: at a URL, or that of the home.

    If the store of the home is itself behind a service, it is the file: a home may use its own
    service. Raises ConfigError, StoreError.
    """
    address = url or settings.store
    if address is None or (url is None and get_scheme(address) in SERVICE_SCHEMES):
        return open_store_file(home, settings)
    return registry.open_store(
        address, _build_options(home, refuses_credentials=settings.redact == "store")
    )


def has_store(home: Home) -> bool:
    """Whether the store of the home exists, or another one is configured. Raises ConfigError."""
    return home.store_file.exists() or load_store_settings(home).store is not None


@contextmanager
def open_configured_store(home: Home) -> Iterator[Store]:
    """Open the configured store. Raises ConfigError if it does not exist yet, and StoreError."""
    if not has_store(home):
        raise ConfigError(f"{home.store_file}: store not found; a chat or an import creates it")
    with open_or_create_store(home) as store:
        yield store


@contextmanager
def open_or_create_store(home: Home) -> Iterator[Store]:
    """Open the configured store. Create that of the home if it does not exist.

    Raises ConfigError, StoreError.
    """
    settings = load_store_settings(home)
    store = open_store(home, settings)
    try:
        yield store
    finally:
        store.close()


def build_commit_resolver(home: Home) -> Resolver:
    """Return a function that reads the messages of a commit from the store.

    If the store cannot be read, the function prints the error and returns placeholders.
    """

    def resolve(event: ContextLoaded) -> Sequence[ChatMessage]:
        from harken.context.materialize import make_resolver
        from harken.views.model_calls import placeholders

        try:
            with open_configured_store(home) as store:
                return make_resolver(store)(event)
        except HarkenError as error:
            click.echo(f"harken: {error}", err=True)
            return placeholders(event)

    return resolve


def load_store_settings(home: Home) -> StoreSettings:
    """Load the settings of a home for stored data. Raises ConfigError for an invalid file."""
    path = home.folder / CONFIG
    if not os.path.lexists(path):
        return StoreSettings()
    from harken.config.file import read_config

    return StoreSettings(**get_store_settings(StoreSettings(), read_config(path), path))


def get_store_settings(settings: StoreSettings, config: ConfigFile, path: Path) -> dict[str, Any]:
    """Return the members of `StoreSettings`, overridden by those of a file."""
    prices = [
        Price(model=name, source=CONFIG, **msgspec.structs.asdict(table))
        for name, table in config.prices.items()
    ]
    return {
        "redact": config.redact or settings.redact,
        "store": config.store.url or settings.store,
        "backing": _resolve_backing(config.store.backing, path) or settings.backing,
        "most_mb": config.store.most_mb or settings.most_mb,
        "prices": Prices([*prices, *settings.prices.user_prices]),
    }


def _resolve_backing(backing: str | None, path: Path) -> str | None:
    """Return the backing store; a path is relative to the file that names it."""
    if backing is None or get_scheme(backing):
        return backing
    return str(path.parent.absolute() / Path(backing).expanduser())


def _open_backing(home: Home, behind: str) -> Store:
    if registry.get_scheme(behind):
        return registry.open_store(behind, _build_options(home))
    path = Path(behind)
    if path.absolute() == home.store_file.absolute():
        raise ConfigError(f"{behind}: a store cannot be its own backing store")
    return SqliteStore(path)


def open_remote_store(home: Home, address: str) -> RemoteStore:
    """Open the store of a remote service. No request is sent yet. Raises ConfigError."""
    from harken.store.remote.store import RemoteStore

    if address.startswith(UNIX):
        return RemoteStore(socket=Path(address.removeprefix(UNIX)).expanduser())
    options = _build_options(home)
    return RemoteStore(
        address,
        token=_find_token(home, address),
        ca_file=options.ca_file,
        project=options.project,
    )


def _build_options(
    home: Home, patience_s: float = 30.0, *, refuses_credentials: bool = False
) -> StoreOptions:
    return StoreOptions(
        patience_s=patience_s,
        refuses_credentials=refuses_credentials,
        find_token=lambda address: _find_token(home, address),
        ca_file=environment().get(CA_FILE, "").strip() or None,
        project=environment().get(PROJECT, "").strip(),
    )


def _find_token(home: Home, address: str) -> str:
    """Return the token of the remote at this address, else of the environment.

    For a local address it may be that of this home's service, which is never sent to another
    machine. Raises ConfigError if there is no token.
    """
    from harken.core.loopback import is_loopback
    from harken.remotes.registry import Remotes, read_remote_token
    from harken.service.access import read_token

    remote = Remotes(home.remotes_folder).find_by_url(address)
    if remote is not None and (own := read_remote_token(remote)) is not None:
        return own
    token = environment().get(TOKEN, "").strip()
    if token:
        return token
    try:
        if is_loopback(urlsplit(address).hostname or ""):
            return read_token(home.token_file)
    except (FileNotFoundError, ValueError):
        pass
    raise ConfigError(f"{address}: no token; set {TOKEN} to the token of the service")
