"""`harken ui`: the sessions of the home as a page in the browser."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import quote

import click

from harken.cli.options.home import home_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home, current_folder, environment, home_arguments
from harken.errors import ConfigError
from harken.terminal.text import print_text, program_name

PORT = 8421
_MAX_PORTS = 20
"""The number of ports that are tried, beginning with the default one."""
_NEEDED = {"fastapi", "starlette", "uvicorn", "anyio"}


@click.command()
@click.argument("session", required=False, type=SESSION)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The port; 0 means any free port (default: {PORT}, or the next free one).",
)
@click.option("--no-open", is_flag=True, help="Only print the link; do not open the browser.")
@home_option
def command(session: str | None, port: int | None, no_open: bool, home: Home) -> None:
    """Show the sessions in the browser, until Ctrl-C.

    The page has all conversations with their tool calls, what each model call read, and what hooks
    changed, and follows running sessions. Only programs of this machine that know the printed link
    can read it. The link is for this start: open it once, and bookmarks and earlier tabs work on.
    """
    try:
        from harken.cli.commands.ui.browser import has_display, open_in_browser
        from harken.cli.commands.ui.viewer import open_home_viewer
        from harken.service.server import serve_streams
        from harken.service.sockets import address_of
        from harken.service.viewer.access import PageAccessCheck, make_page_token
        from harken.service.viewer.app import LIMITS
    except ImportError as error:
        if error.name not in _NEEDED:
            raise
        raise ConfigError(
            f"the viewer needs {error.name}, which is not installed: pip install 'harken[service]'"
        ) from None

    home.create_folders()
    token = make_page_token()
    with open_home_viewer(
        home,
        PageAccessCheck(token),
        command=[program_name(), *home_arguments()],
        folder=current_folder(),
        user_folder=Path.home(),
        environ=environment(),
    ) as viewer:
        name = None if session is None else viewer.library.resolve(session)
        with _listen(port) as listener:
            link = f"{address_of(listener)}/#token={token}"
            link += "" if name is None else f"&session={quote(name, safe='')}"
            print_text(link)
            sys.stdout.flush()
            if sys.stdout.isatty():
                click.echo("Ctrl-C ends it.", err=True)
            # The page asks for the list of sessions first; reading it may take as long as a
            # browser.
            threading.Thread(target=viewer.library.count, daemon=True).start()
            is_opened = not no_open and has_display(environment())
            with open_in_browser(link, home.folder) if is_opened else nullcontext():
                end_streams = viewer.app.end_streams
                serve_streams(viewer.app.app, [listener], limits=LIMITS, end_streams=end_streams)


@contextmanager
def _listen(port: int | None) -> Iterator[socket.socket]:
    """Listen on a port of this machine; without one, on the first free one from the default.

    Raises ConfigError.
    """
    from harken.service.sockets import listen_at

    ports = [*range(PORT, PORT + _MAX_PORTS), 0] if port is None else [port]
    with ExitStack() as stack:
        for candidate in ports:
            try:
                listener = stack.enter_context(listen_at("127.0.0.1", candidate))
            except ConfigError:
                if candidate == ports[-1]:
                    raise
            else:
                yield listener
                return
