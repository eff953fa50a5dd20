"""A connection to the service: one question, one answer, asked again where the line broke.

Everything that is asked may be asked twice: what is written is named by its content. What comes
back is not trusted: its size is bounded here, its content is checked by whoever asked.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harken.core.loopback import is_loopback
from harken.errors import ConfigError, StoreError, StoreUnavailable
from harken.store.remote.errors import ErrorBody, error_of
from harken.store.remote.wire import BYTES, JSON, read_json

if TYPE_CHECKING:
    import httpx

MOST_CONNECTIONS = 32
ANSWER_MOST_BYTES = 1024 * 1024 * 1024
"""What is longer is no answer."""
_AGAIN_AFTER = (0.1, 0.3, 0.6)
"""Shares of one's patience."""
_CONNECT_S, _SILENCE_S = 5.0, 120.0
"""How long one waits for a connection, and for the next sign of life: a locked store takes 30 s."""
_KEPT_S = 15.0
"""Idle connections end here before they end there: a request never meets a closing door."""


class ServiceConnection:
    """Connections to the service at `url`, or at the Unix socket `socket`; threads may share it.

    Where the line breaks they ask again, for about `patience_s`. Raises ConfigError where the
    address is none, the token would cross a network in the clear, or httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        socket: str | Path | None = None,
        patience_s: float = 1.0,
    ) -> None:
        check_address(url, has_token=bool(token) and socket is None)
        self.address = f"unix:{socket}" if socket is not None else url
        self._httpx = _imported()
        self._process = os.getpid()
        self._waits_s = [share * patience_s for share in _AGAIN_AFTER]
        self._client = self._made(url, token, socket)

    def ask(
        self,
        path: str,
        body: bytes = b"",
        *,
        sends: str = JSON,
        accepts: str = JSON,
        method: str = "POST",
        silence_s: float = _SILENCE_S,
    ) -> bytes:
        """Return the body of the answer, which may take `silence_s` to begin.

        Raises what the service says, as the exception that it was there; StoreError where it
        cannot be reached, or says what no service would.
        """
        headers = {"content-type": sends, "accept": accepts}
        return self._again(
            lambda: self._whole(
                method, path, accepts, content=body, headers=headers, silence_s=silence_s
            )
        )

    def flow(self, path: str, *, accepts: str = BYTES) -> Iterator[bytes]:
        """Yield the body of an answer in parts, as they come. Asked again only until it begins.

        Raises as `ask`.
        """
        for wait_s in (*self._waits_s, None):
            has_begun = False
            try:
                with self._answer("GET", path, headers={"accept": accepts}) as response:
                    self._check(response, accepts)
                    for part in response.iter_raw():
                        has_begun = True
                        yield part
                    return
            except _Broken as error:
                if has_begun or wait_s is None or not error.may_pass:
                    raise StoreUnavailable(self.address, error.reason) from error
            time.sleep(wait_s)

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        if os.getpid() == self._process:  # after a fork they are the parent's
            self._client.close()

    def _made(self, url: str, token: str, socket: str | Path | None) -> httpx.Client:
        library = self._httpx
        limits = library.Limits(
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=_KEPT_S,
        )
        # Proxies of the environment are for other addresses; what is large is not compressed.
        transport = library.HTTPTransport(
            uds=None if socket is None else str(socket),
            limits=limits,
            trust_env=False,
            verify=url.startswith("https:"),  # without TLS no certificates need be read
        )
        headers = {"accept-encoding": "identity"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        client: httpx.Client = library.Client(
            base_url=url,
            headers=headers,
            transport=transport,
            trust_env=False,
        )
        return client

    def _again(self, act: Callable[[], bytes]) -> bytes:
        """Do it, and do it again where the line broke or the service had too much to do."""
        for wait_s in (*self._waits_s, None):
            try:
                return act()
            except _Broken as error:
                if wait_s is None or not error.may_pass:
                    raise StoreUnavailable(self.address, error.reason) from error
            time.sleep(wait_s)
        raise AssertionError("the last one returns or raises")

    def _whole(self, method: str, path: str, accepts: str, **request: Any) -> bytes:
        with self._answer(method, path, **request) as response:
            self._check(response, accepts)
            return self._bounded(response)

    def _check(self, response: httpx.Response, accepts: str) -> None:
        """Raise what the service says where it does not give what was asked for."""
        if response.status_code != 200:
            raise self._failure(response.status_code, self._bounded(response))
        if response.headers.get("content-type", "").split(";")[0] != accepts:
            raise StoreError(self.address, "answers in another form: is it a Harken service?")

    @contextmanager
    def _answer(
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
            raise _Broken(reason, may_pass=False) from error
        except self._httpx.TransportError as error:
            reason = f"cannot be reached ({error}); does `harken serve` run there?"
            raise _Broken(reason) from error

    def _bounded(self, response: httpx.Response) -> bytes:
        parts: list[bytes] = []
        left = ANSWER_MOST_BYTES
        for part in response.iter_raw():
            left -= len(part)
            if left < 0:
                raise StoreError(self.address, f"answers with more than {ANSWER_MOST_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)

    def _failure(self, status: int, body: bytes) -> Exception:
        try:
            problem = read_json(body, ErrorBody).error
        except ValueError:
            text = f"answered with status {status}: is it a Harken service?"
            return StoreError(self.address, text)
        if problem.code == "busy":
            return _Broken(problem.message)
        return error_of(problem, self.address)


class _Broken(Exception):
    """There was no answer."""

    def __init__(self, reason: str, *, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.may_pass = reason, may_pass


def check_address(url: str, *, has_token: bool) -> None:
    """Raise ConfigError for an address that is none, or where all could read the token."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url}: is no address of a service ({error})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{url}: is no address of a service, such as http://127.0.0.1:8420")
    if parts.username is not None:
        raise ConfigError(f"{host}: a token does not belong into an address")
    if parts.scheme == "http" and has_token and not is_loopback(host):
        raise ConfigError(
            f"{url}: the token would cross the network in the clear; use https, or a tunnel to a "
            f"port of this machine"
        )


def _imported() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError:
        raise ConfigError("a remote store needs httpx: pip install 'harken[service]'") from None
