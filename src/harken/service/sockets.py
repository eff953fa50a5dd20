"""Open the listening socket: a TCP port, or a Unix socket that only its owner can access.

A port may have TLS, with the certificate and the key that the user provides.
"""

from __future__ import annotations

import errno
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from harken.core.loopback import is_loopback
from harken.errors import ConfigError

_MAX_PATH_BYTES = 100
"""Maximum length of a Unix socket path; systems allow between 104 and 108 bytes."""

_BACKLOG = 128


@contextmanager
def listen_at(host: str, port: int, *, to_all: bool = False) -> Iterator[socket.socket]:
    """Listen at a port; 0 selects a free one. Raises ConfigError.

    A host that other machines can reach is rejected unless `to_all` is set.
    """
    if not to_all and not is_loopback(host):
        raise ConfigError(
            f"{host}: other machines could reach the service there, and all data would cross the "
            "network unencrypted, with the token; add users (`harken user`) and pass --tls-cert "
            "and --tls-key, or --open-to-network to allow it"
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sets TCP_NODELAY only if the protocol is given explicitly.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise ConfigError(
            f"{host}: not an address of this machine ({error.strerror}); check --host"
        ) from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"cannot listen on {host}:{port} ({reason}); {_suggest(error)}"
            ) from None
        listener.listen(_BACKLOG)  # Earlier connections wait until the service is ready.
        yield listener


@contextmanager
def listen_in(path: Path) -> Iterator[socket.socket]:
    """Listen at a Unix socket, which is removed at the end. Raises ConfigError.

    The folder must be accessible to its owner only, because the socket gets its permissions after
    its creation.
    """
    if len(bytes(path)) > _MAX_PATH_BYTES:
        raise ConfigError(
            f"{path}: too long for a socket; use a path of at most {_MAX_PATH_BYTES} bytes"
        )
    _check_folder(path.parent)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(f"{path}: the socket cannot be created ({error.strerror})") from None
        inode = path.stat().st_ino
        try:
            yield listener
        finally:
            with suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()


def _suggest(error: Exception) -> str:
    """Return the advice about an address at which nothing can listen."""
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return "another program listens there: choose another --port, or 0 for any free one"
    return "check --host and --port"


def address_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return the address of a port as a URL."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be used ({error.strerror})") from None
    if mode & 0o077:
        raise ConfigError(
            f"{folder}: others can look into this folder: chmod 700, or name a socket in another"
        )


def _remove_stale(path: Path) -> None:
    """Remove a socket without a listening process. Raises ConfigError for any other file."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path}: exists and is not a socket; choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
                return
    raise ConfigError(f"{path}: another service is listening on it")


class TlsFiles(msgspec.Struct, frozen=True):
    """The files of a certificate chain and of its private key, in PEM."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the settings of connections: TLS 1.2 or later. Raises ConfigError."""
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise ConfigError(f"{path}: file not found; pass a certificate and its key in PEM")
        if self.key.stat().st_mode & 0o077:
            raise ConfigError(f"{self.key}: other users can read this key: chmod 600")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a function for the passphrase, OpenSSL would ask in the terminal.
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise ConfigError(
                f"{self.certificate}: not a certificate with the key {self.key} ({reason}); a key "
                "must have no passphrase"
            ) from None
        return context
