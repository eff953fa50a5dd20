"""Where the service listens: a port of this machine, or a Unix socket of its owner alone."""

from __future__ import annotations

import errno
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harken.core.loopback import is_loopback
from harken.errors import ConfigError

_MOST_BYTES = 100
"""How long the path of a Unix socket may be; the systems differ between 104 and 108."""

_WAITING = 128


@contextmanager
def listen_at(host: str, port: int, *, to_all: bool = False) -> Iterator[socket.socket]:
    """Listen at a port; 0: any that is free. Raises ConfigError.

    Other machines could reach the service where `host` is not of this one only: that is refused
    unless it is said (`to_all`).
    """
    if not to_all and not is_loopback(host):
        raise ConfigError(
            f"{host}: other machines could reach the service there, and all that is sent would "
            f"cross the network unencrypted, the token too; --open-to-network if you mean that"
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise ConfigError(f"{host}: is no address of this machine ({error.strerror})") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"{host}:{port}: cannot be listened at ({reason}); choose another --port"
            ) from None
        listener.listen(_WAITING)  # who comes before the service is ready, waits
        yield listener


@contextmanager
def listen_in(path: Path) -> Iterator[socket.socket]:
    """Listen at a Unix socket, which is removed in the end. Raises ConfigError.

    Its folder is made, or must be, its owner's alone: between making a socket and closing it to
    others there is a moment.
    """
    if len(bytes(path)) > _MOST_BYTES:
        raise ConfigError(f"{path}: is too long for a socket; take one of {_MOST_BYTES} bytes")
    _check_folder(path.parent)
    _remove_left(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(_WAITING)
        except OSError as error:
            raise ConfigError(f"{path}: no socket can be made ({error.strerror})") from None
        ours = path.stat().st_ino
        try:
            yield listener
        finally:
            with suppress(OSError):
                if path.stat().st_ino == ours:
                    path.unlink()


def address_of(listener: socket.socket) -> str:
    """Return the address of a port as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be used ({error.strerror})") from None
    if mode & 0o077:
        raise ConfigError(
            f"{folder}: others can look into this folder: chmod 700, or name a socket in another"
        )


def _remove_left(path: Path) -> None:
    """Remove a socket that nobody listens at any more. Raises ConfigError for all else."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path}: is there, and no socket: name another")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        try:
            asking.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
                return
    raise ConfigError(f"{path}: another service listens there")
