"""`harken otlp`: record model calls that other programs emit as spans."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.options.home import home_option, json_option
from harken.cli.options.identity import identity_options
from harken.cli.options.time import idle_timeout_option
from harken.config.home import Home, command_prefix, current_folder, environment
from harken.config.identity import load_identity
from harken.config.settings import load_settings
from harken.config.store import open_or_create_store
from harken.errors import ConfigError
from harken.terminal.text import print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.capture.otlp.receiver import ReceiverStats
    from harken.capture.otlp.server import OtlpServer
    from harken.context.checkpoint import CommitIdentity

PORT = 4318
"""The default port of exporters."""


@click.command("otlp")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port; 0 means any free port.",
)
@click.option(
    "--no-token",
    is_flag=True,
    help="Accept spans without a token from any program on this machine.",
)
@identity_options
@idle_timeout_option
@json_option
@home_option
def command(
    home: Home,
    *,
    port: int,
    no_token: bool,
    idle_timeout_s: float | None,
    as_json: bool,
    **identity_values: str | None,
) -> None:
    """Receive OpenTelemetry spans on this machine, and record their model calls.

    The command prints the environment variables for the programs to record. Ctrl-C ends it.
    """
    home.create_folders()
    token_file = None if no_token else home.token_file
    identity = load_identity(identity_values, environment(), git_folder=current_folder())
    with _serving(home, port, token_file, identity) as serving, _until_signalled(serving.server):
        _print_endpoint(serving.server.url, token_file, as_json=as_json)
        serving.server.serve(idle_s=idle_timeout_s)
    _summarize(serving.stats, as_json=as_json)


class _Serving(msgspec.Struct, frozen=True):
    server: OtlpServer
    stats: ReceiverStats


@contextmanager
def _serving(
    home: Home, port: int, token_file: Path | None, identity: CommitIdentity
) -> Iterator[_Serving]:
    """Open the resources of the command. Raises ConfigError, StoreError."""
    from harken.capture.otlp.decode import check_installed
    from harken.capture.otlp.receiver import Receiver
    from harken.capture.otlp.server import OtlpServer
    from harken.capture.otlp.spool import OtlpSpool
    from harken.recording.recorder import Recorder
    from harken.recording.session_pool import RecorderOptions
    from harken.service.access import ensure_token

    check_installed()
    token = None if token_file is None else ensure_token(token_file)
    credentials = load_settings(home).credentials()
    spool = OtlpSpool(home.folder / "otlp", credentials)
    try:
        with (
            open_or_create_store(home) as store,
            Recorder(
                home.sessions_folder,
                store,
                tell=_print_notice,
                options=RecorderOptions(identity=identity, redact=credentials),
            ) as recorder,
        ):
            receiver = Receiver(recorder)
            try:
                server = OtlpServer(receiver, port=port, token=token, spool=spool)
            except OSError as error:
                reason = error.strerror or error
                raise ConfigError(
                    f"cannot listen on 127.0.0.1:{port} ({reason}); choose another --port"
                ) from None
            with server:
                yield _Serving(server, receiver.stats)
    finally:
        spool.close()


@contextmanager
def _until_signalled(server: OtlpServer) -> Iterator[None]:
    """Stop the server on SIGINT and SIGTERM, after recording all received calls."""

    def end(*_: Any) -> None:
        Thread(target=server.shutdown, daemon=True).start()  # shutdown() blocks until the loop ends

    before = {name: signal.signal(name, end) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _print_notice(line: str) -> None:
    click.echo(f"harken: {line}", err=True)


def _print_endpoint(url: str, token_file: Path | None, *, as_json: bool) -> None:
    """Print the values that a program needs to connect. The token itself is never printed."""
    settings = _settings(url, token_file)
    if as_json:
        print_json(
            {"address": url, "token_file": token_file and str(token_file), "set": settings},
            indent=None,
        )
        return
    print_text(f"Receiving spans at {url}; Ctrl-C ends it. Set in the environment of the program:")
    for name, value in settings.items():
        print_text(f"  export {name}={value}")


def _settings(url: str, token_file: Path | None) -> dict[str, str]:
    """Return the variables for an exporter and its instrumentation, as shell assignments."""
    token = None if token_file is None else f'"$(cat {shlex.quote(str(token_file))})"'
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        **({"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{token}"} if token else {}),
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    }


def _summarize(stats: ReceiverStats, *, as_json: bool) -> None:
    if as_json:
        print_json({"calls": stats.calls, "without_messages": stats.without_messages}, indent=None)
        return
    print_text(
        f"Recorded {format_count(stats.calls, 'model call')}; `{command_prefix('sessions')}` "
        "lists the sessions."
    )
    if stats.without_messages:
        print_text(
            f"{format_count(stats.without_messages, 'model call')} without message content: "
            "enable its capture in the program "
            "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT)"
        )
