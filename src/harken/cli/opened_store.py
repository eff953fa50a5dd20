"""The store that commits go to: the file of the home, or a service that a person named."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from harken.cli.home import Home
from harken.cli.settings import environment
from harken.errors import ConfigError
from harken.store.base import Store
from harken.store.sqlite import SqliteStore

TOKEN = "HARKEN_STORE_TOKEN"  # noqa: S105 - the name of a variable
UNIX = "unix:"


def open_store(home: Home, address: str | None) -> Store:
    """Open the store of the home, or the one at an address: `http://127.0.0.1:8420`, `unix:PATH`.

    Raises ConfigError, StoreError.
    """
    if address is None:
        return SqliteStore(home.store_file)
    from harken.store.remote.client import RemoteStore

    if address.startswith(UNIX):
        return RemoteStore(socket=Path(address.removeprefix(UNIX)).expanduser())
    return RemoteStore(address, token=_token_for(home, address))


def _token_for(home: Home, address: str) -> str:
    """Return the token of the environment, else of this home's service: that leaves no machine.

    Raises ConfigError where there is none.
    """
    from harken.service.token import read_token
    from harken.store.remote.connection import is_loopback

    given = environment().get(TOKEN, "").strip()
    if given:
        return given
    try:
        if is_loopback(urlsplit(address).hostname or ""):
            return read_token(home.token_file)
    except (FileNotFoundError, ValueError):
        pass
    raise ConfigError(f"{address}: which token? Put that of the service into {TOKEN}")
