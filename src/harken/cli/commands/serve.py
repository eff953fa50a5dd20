"""`harken serve`: the store of the home or another one, for other programs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.home_team import has_team, open_team
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import idle_timeout_option
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.config.store import open_served_store
from harken.errors import ConfigError
from harken.terminal.text import print_json, print_text

if TYPE_CHECKING:
    from harken.service.sockets import TlsFiles

PORT = 8420
_NEEDED = {"fastapi", "starlette", "uvicorn", "httpx", "anyio"}


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The local address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port; 0 means any free port.",
)
@click.option(
    "--socket",
    "path",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Listen on a Unix socket instead. Only you can connect, without a token.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Serve the store at this URL instead: postgresql://..., sqlite:PATH.",
)
@click.option("--read-only", is_flag=True, help="Reject requests that change the store.")
@click.option(
    "--max-mb",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="The maximum size of a request in MB.",
)
@idle_timeout_option
@click.option(
    "--open-to-network",
    is_flag=True,
    help="Allow a --host that other machines can reach. The traffic is not encrypted.",
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A certificate chain in PEM, for https. With users, other machines may connect.",
)
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="The key of the certificate."
)
@json_option
@home_option
def command(as_json: bool, home: Home, **options: Any) -> None:
    """Serve the store of the home, or another one, over HTTP, until Ctrl-C.

    Clients need a token, which is in a file that only you can read, or one of a user that `harken
    user` and `harken token` created. Users have the rights that they were given, and each request
    is recorded (`harken user audit`). Several services may serve one store in PostgreSQL.
    """
    try:
        from harken.service.access import AccessCheck
        from harken.service.app import make_app
        from harken.service.dependencies import ServiceLimits
        from harken.service.server import serve
        from harken.service.team.source import TeamSource
    except ImportError as error:
        if error.name not in _NEEDED:
            raise
        raise ConfigError(
            f"serving needs {error.name}, which is not installed: pip install 'harken[service]'"
        ) from None

    wish = ServeOptions(**options)
    home.create_folders()
    settings = load_settings(home)
    tls = find_tls(wish)
    with listening(home, wish, tls) as place, ExitStack() as stack:
        store = open_served_store(home, settings, wish.store)
        stack.callback(store.close)
        # Not the configuration at the time of a request: the store is that of the start.
        address = wish.store or settings.store or ""
        team = TeamSource(lambda: open_team(home, address))
        stack.callback(team.close)
        gate = AccessCheck(place.token, any_host=place.is_open)
        limits = ServiceLimits(body_bytes=wish.max_mb * 1024 * 1024)
        app = make_app(
            store,
            gate,
            limits=limits,
            read_only=wish.read_only,
            sessions=home.sessions_folder,
            refuses_credentials=settings.redact == "store",
            team=team,
        )
        tell(place, home, as_json=as_json)
        serve(app, [place.listener], limits=limits, idle_s=wish.idle_timeout_s, tls=tls)
    if not as_json:
        print_text("stopped; all acknowledged requests are stored")


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options of the service."""

    host: str
    port: int
    path: Path | None
    store: str | None
    read_only: bool
    max_mb: int
    idle_timeout_s: float | None
    open_to_network: bool
    tls_cert: Path | None
    tls_key: Path | None


class BoundService(msgspec.Struct, frozen=True):
    """The address of the service, and its token or None."""

    listener: socket.socket
    address: str
    token: str | None
    is_open: bool = False
    """Whether other machines may connect, under other host names."""


def find_tls(wish: ServeOptions) -> TlsFiles | None:
    """Return the valid files of a certificate, or None. Raises ConfigError."""
    from harken.service.sockets import TlsFiles

    if wish.tls_cert is None and wish.tls_key is None:
        return None
    if wish.tls_cert is None or wish.tls_key is None or wish.path is not None:
        raise click.UsageError("pass both --tls-cert and --tls-key, and no --socket")
    files = TlsFiles(wish.tls_cert, wish.tls_key)
    files.context()
    return files


@contextmanager
def listening(home: Home, wish: ServeOptions, tls: TlsFiles | None) -> Iterator[BoundService]:
    """Listen on a port or on a Unix socket. Raises ConfigError.

    Other machines may connect to a service with TLS and users.
    """
    from harken.service.access import ensure_token
    from harken.service.sockets import address_of, listen_at, listen_in

    if wish.path is not None:
        path = wish.path.absolute()
        with listen_in(path) as listener:
            yield BoundService(listener, f"unix:{path}", None)
        return
    to_all = wish.open_to_network or (tls is not None and has_team(home, wish.store))
    with listen_at(wish.host, wish.port, to_all=to_all) as listener:
        address = address_of(listener, "http" if tls is None else "https")
        yield BoundService(listener, address, ensure_token(home.token_file), to_all)


def tell(place: BoundService, home: Home, *, as_json: bool) -> None:
    """Print the address of the service. The token itself is never printed."""
    token_file = None if place.token is None else str(home.token_file)
    if as_json:
        print_json({"address": place.address, "token_file": token_file}, indent=None)
        return
    how = f"the token is in {token_file}" if token_file else "no token is needed"
    print_text(f"Serving at {place.address}; {how}; Ctrl-C ends it.")
