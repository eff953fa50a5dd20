"""`harken run`: a client of another runtime, run as it is, and recorded as it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.cli.options.home import home_option
from harken.config.home import Home, current_folder, environment
from harken.context.socket_client import VARIABLE
from harken.core.ids import AgentId
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.capture.files.change_scanner import ChangeScanner
    from harken.capture.live.invocation import Invocation
    from harken.capture.live.recorder import CommitSources, LiveRecorder
    from harken.capture.live.stream_event import StreamEvent
    from harken.context.socket_server import ContextSocketServer

QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)
"""What Claude Code is told, where nobody says otherwise: it begins without asking the network."""
NOT_FOUND, NOT_RUN = 127, 126
"""What a shell ends with where there is no such program, or it cannot be run."""
CLIENT = (Path(), AgentId("client"))
"""Whose socket it is: there is one, for the client and its subagents."""
_PATIENCE_S = 10.0


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--runtime", help="Which client it is, where its name does not say it.")
@click.option(
    "--events",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add each event to this file as it happens, a line of JSON each.",
)
@click.argument("client", metavar="CLIENT [ARGUMENT]...", nargs=-1, required=True)
@home_option
def command(home: Home, client: tuple[str, ...], runtime: str | None, events: Path | None) -> int:
    """Run a client (claude, codex, ...) and record it: commits as it works.

    Its input, output and exit code are its own: `harken run -- claude -p "Who is there?"`.
    """
    from harken.capture.live.invocation import invocation
    from harken.capture.live.recorder import LiveRecorder
    from harken.context.socket_server import ContextSocketServer
    from harken.core.clock import format_rfc3339, system_clock

    asked = invocation(client, runtime)
    recordings: list[LiveRecorder] = []
    sockets = ContextSocketServer(home.run_folder, lambda: any(one.ask() for one in recordings))
    try:
        path = _socket(sockets)
        with _event_file(events) as tell:
            recording = LiveRecorder(
                opens=_opens(home, asked, _sight(asked)),
                listen=asked.listen,
                settle=lambda ctx: sockets.settle(CLIENT, ctx),
                hold=lambda: sockets.hold(CLIENT),
                release=lambda: sockets.release(CLIENT),
                tell=tell,
                prompt=asked.prompt,
                has_file=asked.has_file,
                started=format_rfc3339(system_clock()),
            )
            recordings.append(recording)
            return _run(asked, _environ(asked, path), recording)
    finally:
        sockets.close()


def _run(asked: Invocation, environ: Mapping[str, str], recording: LiveRecorder) -> int:
    """Run a client and its recording; say what went wrong with the recording, once."""
    from harken.capture.live.display import shown_for
    from harken.capture.live.process import run_client

    shown = None if asked.output == "untouched" else shown_for(asked)
    recording.begin()
    try:
        ended = run_client(asked.command, environ, shown, recording.hear)
    except OSError as error:
        recording.failure = ""
        click.echo(f"harken: {one_line(asked.command[0])}: {error.strerror or error}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
    try:
        recording.end()
    except KeyboardInterrupt:
        recording.failure = recording.failure or "it was interrupted"
    if recording.failure:
        failure = one_line(recording.failure, 300)
        click.echo(f"harken: this run is not recorded to its end: {failure}", err=True)
    if ended.unshown:
        click.echo(f"harken: not all output could be written: {ended.unshown}", err=True)
        return ended.code or 1
    return ended.code


def _environ(asked: Invocation, socket: str) -> dict[str, str]:
    """Return the environment of a client."""
    environ = dict(environment())
    if asked.runtime == "claude":
        environ = {**dict.fromkeys(QUIET, "1"), **environ}
    return {**environ, VARIABLE: socket} if socket else environ


def _socket(sockets: ContextSocketServer) -> str:
    """Return where the client's tools ask for their commit; empty: nowhere."""
    try:
        return str(sockets.path(CLIENT))
    except OSError:  # then its tools have no name for what they do
        return ""


def _sight(asked: Invocation) -> ChangeScanner:
    """Return what sees the files of a client from now on."""
    from harken.capture.files.change_scanner import ChangeScanner
    from harken.capture.files.sources import PLACES, watched_at

    places = [place for place in PLACES if place.runtime == asked.runtime]
    sight = ChangeScanner(watched_at(places, Path.home(), environment()))
    sight.sweep()
    return sight


def _opens(
    home: Home, asked: Invocation, sight: ChangeScanner
) -> Callable[[], AbstractContextManager[CommitSources]]:
    """Return what opens the store, when the recording is ready for it."""
    from harken.capture.live.session_files import mentions_of

    mentions = mentions_of(asked.runtime, current_folder() / asked.folder)

    @contextmanager
    def opens() -> Iterator[CommitSources]:
        from harken.capture.files.follower import FileFollower
        from harken.capture.live.recorder import CommitSources
        from harken.capture.live.session_files import RunFiles
        from harken.capture.live.stream_commits import StreamCommits
        from harken.config.settings import load_settings
        from harken.config.store import open_store
        from harken.core.clock import system_clock
        from harken.formats.runtimes.registry import natives
        from harken.index.catalogue import Catalogue

        home.make()
        natives()  # now, and not when the first tool asks
        settings = load_settings(home)
        store = open_store(home, settings.store, settings.backing, patience_s=_PATIENCE_S)
        try:
            catalogue = Catalogue(home.index_file)
            try:
                trail = RunFiles(FileFollower(store, catalogue), sight, mentions)
                yield CommitSources(store, trail, StreamCommits(store, asked.runtime, system_clock))
            finally:
                catalogue.close()
        finally:
            store.close()

    return opens


@contextmanager
def _event_file(path: Path | None) -> Iterator[Callable[[StreamEvent], None]]:
    """Give what writes events to a file; where it cannot be written, that is an error at once."""
    if path is None:
        yield lambda _: None
        return
    from harken.formats.events import event_dict

    with path.open("a", encoding="utf-8", errors="replace") as file:

        def tell(heard: StreamEvent) -> None:
            with suppress(OSError):
                for event in heard.events:
                    file.write(json.dumps({"agent": heard.agent, **event_dict(event)}) + "\n")
                file.flush()

        yield tell
