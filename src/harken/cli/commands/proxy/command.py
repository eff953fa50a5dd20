"""`harken proxy`: record the model calls of other programs as they pass through."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.commands.proxy.status import ProxyStatus
from harken.cli.commands.proxy.upstreams import build_client_environment, build_upstreams
from harken.cli.options.home import home_option, json_option
from harken.cli.options.identity import IDENTITY_NAMES, identity_options
from harken.cli.options.time import idle_timeout_option
from harken.config.home import Home, current_folder, environment, program_line
from harken.config.identity import load_identity, write_identity
from harken.config.settings import load_settings
from harken.errors import ConfigError
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.capture.proxy.recorder_process import RecorderProcess
    from harken.capture.proxy.server import ProxyServer
    from harken.context.checkpoint import CommitIdentity

PORT = 8421
_NEEDED = {"aiohttp", "multidict", "yarl"}
_FINISH_TIMEOUT_S = 60.0
"""The maximum wait at the end for calls that are not recorded yet."""
_SOON_S = 3.0
_POLL_INTERVAL_S = 0.5


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options of the proxy."""

    port: int | None
    upstreams: tuple[str, ...]
    no_token: bool
    idle_timeout_s: float | None
    command: tuple[str, ...]
    identity: CommitIdentity


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The local port; 0 means any free port.  [default: {PORT}; with a COMMAND any free port]",
)
@click.option(
    "--upstream",
    "upstreams",
    metavar="NAME=URL",
    multiple=True,
    help="Another server for anthropic, openai or gemini, or a server with a new name.",
)
@click.option("--no-token", is_flag=True, help="Omit the token from the URLs.")
@idle_timeout_option
@click.option("--record", "run", hidden=True, help="Run as the recorder process of this run.")
@click.argument("command", metavar="[COMMAND]...", nargs=-1)
@identity_options
@json_option
@home_option
def command(home: Home, run: str | None, as_json: bool, **values: Any) -> int:
    """Forward requests of clients to their models unchanged, and record them.

    Configure a client with the printed URL, or run it here: `harken proxy -- claude -p "Hi"`. Each
    conversation is recorded as a session and as commits. Ctrl-C ends the proxy. The default
    principal is the identity of git in the working folder.
    """
    home.create_folders()
    if run is not None:
        from harken.cli.commands.proxy.recorder import record

        return record(home, run)
    identity_values = {name: values.pop(name) for name in IDENTITY_NAMES}
    identity = load_identity(identity_values, environment(), git_folder=current_folder())
    return _proxy(home, ProxyOptions(**values, identity=identity), as_json=as_json)


def _proxy(home: Home, wish: ProxyOptions, *, as_json: bool) -> int:
    """Forward and record calls until the end; return the exit code."""
    try:
        from harken.capture.proxy.recorder_process import RecorderProcess
        from harken.capture.proxy.server import serve_proxy
        from harken.capture.proxy.spool import ProxySpool
        from harken.capture.proxy.spool_redactor import SpoolRedactor
        from harken.capture.proxy.tap import ProxyTap
    except ImportError as error:
        if error.name not in _NEEDED:
            raise
        raise ConfigError(
            f"the proxy needs {error.name}, which is not installed: pip install 'harken[proxy]'"
        ) from None
    from harken.core.clock import system_clock
    from harken.service.access import ensure_token
    from harken.service.sockets import address_of, listen_at

    token = "" if wish.no_token else ensure_token(home.folder / "proxy.token")
    port = wish.port if wish.port is not None else 0 if wish.command else PORT
    with listen_at("127.0.0.1", port) as listener:
        address = address_of(listener)
        upstreams = build_upstreams(wish.upstreams, environment(), address, token)
        news = ProxyStatus(address, upstreams, is_quiet=bool(wish.command), as_json=as_json)
        run = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        recorder = RecorderProcess(
            _recorder(home, run), environment(), news.on_message, news.report
        )
        spool = ProxySpool(home.proxy_folder / run, news.report, recorder.notify)
        redact = load_settings(home).credentials()
        spool.redactor = None if redact is None else SpoolRedactor(redact)
        spool.start()
        write_identity(spool.folder, wish.identity, redact)
        recorder.start()
        try:
            notes = ProxyTap(spool, _protocol_of, run, system_clock)
            with serve_proxy(listener, upstreams, notes) as server:
                news.begin()
                code = _run(wish.command, news) if wish.command else _wait(server, wish)
        finally:
            spool.close()
            _finish(recorder, news)
        news.end(spool.calls, spool.unrecorded)
    return code


def _finish(recorder: RecorderProcess, news: ProxyStatus) -> None:
    """Wait for calls that are not recorded yet. If interrupted, the recorder continues alone."""
    news.is_complete = False
    with suppress(KeyboardInterrupt):
        if not recorder.close(_SOON_S):
            news.report("recording the remaining calls; Ctrl-C continues it in the background")
        news.is_complete = recorder.close(_FINISH_TIMEOUT_S)


def _recorder(home: Home, run: str) -> list[str]:
    """Return the command that runs the recorder."""
    return [*program_line(), "proxy", "--home", str(home.folder), "--record", run]


def _protocol_of(path: str) -> str:
    from harken.formats.wire import registry as wires

    protocol = wires.find_protocol(path)
    return protocol.name if protocol is not None else ""


def _run(command: Sequence[str], news: ProxyStatus) -> int:
    """Run a client that uses the proxy; return its exit code."""
    from harken.capture.live.process import run_client as run

    words, environ = build_client_environment(command, environment(), news.addresses)
    try:
        return run(words, environ, None, lambda _: None).code
    except OSError as error:
        click.echo(f"harken: {one_line(words[0])}: {error.strerror or error}", err=True)
        return 127 if isinstance(error, FileNotFoundError) else 126


def _wait(server: ProxyServer, wish: ProxyOptions) -> int:
    """Wait until the proxy is stopped, or no client sends requests any more."""
    with _stop_signals() as stop_event:
        while not stop_event.wait(_POLL_INTERVAL_S):
            if wish.idle_timeout_s is not None and server.idle_s > wish.idle_timeout_s:
                break
    return 0


@contextmanager
def _stop_signals() -> Iterator[Event]:
    """Yield an event that is set when this process is asked to stop."""
    stop_event = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop_event.set()

    heeded = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield stop_event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
