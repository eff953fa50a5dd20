"""`harken run`: run a client of another runtime unchanged, and record it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.cli.options.home import unchecked_home_option
from harken.cli.options.identity import identity_options
from harken.cli.redaction_report import print_redacted
from harken.config.home import Home, current_folder, environment
from harken.config.identity import load_identity
from harken.context.socket_client import VARIABLE
from harken.core.ids import AgentId
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.capture.files.change_scanner import ChangeScanner
    from harken.capture.live.invocation import Invocation
    from harken.capture.live.recorder import CommitSources, LiveRecorder
    from harken.capture.live.stream_event import StreamEvent
    from harken.context.checkpoint import CommitIdentity
    from harken.context.socket_server import ContextSocketServer

QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)
"""Default settings of Claude Code: it begins without network requests."""
NOT_FOUND, NOT_RUN = 127, 126
"""Exit codes of a shell for a program that does not exist, or cannot be run."""
CLIENT = (Path(), AgentId("client"))
"""The owner of the socket: the client and its subagents share one."""
_LOCK_TIMEOUT_S = 10.0


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--runtime", help="The runtime of the client, if its program has another name.")
@click.option(
    "--events",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each event to this file, as a line of JSON.",
)
@click.argument("client", metavar="CLIENT [ARGUMENT]...", nargs=-1, required=True)
@identity_options
@unchecked_home_option
def command(
    home: Home,
    client: tuple[str, ...],
    runtime: str | None,
    events: Path | None,
    **identity_values: str | None,
) -> int:
    """Run a client (claude, codex, ...) and record its conversation as commits.

    Input, output and exit code are those of the client: `harken run -- claude -p "Who is there?"`.
    The default principal is the identity of git in the working folder.
    """
    from harken.capture.live.invocation import parse_invocation
    from harken.capture.live.recorder import LiveRecorder
    from harken.context.socket_server import ContextSocketServer
    from harken.core.clock import format_rfc3339, system_clock

    client_call, started = parse_invocation(client, runtime), format_rfc3339(system_clock())
    folder = current_folder() / client_call.folder
    identity = load_identity(identity_values, environment(), git_folder=folder)
    recordings: list[LiveRecorder] = []
    sockets = ContextSocketServer(
        home.run_folder, lambda: any(recording.request_commit() for recording in recordings)
    )
    try:
        path = _socket(sockets)
        with _event_file(events) as tell:
            scanner = _build_scanner(client_call)
            recording = LiveRecorder(
                opens=_store_opener(home, client_call, scanner, identity, started),
                listen=client_call.listen,
                publish_commit=lambda ctx: sockets.settle(CLIENT, ctx),
                expect_commit=lambda: sockets.hold(CLIENT),
                release=lambda: sockets.release(CLIENT),
                on_line=tell,
                prompt=client_call.prompt,
                has_file=client_call.has_file,
                started=started,
            )
            recordings.append(recording)
            return _run(client_call, _environ(client_call, path), recording)
    finally:
        sockets.close()


def _format_start_error(client_call: Invocation, error: OSError) -> str:
    """Return why a client could not be started, with the install command if it is missing."""
    from harken.capture.resume.clients import CLIENTS

    program = client_call.command[0]
    if isinstance(error, FileNotFoundError):
        for client in CLIENTS:
            if client.runtime == client_call.runtime and client.program == program:
                return client.missing_text
    return f"{one_line(program)}: {error.strerror or error}"


def _run(client_call: Invocation, environ: Mapping[str, str], recording: LiveRecorder) -> int:
    """Run a client and its recording; print a failure of the recording once."""
    from harken.capture.live.display import make_formatter
    from harken.capture.live.process import run_client

    output = None if client_call.output == "untouched" else make_formatter(client_call)
    recording.begin()
    try:
        exit_code = run_client(client_call.command, environ, output, recording.add_line)
    except OSError as error:
        recording.failure = ""
        click.echo(f"harken: {_format_start_error(client_call, error)}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
    try:
        recording.end()
    except KeyboardInterrupt:
        recording.failure = recording.failure or "it was interrupted"
    if recording.failure:
        failure = one_line(recording.failure, 300)
        click.echo(f"harken: the recording of this run is incomplete: {failure}", err=True)
    if exit_code.output_error:
        click.echo(f"harken: output write failed: {exit_code.output_error}", err=True)
        return exit_code.code or 1
    return exit_code.code


def _environ(client_call: Invocation, socket: str) -> dict[str, str]:
    """Return the environment of a client."""
    environ = dict(environment())
    if client_call.runtime == "claude":
        environ = {**dict.fromkeys(QUIET, "1"), **environ}
    return {**environ, VARIABLE: socket} if socket else environ


def _socket(sockets: ContextSocketServer) -> str:
    """Return the path of the socket for the client's tools, or an empty text without one."""
    try:
        return str(sockets.path(CLIENT))
    except OSError:  # the client's tools cannot name their commit
        return ""


def _build_scanner(client_call: Invocation) -> ChangeScanner:
    """Return a scanner for changes of the client's files."""
    from harken.capture.files.change_scanner import ChangeScanner
    from harken.capture.files.sources import SOURCE_LOCATIONS, watched_paths

    places = [place for place in SOURCE_LOCATIONS if place.runtime == client_call.runtime]
    sight = ChangeScanner(watched_paths(places, Path.home(), environment()))
    sight.scan_all()
    return sight


def _store_opener(
    home: Home,
    client_call: Invocation,
    sight: ChangeScanner,
    identity: CommitIdentity,
    started: str,
) -> Callable[[], AbstractContextManager[CommitSources]]:
    """Return a function that opens the store when the recording is ready for it."""
    from harken.capture.live.session_files import build_mentions

    mentions = build_mentions(client_call.runtime, current_folder() / client_call.folder)

    @contextmanager
    def opens() -> Iterator[CommitSources]:
        from harken.capture.files.follower import FileFollower
        from harken.capture.live.recorder import CommitSources
        from harken.capture.live.session_files import RunFiles
        from harken.capture.live.stream_commits import StreamCommits
        from harken.config.imported_sessions import open_catalogue
        from harken.config.settings import load_settings
        from harken.config.store import open_store
        from harken.core.clock import system_clock
        from harken.formats.runtimes.registry import list_runtime_formats

        home.create_folders()
        list_runtime_formats()  # loads the formats before the first request of a tool
        settings = load_settings(home)
        store = open_store(home, settings, patience_s=_LOCK_TIMEOUT_S)
        try:
            catalogue = open_catalogue(home)
            try:
                redact = settings.credentials()
                follower = FileFollower(
                    store, catalogue, identity=identity, live_since=started, redact=redact
                )
                chain = StreamCommits(store, client_call.runtime, system_clock, identity, redact)
                yield CommitSources(store, RunFiles(follower, sight, mentions), chain)
                print_redacted(redact)
            finally:
                catalogue.close()
        finally:
            store.close()

    return opens


@contextmanager
def _event_file(path: Path | None) -> Iterator[Callable[[StreamEvent], None]]:
    """Yield a function that writes events to a file. Fails at once if it cannot be written."""
    if path is None:
        yield lambda _: None
        return
    from harken.formats.events import event_to_record

    with path.open("a", encoding="utf-8", errors="replace") as file:

        def tell(stream_event: StreamEvent) -> None:
            with suppress(OSError):
                for event in stream_event.events:
                    file.write(
                        json.dumps({"agent": stream_event.agent, **event_to_record(event)}) + "\n"
                    )
                file.flush()

        yield tell
