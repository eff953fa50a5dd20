"""`harken interactions`: the context of each request, as rows and as a folder of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from harken.cli.command_group import CommandGroup
from harken.cli.commands.view.sources import open_viewer
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home, command_prefix
from harken.config.name_resolver import ImportedName, NameResolver
from harken.config.settings import load_settings
from harken.config.store import open_configured_store
from harken.core.events import Event
from harken.core.ids import USER
from harken.session.fold import Resolver
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.interactions.export.exporter import ExportOptions, ExportSummary
    from harken.interactions.records import ThreadSummary
    from harken.interactions.thread import ThreadRow
    from harken.views.viewer import SessionViewer

_ID, _KIND, _SHOWN = 12, 17, 100


@click.group(name="interactions", cls=CommandGroup)
def command() -> None:
    """Show, export and import the context of each request, as threads of messages."""


@command.command(name="list")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="The maximum number of threads.",
)
@json_option
@home_option
def list_command(home: Home, limit: int, as_json: bool) -> None:
    """List the threads of all recorded and imported sessions, newest first.

    A thread is the part of a session that belongs to one agent: SESSION/AGENT. Threads of imported
    sessions are counted when they are shown.
    """
    from harken.interactions.logger import InteractionLogger

    with InteractionLogger(folder=home.folder) as log:
        threads = [*log.list_threads(limit), *_imported_threads(home)]
    threads = sorted(threads, key=attrgetter("updated_at"), reverse=True)[:limit]
    if as_json:
        print_json(msgspec.to_builtins(threads))
        return
    for thread in threads:
        print_text(_summary_line(thread))
    if not threads:
        click.echo(f"No threads; `{command_prefix('chat')}` starts a session.", err=True)


@command.command(name="show")
@click.argument("thread", type=SESSION)
@click.option(
    "--new",
    "only_new",
    is_flag=True,
    help="Omit messages that are only repeated from earlier requests.",
)
@json_option
@home_option
def show_command(home: Home, thread: str, only_new: bool, as_json: bool) -> None:
    """Show the messages of a THREAD: SESSION/AGENT. A SESSION alone means its first agent.

    Imported sessions have threads, too. With --json, each message is one line.
    """
    from harken.interactions.records import ThreadEventType
    from harken.interactions.thread import thread_rows

    session, agent = NameResolver(home).split_agent(thread)
    viewer = open_viewer(home, session)
    events = [*viewer.events]
    agent_id = _agent(viewer, events, agent or "")
    with _resolver(home, events) as resolver:
        for row in thread_rows(events, agent_id, resolver=resolver):
            if only_new and row.entry.event_type is ThreadEventType.CONTEXT_REPLAYED:
                continue
            if as_json:
                print_json(msgspec.to_builtins(row.entry), indent=None)
            else:
                print_text(_line(row))


@command.command(name="export")
@click.argument("session", type=SESSION)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--shard", is_flag=True, help="Put messages into subfolders by the prefix of their ids."
)
@click.option(
    "--no-redact", is_flag=True, help="Do not redact credentials: write all content unchanged."
)
@json_option
@home_option
def export_command(
    home: Home, session: str, folder: Path, shard: bool, no_redact: bool, as_json: bool
) -> None:
    """Export a SESSION to a FOLDER: messages/*.json, threads/*.jsonl and index.json.

    Other sessions in the folder do not change. Credentials of known formats are redacted. The
    export has the full context of each request, so it is larger than the log.
    """
    from harken.interactions.export.exporter import ExportOptions

    viewer = open_viewer(home, session)
    events = [*viewer.events]
    stem = viewer.path.stem if viewer.path.suffix == ".jsonl" else str(viewer.path)
    with _resolver(home, events) as resolver:
        how = ExportOptions(shard=shard, as_is=no_redact, resolver=resolver)
        summary = export_to(folder, stem, events, how)
    if as_json:
        threads = msgspec.to_builtins(summary.threads)
        print_json({"threads": threads, "credentials": dict(summary.credentials)})
        return
    print_text(format_summary(folder, summary))


def export_to(
    folder: Path, session: str, events: Sequence[Event], how: ExportOptions
) -> ExportSummary:
    """Export a session, and print the detected credentials. Raises ConfigError."""
    from harken.interactions.export.exporter import export_session

    summary = export_session(events, session, folder, how)
    if summary.credentials:
        kinds = ", ".join(f"{kind} ({number})" for kind, number in summary.credentials.items())
        is_there = "not redacted" if how.as_is else "redacted"
        click.echo(f"credentials {is_there}: {kinds}", err=True)
    return summary


def format_summary(folder: Path, summary: ExportSummary) -> str:
    """Return a line about an export."""
    rows = sum(thread.entries for thread in summary.threads)
    counts = f"{format_count(len(summary.threads), 'thread')}, {format_count(rows, 'row')}"
    return f"{folder}: {counts}, {format_count(summary.messages, 'new message')}"


@command.command(name="import")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@home_option
def import_command(home: Home, folder: Path, as_json: bool) -> None:
    """Import a FOLDER written by `harken interactions export`; a log is created for each session.

    Existing sessions do not change. A session whose name exists is imported under a new name.
    """
    from harken.interactions.export.importer import import_folder

    home.create_folders()
    refuses_credentials = load_settings(home).redact == "store"
    sessions = import_folder(folder, home.sessions_folder, refuses_credentials=refuses_credentials)
    if as_json:
        print_json(msgspec.to_builtins(sessions))
        return
    for session in sessions:
        how = "" if session.is_new else ", which existed before"
        print_text(f"session {session.name}, {format_count(session.threads, 'thread')}{how}")
    if sessions:
        way = command_prefix("interactions", "show", sessions[0].name)
        click.echo(f"  {escape_control_characters(way)}", err=True)


def _agent(viewer: SessionViewer, events: Sequence[Event], agent: str) -> str:
    """Return the id of an agent, by it or a name; without either the first one's.

    Raises NameNotFound.
    """
    ids = dict.fromkeys(event.agent_id for event in events if event.agent_id not in (None, USER))
    if not agent and ids:
        return str(next(iter(ids)))
    return agent if agent in ids else viewer.resolve_agent(agent)


@contextmanager
def _resolver(home: Home, events: Sequence[Event]) -> Iterator[Resolver | None]:
    """Yield a resolver for the commits that agents started from. Yield None if no log needs one."""
    from harken.context.materialize import make_resolver as resolver
    from harken.core.events import ContextLoaded

    has_store = load_settings(home).store is not None or home.store_file.exists()
    if not has_store or not any(isinstance(event, ContextLoaded) for event in events):
        yield None
        return
    with open_configured_store(home) as store:
        yield resolver(store)


def _imported_threads(home: Home) -> Iterator[ThreadSummary]:
    """Yield the threads of imported sessions without a log."""
    from harken.config.imported_sessions import list_imported
    from harken.interactions.records import ThreadSummary

    resolver = NameResolver(home)
    for session in list_imported(home):
        if resolver.find_recording(ImportedName(session)) is not None:
            continue
        for agent in dict.fromkeys(tip.agent for tip in session.branch_tips):
            yield ThreadSummary(
                thread_id=f"{session.name}/{agent}",
                session_id=session.name,
                agent_id=agent,
                updated_at=session.last_message_time,
                title=session.title,
                evidence="rebuilt",
            )


def _summary_line(thread: ThreadSummary) -> str:
    """Return a thread for people."""
    name = f"{thread.thread_id} ({thread.name})" if thread.name else thread.thread_id
    sums = [
        format_count(thread.messages, "message"),
        format_count(thread.requests, "request"),
    ]
    counts = sums if thread.started_at else ["imported"]
    facts = ", ".join([*counts, *filter(None, [thread.evidence])])
    updated = thread.updated_at[:16].replace("T", " ")
    return f"{updated}  {one_line(name, _SHOWN)}  {facts}  {one_line(thread.title, 60)}"


def _line(row: ThreadRow) -> str:
    """Return a row for people."""
    entry = row.entry
    position = "" if entry.position_in_context is None else str(entry.position_in_context)
    evidence = f"  ({entry.evidence})" if entry.evidence else ""
    head = f"{entry.timestamp[11:19]}  {entry.event_type.value:<{_KIND}} {position:>5}"
    if row.unit is not None:
        role = row.unit.role.value.lower()
        tool = f" {one_line(row.unit.tool_name, 30)}" if row.unit.tool_name else ""
        text = one_line(row.unit.content, _SHOWN)
        return f"{head}  {row.unit.id[:_ID]}  {role}{tool}: {text}{evidence}"
    memory = entry.memory_operation
    if memory is not None:
        facts = [memory.memory_type.value, memory.file_path, memory.query, memory.content_preview]
        return f"{head}  {one_line(', '.join(filter(None, facts)), _SHOWN)}"
    return f"{head}  {(entry.message_id or '-')[:_ID]}"
