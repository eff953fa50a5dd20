"""Resources of push, pull and clone: the remote that a command names, its client and its mirror."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harken.config.home import Home
from harken.config.settings import load_settings
from harken.config.store import open_remote_store, open_store
from harken.errors import ConfigError
from harken.remotes.mirror import Mirror, open_mirror
from harken.remotes.registry import DEFAULT, Remote, Remotes, check_url, is_url
from harken.store.base import Store

if TYPE_CHECKING:
    from harken.store.remote.store import RemoteStore


class OpenTransfer(msgspec.Struct, frozen=True):
    """The open resources of a transfer."""

    target: Remote
    store: Store
    remote: RemoteStore
    mirror: Mirror
    is_lazy: bool
    """Whether the store of the home reads from this remote on demand."""
    refuses_credentials: bool


def split_remote(
    home: Home, arguments: tuple[str, ...], *, first: bool
) -> tuple[Remote, list[str]]:
    """Return the remote of a command line, and the sessions that it names.

    The remote is the first or the last argument, if that is an address or the name of a remote;
    else it is `origin`. Raises ConfigError if there is none.
    """
    words = list(arguments)
    remotes = Remotes(home.remotes_folder)
    candidate = words[0 if first else -1] if words else ""
    if candidate and is_url(candidate):
        check_url(candidate)
        del words[0 if first else -1]
        return remotes.find_by_url(candidate) or _unnamed(home, candidate), words
    if candidate and (remote := remotes.find(candidate)) is not None:
        del words[0 if first else -1]
        return remote, words
    default = remotes.find(DEFAULT)
    if default is None and candidate:
        raise ConfigError(
            f"{candidate}: not the address of a service or the name of a remote; this home has no "
            f"remote {DEFAULT!r}"
        )
    return remotes.get(DEFAULT), words


@contextmanager
def open_transfer(home: Home, remote: Remote) -> Iterator[OpenTransfer]:
    """Open the store of the home, the remote and its mirror. Raises ConfigError, StoreError."""
    settings = load_settings(home)
    if settings.store == remote.url:
        raise ConfigError(f"{remote.url}: this is the store of this home already")
    with (
        open_mirror(remote.folder) as mirror,
        closing(open_remote_store(home, remote.url)) as client,
        closing(open_store(home, settings)) as store,
    ):
        yield OpenTransfer(
            remote,
            store,
            client,
            mirror,
            is_lazy=settings.backing == remote.url,
            refuses_credentials=settings.redact == "store",
        )


def _unnamed(home: Home, url: str) -> Remote:
    """Return a remote without a name. Its mirror has a folder that no name can have."""
    from blake3 import blake3

    folder = home.remotes_folder / f"_{blake3(url.encode()).hexdigest(8)}"
    return Remote(url, url, Path(folder))
