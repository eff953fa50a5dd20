"""Export a session to a folder in the format of the specification.

Messages and threads are separate files. The export has a row for each position of each request, and
the session itself is not changed. Several sessions may share one folder; a message that they have
in common is stored once. Text that looks like a credential is redacted unless `as_is` is set; a
redacted message has another id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core.events import AgentConfigured, AgentCreated, Event, Evidence
from harken.core.ids import USER
from harken.core.messages import MessageContent, split_occurrence
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError
from harken.interactions.export.layout import (
    ExportedIndex,
    ExportedThread,
    Layout,
    encode_line,
    thread_file_name,
)
from harken.interactions.records import (
    LoggedMessage,
    ThreadEntry,
    ThreadEventType,
    weakest_evidence,
)
from harken.interactions.thread import ThreadRow, thread_rows
from harken.interactions.unit import MessageUnit, split_content, to_message
from harken.session.fold import Resolver


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an export."""

    shard: bool = False
    """Whether messages are stored in subfolders named after the first digits of their id."""
    as_is: bool = False
    """Whether text that looks like a credential is exported unchanged."""
    estimates: bool = True
    resolver: Resolver | None = None


class ExportSummary(msgspec.Struct):
    """The result of an export."""

    threads: list[ExportedThread] = msgspec.field(default_factory=list)
    messages: int = 0
    """Number of new message files."""
    credentials: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Kind -> number of distinct credentials found. They are exported only if `as_is` is set."""


def export_session(
    events: Sequence[Event], session_id: str, folder: Path, options: ExportOptions | None = None
) -> ExportSummary:
    """Write all threads of a session to a folder; other sessions in it are unchanged.

    `events` are all events of the session, oldest first. Raises ConfigError if the folder cannot be
    written or has another format.
    """
    options = options or ExportOptions()
    writer = _SessionExporter(Layout(folder, options.shard), options)
    writer.layout.create_folders()
    existing = read_index(writer.layout)
    for agent_id, name in _find_agents(events).items():
        rows = thread_rows(
            events,
            agent_id,
            resolver=options.resolver,
            estimates=options.estimates,
            written=writer.redact_unit,
        )
        writer.thread(rows, session_id, agent_id, name)
    other_threads = [
        thread for thread in existing.threads if thread.session_id != writer.plain(session_id)
    ]
    index = ExportedIndex(threads=[*other_threads, *writer.summary.threads])
    text = json.dumps(msgspec.to_builtins(index), indent=1)
    writer.layout.put(writer.layout.index, text.encode() + b"\n")
    writer.summary.credentials = writer.credentials.kinds
    return writer.summary


def read_index(layout: Layout) -> ExportedIndex:
    """Read the index of a folder. A missing one is empty. Raises ConfigError."""
    try:
        data = layout.index.read_bytes()
    except FileNotFoundError:
        return ExportedIndex()
    except OSError as error:
        raise ConfigError(f"{layout.index}: {error.strerror or error}") from None
    try:
        index = msgspec.convert(canonical.from_json(data), ExportedIndex)
    except ValueError as error:
        raise ConfigError(f"{layout.index}: not an index of interactions ({error})") from None
    if index.version > ExportedIndex().version:
        raise ConfigError(f"{layout.index}: has version {index.version}: upgrade Harken")
    return index


class _SessionExporter(msgspec.Struct):
    """Writes the threads of one session to an export folder."""

    layout: Layout
    options: ExportOptions
    summary: ExportSummary = msgspec.field(default_factory=ExportSummary)
    credentials: Credentials = msgspec.field(default_factory=Credentials)
    _units: dict[str, MessageUnit] = msgspec.field(default_factory=dict)
    """Unit id -> unit to export, with credentials redacted."""
    _messages: dict[str, LoggedMessage] = msgspec.field(default_factory=dict)

    def thread(
        self, rows: Iterable[ThreadRow], session_id: str, agent_id: str, name: str | None
    ) -> None:
        """Write a thread and its messages. A thread without rows is not written."""
        session_id, agent_id = self.plain(session_id), self.plain(agent_id)
        file = thread_file_name(session_id, agent_id)
        lines: list[bytes] = []
        first = last = ThreadEntry(event_type=ThreadEventType.LLM_REQUEST)
        requests, model = 0, None
        evidence: set[Evidence | None] = set()
        for row in rows:
            last = self._export_entry(row)
            first = first if lines else last
            lines.append(encode_line(last))
            if last.event_type is ThreadEventType.LLM_REQUEST:
                requests += 1
                evidence.add(last.evidence)
                snapshot = last.context_snapshot
                model = (snapshot and snapshot.model_used) or model
        if not lines:
            return
        for message in self._messages.values():
            self._write_message(message)
        self._messages.clear()
        self.layout.put(self.layout.thread(file), b"".join(lines))
        self.summary.threads.append(
            ExportedThread(
                thread_id=f"{session_id}/{agent_id}",
                session_id=session_id,
                agent_id=agent_id,
                name=self._redact_optional(name),
                file=file,
                started_at=first.timestamp,
                updated_at=last.timestamp,
                entries=len(lines),
                requests=requests,
                model=model,
                evidence=weakest_evidence(evidence),
            )
        )

    def plain(self, text: str) -> str:
        """Redact credentials in a text, unless `as_is` is set."""
        replaced = self.credentials.replace(text)
        return text if self.options.as_is else replaced

    def _redact_optional(self, text: str | None) -> str | None:
        return None if text is None else self.plain(text)

    def _export_entry(self, row: ThreadRow) -> ThreadEntry:
        """Return a row with credentials redacted, and collect its message."""
        entry, unit = row.entry, row.unit
        changed: dict[str, Any] = {}
        if unit is not None and unit.id == entry.message_id:
            message = unit.logged(
                row.first_seen.time or entry.timestamp,
                self._redact_optional(row.first_seen.model),
                tokens=self.options.estimates,
            )
            existing = self._messages.get(unit.id)
            if existing is None or message.timestamp < existing.timestamp:
                self._messages[unit.id] = message
        snapshot = entry.context_snapshot
        if snapshot is not None:
            model = self._redact_optional(snapshot.model_used)
            changed["context_snapshot"] = structs.replace(snapshot, model_used=model)
        if entry.memory_operation is not None:
            operation = entry.memory_operation
            texts: dict[str, Any] = {
                name: self.plain(value)
                for name in ("file_path", "query", "content_preview")
                if (value := getattr(operation, name)) is not None
            }
            changed["memory_operation"] = structs.replace(operation, **texts)
        return structs.replace(entry, **changed) if changed else entry

    def redact_unit(self, unit: MessageUnit) -> MessageUnit:
        """Return a unit with credentials redacted, unless `as_is` is set.

        Its id changes with its text.
        """
        exported = self._units.get(unit.id)
        if exported is None:
            pure = split_occurrence(to_message(unit.logged("")))[0]
            redacted = MessageContent(pure.role, _map_strings(pure.parts, self.plain))
            name = None if unit.tool_name is None else self.plain(unit.tool_name)
            exported = unit if redacted == pure else split_content(redacted, name)[0]
            self._units[unit.id] = exported
        return exported

    def _write_message(self, message: LoggedMessage) -> None:
        """Write a message, unless the folder has it with the same or an earlier time."""
        path = self.layout.message(message.id)
        exists = path.exists()
        if exists and not _is_earlier(message, path):
            return
        self.layout.put(path, encode_line(message))
        self.summary.messages += not exists


def _is_earlier(message: LoggedMessage, path: Path) -> bool:
    try:
        existing = msgspec.convert(canonical.from_json(path.read_bytes()), LoggedMessage)
    except (OSError, ValueError):
        return True
    return message.timestamp < existing.timestamp


def _find_agents(events: Iterable[Event]) -> dict[str, str | None]:
    """Return the agents of a session in the order of their creation, with their names."""
    names: dict[str, str | None] = {}
    for event in events:
        if event.agent_id is None or event.agent_id == USER:
            continue
        names.setdefault(event.agent_id, None)
        if isinstance(event, AgentCreated | AgentConfigured) and event.name is not None:
            names[event.agent_id] = event.name
    return names


def _map_strings(value: Any, replace: Callable[[str], str]) -> Any:
    """Replace all strings of a JSON value, except the values of `type` and `kind`."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_map_strings(item, replace) for item in value]
    if isinstance(value, dict):
        fixed = ("type", "kind") if "type" in value else ()
        return {
            name: member if name in fixed else _map_strings(member, replace)
            for name, member in value.items()
        }
    return value
