"""HTTP connections to the service: one request, one response, repeated if the connection broke.

Every request may be repeated, because written content is named by its hash. Responses are not
trusted: their size is bounded here, and their content is verified by the caller.
"""

from __future__ import annotations

import importlib
import os
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from harken.core.loopback import is_loopback
from harken.errors import ConfigError, StoreError, StoreUnavailable
from harken.store.remote.errors import ErrorBody, decode_error
from harken.store.remote.wire import BYTES, JSON, read_json

if TYPE_CHECKING:
    import httpx

MAX_CONNECTIONS = 32
MAX_RESPONSE_BYTES = 1024 * 1024 * 1024
"""The size limit of a response."""
_RETRY_SHARES = (0.1, 0.3, 0.6)
"""Delays between attempts, as shares of `patience_s`."""
_CONNECT_S, _SILENCE_S = 5.0, 120.0
"""Timeouts to connect, and for the next bytes: a write to a locked store takes up to 30 s."""
_KEEPALIVE_S = 15.0
"""Idle connections are closed before the server closes them, so no request meets a closed one."""


class ServiceConnection:
    """An HTTP client of the service at `url`, or at the Unix socket `socket`. Threads may share it.

    `ca_file`: the certificates of the issuers that are trusted, in PEM, in place of the known ones.
    `project`: the project of new commits that name none. Requests on broken connections are
    repeated for about `patience_s`. Raises ConfigError if the address is invalid, the token would
    cross a network in the clear, or httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        socket: str | Path | None = None,
        patience_s: float = 1.0,
        ca_file: str | Path | None = None,
        project: str = "",
    ) -> None:
        check_address(url, has_token=bool(token) and socket is None)
        self.address = f"unix:{socket}" if socket is not None else url
        self._httpx = _import_httpx()
        self._process = os.getpid()
        self._retry_delays_s = [share * patience_s for share in _RETRY_SHARES]
        headers = {"harken-project": quote(project, safe="")} if project else {}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self._client = self._create_client(url, headers, socket, ca_file)

    def request(
        self,
        path: str,
        body: bytes = b"",
        *,
        sends: str = JSON,
        accepts: str = JSON,
        method: str = "POST",
        silence_s: float = _SILENCE_S,
    ) -> bytes:
        """Send a request and return the response body, which may take `silence_s` to begin.

        Raises the exception that the service reports; StoreError if it is unreachable or its
        response is not valid.
        """
        headers = {"content-type": sends, "accept": accepts}
        return self._retry(
            lambda: self._read_response(
                method, path, accepts, content=body, headers=headers, silence_s=silence_s
            )
        )

    def stream(self, path: str, *, accepts: str = BYTES) -> Iterator[bytes]:
        """Yield the response body in parts. The request is repeated only until the body begins.

        Raises as `request`.
        """
        for wait_s in (*self._retry_delays_s, None):
            has_begun = False
            try:
                with self._open_response("GET", path, headers={"accept": accepts}) as response:
                    self._check_response(response, accepts)
                    for part in response.iter_raw():
                        has_begun = True
                        yield part
                    return
            except _RetryableError as error:
                if has_begun or wait_s is None or not error.may_pass:
                    raise StoreUnavailable(self.address, error.reason) from error
            time.sleep(wait_s)

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        # After a fork, the connections belong to the parent process.
        if os.getpid() == self._process:
            self._client.close()

    def _create_client(
        self,
        url: str,
        headers: dict[str, str],
        socket: str | Path | None,
        ca_file: str | Path | None,
    ) -> httpx.Client:
        library = self._httpx
        limits = library.Limits(
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=_KEEPALIVE_S,
        )
        # Environment proxies are for other addresses. Large bodies are sent uncompressed.
        transport = library.HTTPTransport(
            uds=None if socket is None else str(socket),
            limits=limits,
            trust_env=False,
            verify=_trusted_certificates(ca_file) if url.startswith("https:") else False,
        )
        client: httpx.Client = library.Client(
            base_url=url,
            headers={"accept-encoding": "identity", **headers},
            transport=transport,
            trust_env=False,
        )
        return client

    def _retry(self, act: Callable[[], bytes]) -> bytes:
        """Run a request, and repeat it if the connection broke or the service was busy."""
        for wait_s in (*self._retry_delays_s, None):
            try:
                return act()
            except _RetryableError as error:
                if wait_s is None or not error.may_pass:
                    raise StoreUnavailable(self.address, error.reason) from error
            time.sleep(wait_s)
        raise AssertionError("the last one returns or raises")

    def _read_response(self, method: str, path: str, accepts: str, **request: Any) -> bytes:
        with self._open_response(method, path, **request) as response:
            self._check_response(response, accepts)
            return self._read_bounded(response)

    def _check_response(self, response: httpx.Response, accepts: str) -> None:
        """Raise the reported error if the response is not of the accepted type."""
        if response.status_code != 200:
            raise self._parse_error(response.status_code, self._read_bounded(response))
        if response.headers.get("content-type", "").split(";")[0] != accepts:
            raise StoreError(self.address, "answers in another form: is it a Harken service?")

    @contextmanager
    def _open_response(
        self, method: str, path: str, *, silence_s: float = _SILENCE_S, **request: Any
    ) -> Iterator[httpx.Response]:
        if os.getpid() != self._process:
            raise StoreError(
                self.address, "was opened before a fork: open it again in this process"
            )
        if self._client.is_closed:
            raise StoreError(self.address, "is closed")
        try:
            timeout = self._httpx.Timeout(silence_s, connect=_CONNECT_S)
            with self._client.stream(method, path, timeout=timeout, **request) as response:
                yield response
        except self._httpx.TimeoutException as error:
            reason = f"does not answer in time ({type(error).__name__})"
            raise _RetryableError(reason, may_pass=False) from error
        except self._httpx.TransportError as error:
            reason = f"cannot be reached ({error}); does `harken serve` run there?"
            raise _RetryableError(reason) from error

    def _read_bounded(self, response: httpx.Response) -> bytes:
        parts: list[bytes] = []
        remaining = MAX_RESPONSE_BYTES
        for part in response.iter_raw():
            remaining -= len(part)
            if remaining < 0:
                raise StoreError(self.address, f"answers with more than {MAX_RESPONSE_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)

    def _parse_error(self, status: int, body: bytes) -> Exception:
        try:
            problem = read_json(body, ErrorBody).error
        except ValueError:
            text = f"answered with status {status}: is it a Harken service?"
            return StoreError(self.address, text)
        if problem.code == "busy":
            return _RetryableError(problem.message)
        return decode_error(problem, self.address)


class _RetryableError(Exception):
    """There was no response. If `may_pass`, the request may be repeated."""

    def __init__(self, reason: str, *, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.may_pass = reason, may_pass


def check_address(url: str, *, has_token: bool) -> None:
    """Raise ConfigError for an invalid address, or one that would expose the token."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url}: not the address of a service ({error})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{url}: not the address of a service, such as http://127.0.0.1:8420")
    if parts.username is not None:
        raise ConfigError(f"{host}: do not put a token in the URL")
    if parts.scheme == "http" and has_token and not is_loopback(host):
        raise ConfigError(
            f"{url}: the token would cross the network unencrypted; use https, or a tunnel to a "
            f"port of this machine"
        )


def _trusted_certificates(ca_file: str | Path | None) -> ssl.SSLContext | bool:
    """Return the issuers that are trusted: those in a file, or the known ones (True)."""
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{ca_file}: not a file of certificates in PEM ({reason})") from None


def _import_httpx() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError:
        raise ConfigError("a remote store needs httpx: pip install 'harken[service]'") from None
