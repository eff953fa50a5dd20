"""Exporting: a session becomes the folder of the specification, messages apart from threads.

One idea: it is a view, written down. So it costs what the specification's form costs (a row for
each position of each request), and the session stays where it is. Several sessions may go to
one folder: a message that they share is there once. What looks like a credential is redacted,
unless everything shall be as it is; a redacted message is another one, with another id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.events import AgentConfigured, AgentCreated, Event
from harken.core.ids import USER
from harken.core.messages import MessageContent, split_occurrence
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError
from harken.interactions.export.layout import (
    ExportedIndex,
    ExportedThread,
    Layout,
    file_of,
    line_of,
)
from harken.interactions.records import LoggedMessage, ThreadEntry, ThreadEventType
from harken.interactions.thread import ThreadRow, thread_rows
from harken.interactions.unit import MessageUnit, message_of, units_in
from harken.session.fold import Resolver


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a session is exported."""

    shard: bool = False
    """Whether messages stand in folders by the beginning of their id."""
    as_is: bool = False
    """Whether what looks like a credential stays in it."""
    estimates: bool = True
    resolver: Resolver | None = None


@dataclass(slots=True)
class ExportSummary:
    """What was written."""

    threads: list[ExportedThread] = field(default_factory=list)
    messages: int = 0
    """How many files of messages are new."""
    credentials: Mapping[str, int] = field(default_factory=dict)
    """Kind -> how many different ones were found. They are in it only where it is as it was."""


def export_session(
    events: Sequence[Event], session_id: str, folder: Path, how: ExportOptions | None = None
) -> ExportSummary:
    """Write all threads of a session to a folder; what is there of others stays.

    events: all of the session, oldest first. Raises ConfigError for a folder that cannot be
    written, or is none of this form.
    """
    how = how or ExportOptions()
    writer = _Writer(Layout(folder, how.shard), how)
    writer.layout.make()
    before = index_of(writer.layout)
    for agent_id, name in _agents(events).items():
        rows = thread_rows(
            events,
            agent_id,
            resolver=how.resolver,
            estimates=how.estimates,
            written=writer.written,
        )
        writer.thread(rows, session_id, agent_id, name)
    others = [one for one in before.threads if one.session_id != writer.plain(session_id)]
    index = ExportedIndex(threads=[*others, *writer.done.threads])
    text = json.dumps(msgspec.to_builtins(index), indent=1)
    writer.layout.put(writer.layout.index, text.encode() + b"\n")
    writer.done.credentials = writer.credentials.kinds
    return writer.done


def index_of(layout: Layout) -> ExportedIndex:
    """Return the index of a folder; an empty one where there is none. Raises ConfigError."""
    try:
        data = layout.index.read_bytes()
    except FileNotFoundError:
        return ExportedIndex()
    except OSError as error:
        raise ConfigError(f"{layout.index}: {error.strerror or error}") from None
    try:
        found = msgspec.convert(canonical.from_json(data), ExportedIndex)
    except ValueError as error:
        raise ConfigError(f"{layout.index}: is no index of interactions ({error})") from None
    if found.version > ExportedIndex().version:
        raise ConfigError(f"{layout.index}: has version {found.version}: upgrade Harken")
    return found


