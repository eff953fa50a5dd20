"""Named remotes of a home: a folder for each, written by commands and not by hand.

`config.toml` holds what a person decides; a remote is recorded by `remote add` or `clone`, as in
git. Its folder has the address (`remote.json`), its token if it has one of its own (`token`), and
the mirror, which can be made again. An address never contains a token.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from harken.errors import ConfigError
from harken.store.remote.connection import check_address
from harken.world.private_file import read_own_file, read_settings_file, replace_file

DEFAULT = "origin"
UNIX = "unix:"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_TOKEN_PATTERN = re.compile(r"[\x21-\x7e]{1,4096}")
_MAX_TOKEN_BYTES = 8192


class RemoteFile(msgspec.Struct, frozen=True):
    """The file of a remote."""

    url: str


class Remote(msgspec.Struct, frozen=True):
    """A named remote of a home."""

    name: str
    url: str
    """`http://HOST:PORT`, `https://...`, or `unix:PATH`."""
    folder: Path
    """The folder of its token and its mirror."""

    @property
    def token_file(self) -> Path:
        """The file of the token, if it has one of its own."""
        return self.folder / "token"


class Remotes:
    """The named remotes of one home, in the folder `remotes` of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_remotes(self) -> list[Remote]:
        """Return all remotes that can be read, sorted by name."""
        return sorted(self._iter_remotes(), key=lambda remote: remote.name)

    def find(self, name: str) -> Remote | None:
        """Return a remote by name, or None. Raises ConfigError for a damaged file."""
        if not _NAME_PATTERN.fullmatch(name):
            return None
        folder = self._folder / name
        file = folder / "remote.json"
        data = read_settings_file(file)
        if data is None:
            return None
        try:
            url = msgspec.json.decode(data, type=RemoteFile).url
            check_url(url)
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigError):
            raise ConfigError(
                f"{file}: not the file of a remote; add it again with `harken remote add`"
            ) from None
        return Remote(name, url, folder)

    def get(self, name: str) -> Remote:
        """Return a remote by name. Raises ConfigError if it does not exist."""
        remote = self.find(name)
        if remote is None:
            names = ", ".join(remote.name for remote in self._iter_remotes())
            existing = f"existing: {names}" if names else "`harken remote add` adds one"
            raise ConfigError(f"remote {name!r} not found; {existing}")
        return remote

    def find_by_url(self, url: str) -> Remote | None:
        """Return the remote with an address, or None."""
        for remote in self._iter_remotes():
            if remote.url == url:
                return remote
        return None

    def add(self, name: str, url: str, *, token: str | None = None) -> Remote:
        """Record a remote. Raises ConfigError for an invalid or existing name, or an address."""
        if not _NAME_PATTERN.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot name a remote: use up to 50 letters, digits, '.', '_' and '-'"
            )
        check_url(url)
        if token is not None and not _TOKEN_PATTERN.fullmatch(token):
            raise ConfigError("this is no token: use one word of printable ASCII characters")
        folder = self._folder / name
        if (folder / "remote.json").exists():
            raise ConfigError(f"remote {name!r} exists; remove it first: harken remote remove")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if token is not None:
                replace_file(folder / "token", token.encode() + b"\n")
            replace_file(folder / "remote.json", msgspec.json.encode(RemoteFile(url)) + b"\n")
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from None
        return Remote(name, url, folder)

    def remove(self, name: str) -> None:
        """Forget a remote, its token and its mirror. Raises ConfigError if it does not exist."""
        folder = self.get(name).folder
        try:
            (folder / "remote.json").unlink()
            shutil.rmtree(folder)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be removed ({error.strerror or error})") from None

    def _iter_remotes(self) -> Iterator[Remote]:
        with suppress(FileNotFoundError, NotADirectoryError):
            for folder in self._folder.iterdir():
                with suppress(ConfigError):  # A damaged file is reported when it is named.
                    if (remote := self.find(folder.name)) is not None:
                        yield remote


def is_url(text: str) -> bool:
    """Whether a text is meant as the address of a service, valid or not."""
    return "://" in text or text.startswith(UNIX)


def check_url(url: str) -> None:
    """Raise ConfigError for an address that is invalid or may contain a token.

    The text of the error repeats nothing of such an address.
    """
    if url.startswith(UNIX):
        if not url.removeprefix(UNIX) or not url.isprintable():
            raise ConfigError("unix: without a path of a socket")
        return
    if not url.isprintable():
        raise ConfigError("this is not the address of a service: it has unprintable characters")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("this is not the address of a service: it cannot be parsed") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError("do not put a token in the URL: use --token-file, or the environment")
    check_address(url, has_token=False)


def read_remote_token(remote: Remote) -> str | None:
    """Return the own token of a remote, or None if it has none.

    Raises ConfigError if other users can read the file, or it is invalid.
    """
    try:
        data = read_own_file(
            remote.token_file, _MAX_TOKEN_BYTES, what="this token", then="the remote is added again"
        )
    except FileNotFoundError:
        return None
    token = data.decode("ascii", "replace").strip()
    if not _TOKEN_PATTERN.fullmatch(token):
        raise ConfigError(f"{remote.token_file}: contains no token")
    return token