@dataclass(slots=True)
class _Writer:
    """Writes the threads of one session."""

    layout: Layout
    how: ExportOptions
    done: ExportSummary = field(default_factory=ExportSummary)
    credentials: Credentials = field(default_factory=Credentials)
    _units: dict[str, MessageUnit] = field(default_factory=dict)
    """Unit -> what is written in its place."""
    _said: dict[str, LoggedMessage] = field(default_factory=dict)

    def thread(
        self, rows: Iterable[ThreadRow], session_id: str, agent_id: str, name: str | None
    ) -> None:
        """Write a thread and its messages; one without rows is left out."""
        session_id, agent_id = self.plain(session_id), self.plain(agent_id)
        file = file_of(session_id, agent_id)
        lines: list[bytes] = []
        first = last = ThreadEntry(event_type=ThreadEventType.LLM_REQUEST)
        requests, model = 0, None
        for row in rows:
            last = self._entry(row)
            first = first if lines else last
            lines.append(line_of(last))
            if last.event_type is ThreadEventType.LLM_REQUEST:
                requests += 1
                snapshot = last.context_snapshot
                model = (snapshot and snapshot.model_used) or model
        if not lines:
            return
        for message in self._said.values():
            self._put(message)
        self._said.clear()
        self.layout.put(self.layout.thread(file), b"".join(lines))
        self.done.threads.append(
            ExportedThread(
                thread_id=f"{session_id}/{agent_id}",
                session_id=session_id,
                agent_id=agent_id,
                name=self._plain(name),
                file=file,
                started_at=first.timestamp,
                updated_at=last.timestamp,
                entries=len(lines),
                requests=requests,
                model=model,
            )
        )

    def plain(self, text: str) -> str:
        """Return a text as it is written: without credentials, unless they shall stay."""
        replaced = self.credentials.replace(text)
        return text if self.how.as_is else replaced

    def _plain(self, text: str | None) -> str | None:
        return None if text is None else self.plain(text)

    def _entry(self, row: ThreadRow) -> ThreadEntry:
        """Return a row as it is written, and note its message."""
        entry, unit = row.entry, row.unit
        changed: dict[str, Any] = {}
        if unit is not None and unit.id == entry.message_id:
            said = unit.logged(
                row.said.time or entry.timestamp,
                self._plain(row.said.model),
                tokens=self.how.estimates,
            )
            known = self._said.get(unit.id)
            if known is None or said.timestamp < known.timestamp:
                self._said[unit.id] = said
        snapshot = entry.context_snapshot
        if snapshot is not None:
            model = self._plain(snapshot.model_used)
            changed["context_snapshot"] = msgspec.structs.replace(snapshot, model_used=model)
        if entry.memory_operation is not None:
            told = entry.memory_operation
            texts = {
                name: self.plain(value)
                for name in ("file_path", "query", "content_preview")
                if (value := getattr(told, name)) is not None
            }
            changed["memory_operation"] = msgspec.structs.replace(told, **texts)
        return msgspec.structs.replace(entry, **changed) if changed else entry

    def written(self, unit: MessageUnit) -> MessageUnit:
        """Return a unit without credentials, unless they shall stay: another one, then."""
        found = self._units.get(unit.id)
        if found is None:
            pure = split_occurrence(message_of(unit.logged("")))[0]
            plain = MessageContent(pure.role, _mapped(pure.parts, self.plain))
            name = None if unit.tool_name is None else self.plain(unit.tool_name)
            found = unit if plain == pure else units_in(plain, name)[0]
            self._units[unit.id] = found
        return found

    def _put(self, message: LoggedMessage) -> None:
        """Write a message, unless it is there and was said as early as this one."""
        path = self.layout.message(message.id)
        is_there = path.exists()
        if is_there and not _is_earlier(message, path):
            return
        self.layout.put(path, line_of(message))
        self.done.messages += not is_there


def _is_earlier(message: LoggedMessage, path: Path) -> bool:
    try:
        there = msgspec.convert(canonical.from_json(path.read_bytes()), LoggedMessage)
    except (OSError, ValueError):
        return True
    return message.timestamp < there.timestamp


def _agents(events: Iterable[Event]) -> dict[str, str | None]:
    """Return the agents of a session in the order of their births, and what they are called."""
    found: dict[str, str | None] = {}
    for event in events:
        if event.agent_id is None or event.agent_id == USER:
            continue
        found.setdefault(event.agent_id, None)
        if isinstance(event, AgentCreated | AgentConfigured) and event.name is not None:
            found[event.agent_id] = event.name
    return found


def _mapped(value: Any, replace: Callable[[str], str]) -> Any:
    """Return a JSON value with all its texts replaced, but for what says its kind."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_mapped(one, replace) for one in value]
    if isinstance(value, dict):
        fixed = ("type", "kind") if "type" in value else ()
        return {
            name: inner if name in fixed else _mapped(inner, replace)
            for name, inner in value.items()
        }
    return value
