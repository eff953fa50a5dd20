"""Repair: copy the valid events of a damaged or older log to a new current log.

The source is never changed. Valid events are copied unchanged with their ids, times and unknown
members; events of an older dialect are converted. Invalid lines are copied verbatim to a sidecar
file, and the new log's last event lists them. The new log can be continued (see `repair_events`).

If events were lost, or an older program wrote two results for a call, an agent's context may
contain calls without a result and results without a call, which providers reject, and its segments
may count missing messages. The log keeps every entry; an edit at its end selects the entries
of the agent's new context, each call followed by its result. Several results of a call become one
new result with the text of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count, groupby, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import format_rfc3339
from harken.core.events import KnownEvent, Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId, message_id, parse_id_number, reference_message_id
from harken.core.messages import ChatMessage, Content, ContentPart, Message, TextPart, ToolCall
from harken.errors import ConfigError
from harken.session.fold import context_length, current_messages, fold
from harken.session.log.checksum import seal
from harken.session.log.file import Disk, LogFile
from harken.session.session import SessionOptions
from harken.session.state import AgentState, SessionState
from harken.session.verify import LogExamination, LogFinding, LogLine, SealedLine, examine, verify

NO_RESULT = "Error: there is no result of this call in the log, which was repaired."


class _MessageGroup(msgspec.Struct):
    """A message and the results of its calls, in the order of the log."""

    head: ChatMessage
    calls: dict[str, ToolCall] = msgspec.field(default_factory=dict)
    results: dict[str, list[ChatMessage]] = msgspec.field(default_factory=dict)
    """The results of each call; an older log may contain several."""


def iter_repair_events(state: SessionState, ids: Iterator[MessageId]) -> Iterator[KnownEvent]:
    """Yield the events, with their ids, that make every agent's context valid for a model.

    There are none for an intact log. The calls of an agent's last message may be open.
    """
    for agent in state.agents.values():
        context = current_messages(agent)
        groups = _group_results(context)
        results = [
            *_iter_placeholder_results(agent, groups[:-1], ids),
            *_iter_joined_results(agent, groups, ids),
        ]
        messages = [*_iter_messages(groups)]
        is_same = len(messages) == len(context) and all(map(_is_same_object, messages, context))
        if not is_same or len(context) != context_length(agent):
            yield from results
            segments = list(_iter_segments(messages, context))
            yield TranscriptEdited(
                message_id=next(ids), agent_id=agent.id, segments=segments, reason="repaired"
            )


def _is_same_object(left: ChatMessage, right: ChatMessage) -> bool:
    return left is right


def _group_results(context: Sequence[ChatMessage]) -> list[_MessageGroup]:
    """Group results with their calls. Drop results without a call."""
    groups: list[_MessageGroup] = []
    for message in context:
        if message.role != "tool":
            calls = {call.id: call for call in message.tool_calls or ()}
            groups.append(_MessageGroup(message, calls))
            continue
        call_id = message.tool_call_id or ""
        callers = [group for group in reversed(groups) if call_id in group.calls]
        open_callers = (group for group in callers if call_id not in group.results)
        caller = next(open_callers, callers[0] if callers else None)
        if caller is not None:
            caller.results.setdefault(call_id, []).append(message)
    return groups


def _iter_messages(groups: Iterable[_MessageGroup]) -> Iterator[ChatMessage]:
    for group in groups:
        yield group.head
        for results in group.results.values():
            yield from results


def _iter_placeholder_results(
    agent: AgentState, groups: Iterable[_MessageGroup], ids: Iterator[MessageId]
) -> Iterator[TranscriptEntry]:
    """Add a placeholder result to each call without a result. Yield the placeholders."""
    for group in groups:
        for call in group.calls.values():
            if call.id not in group.results:
                entry = TranscriptEntry(
                    message_id=next(ids),
                    agent_id=agent.id,
                    role="tool",
                    content=NO_RESULT,
                    tool_call_id=call.id,
                    name=call.function.name,
                    is_error=True,
                    closed="lost",
                )
                group.results[call.id] = [entry]
                yield entry


def _iter_joined_results(
    agent: AgentState, groups: Iterable[_MessageGroup], ids: Iterator[MessageId]
) -> Iterator[TranscriptEntry]:
    """Replace the results of each call that has several by one result. Yield the new results."""
    for group in groups:
        for call_id, results in group.results.items():
            if len(results) > 1:
                sources = [r.message_id for r in results if isinstance(r, TranscriptEntry)]
                entry = TranscriptEntry(
                    message_id=next(ids),
                    agent_id=agent.id,
                    role="tool",
                    content=_join_contents(results),
                    tool_call_id=call_id,
                    name=group.calls[call_id].function.name,
                    is_error=all(result.is_error for result in results),
                    cause=[*sources] or None,
                )
                group.results[call_id] = [entry]
                yield entry


def _join_contents(results: Iterable[ChatMessage]) -> Content:
    """Return the content of all results, in their order. Equal contents are kept once."""
    contents: list[Content] = []
    for result in results:
        if result.content not in contents:
            contents.append(result.content)
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "\n\n".join(texts)
    parts: list[ContentPart] = []
    for content in contents:
        parts += [TextPart(content)] if isinstance(content, str) else content or []
    return parts


def _iter_segments(
    messages: Sequence[ChatMessage], context: Sequence[ChatMessage]
) -> Iterator[Segment]:
    """Describe a context: entries by id, messages of a commit by position in the old context."""
    places = {id(message): place for place, message in enumerate(context)}
    for is_entry, group in groupby(messages, lambda message: isinstance(message, TranscriptEntry)):
        group_messages = list(group)
        if is_entry:
            entries = [m.message_id for m in group_messages if isinstance(m, TranscriptEntry)]
            yield Segment(entries=entries)
        else:  # Messages of commits keep their order, without gaps.
            start = places[id(group_messages[0])]
            yield Segment(start=start, stop=start + len(group_messages))


__all__ = ["LogFinding", "RepairResult", "repair", "verify"]

_CHUNK_BYTES = 1 << 20


class RepairResult(msgspec.Struct, frozen=True):
    """The result of a repair: the number of copied events, and the lost lines."""

    path: Path
    kept_events: int
    """The number of source events in the new log."""
    lost: list[LogFinding]
    """The findings on lines that are not in the new log, in source order."""
    lost_file: Path | None
    """The file with the lost lines, verbatim; None if none are lost."""
    dialect: str | None
    """The older dialect of the source; None for the current one."""


class _Item(msgspec.Struct, frozen=True):
    """An event for the new log: its JSON object, and its source line."""

    event: ev.Event
    body: bytes
    line: LogLine | None = None


def repair(
    path: str | Path, out: str | Path, *, options: SessionOptions | None = None
) -> RepairResult:
    """Write the valid events of the log at `path` to the new log `out`, durably.

    The new log is readable by its owner only. A log that is being written is read up to its current
    end. Raises LogNotFound, InvalidLog, LogVersionUnsupported; ConfigError if `out` or the file for
    lost lines exists; and LogWriteError, which leaves incomplete files.
    """
    path, out = Path(path), Path(out)
    options = options or SessionOptions()
    examined = examine(path)
    state = SessionState()
    items = list(_iter_foldable(state, _to_current_items(examined, session_id=path.stem)))
    lines = [line for line in examined.lines if _is_lost(line)]
    lost = [line.finding for line in lines if line.finding is not None]
    lost_file = out.with_name(f"{out.name}.lost") if lines else None
    _check_absent(out, lost_file)
    if lost_file is not None:
        _write(lost_file, (_with_newline(line.raw) for line in lines), options.disk)
    bodies = [
        (item.body, _is_continued(item, after)) for item, after in zip_longest(items, items[1:])
    ]
    ids = map(message_id, count(state.next_message + len(lines)))  # Ids of lost events stay unused.
    for event in (
        *iter_repair_events(state, ids),
        _build_repaired_event(path.name, lost, next(ids)),
    ):
        event.time = format_rfc3339(options.clock())
        bodies.append((ev.encode_event(event), False))
    _write(out, _iter_sealed_chunks(bodies), options.disk)
    kept = sum(item.line is not None for item in items)
    return RepairResult(out, kept, lost, lost_file, examined.dialect)


def _check_absent(*files: Path | None) -> None:
    for file in files:
        if file is not None and (file.exists() or file.is_symlink()):
            raise ConfigError(f"{file} exists; choose another name for the repaired log")


def _is_lost(line: LogLine) -> bool:
    """Whether neither the line nor an equal line is in the new log."""
    return not line.is_whole and (line.finding is None or line.finding.kind != "doubled")


def _with_newline(raw: bytes) -> bytes:
    return raw if raw.endswith(b"\n") else raw + b"\n"


def _to_current_items(examined: LogExamination, *, session_id: str) -> list[_Item]:
    """Return the valid events as those of a current log, which begins with `session_started`."""
    lines = [line for line in examined.lines if line.is_whole]
    if not examined.in_order:
        lines.sort(key=lambda line: line.id_number)
    items = [
        _Item(event, _event_body(line, event), line) for line in lines for event in line.events
    ]
    if items and isinstance(items[0].event, ev.SessionStarted):
        return _with_current_ids(items, first=0)
    start = ev.SessionStarted(
        session_id=session_id,
        schema_version=ev.SCHEMA_VERSION,
        message_id=message_id(0),
        time=items[0].event.time if items else "",
    )
    return [_Item(start, ev.encode_event(start)), *_with_current_ids(items, first=1)]


def _event_body(line: LogLine, event: ev.Event) -> bytes:
    return line.body if isinstance(line, SealedLine) else ev.encode_event(event)


def _with_current_ids(items: Sequence[_Item], *, first: int) -> list[_Item]:
    """Return the events unchanged if their ids are current and increasing, else renumbered."""
    min_number = first
    for item in items:
        number = parse_id_number(item.event.message_id, "msg_")
        if number is None or number < min_number or item.event.message_id != message_id(number):
            return _renumber(items, first)
        min_number = number + 1
    return list(items)


def _renumber(items: Sequence[_Item], first: int) -> list[_Item]:
    """Assign current ids to the events, and update references to them."""
    ids: dict[str, MessageId] = {}
    result = []
    for number, item in enumerate(items, first):
        ids[item.event.message_id] = message_id(number)
        data = _replace_ids(ev.event_dict(item.event), ids)
        result.append(_Item(ev.event_from_dict(data), canonical.to_json_line(data), item.line))
    return result


def _replace_ids(data: Mapping[str, Any], ids: Mapping[str, MessageId]) -> dict[str, Any]:
    """Return an event's members with new ids. References to unknown events are unchanged."""
    new = dict(data)
    for name in _IDS if data["event_type"] in ev.EVENT_TYPES else _IDS_OF_ANY:
        if isinstance(data.get(name), str):
            new[name] = ids.get(data[name], data[name])
    for name in ("cause", "call"):
        if isinstance(data.get(name), str):
            new[name] = _replace_reference(data[name], ids)
        elif isinstance(data.get(name), list):
            new[name] = [_replace_reference(reference, ids) for reference in data[name]]
    for name in ("segments", "context"):
        if isinstance(data.get(name), list):
            new[name] = [_replace_segment_ids(segment, ids) for segment in data[name]]
    return new


def _replace_reference(reference: Any, ids: Mapping[str, MessageId]) -> Any:
    if not isinstance(reference, str):
        return reference
    base = reference_message_id(reference)
    return ids.get(base, base) + reference[len(base) :]


def _replace_segment_ids(segment: Any, ids: Mapping[str, MessageId]) -> Any:
    if not isinstance(segment, dict):
        return segment
    new = dict(segment)
    for name in ("request", "loaded"):
        if name in segment:
            new[name] = ids.get(segment[name], segment[name])
    if "entries" in segment:
        new["entries"] = [ids.get(entry, entry) for entry in segment["entries"]]
    return new


def _iter_foldable(state: SessionState, items: Iterable[_Item]) -> Iterator[_Item]:
    """Fold the events. Yield those that can be folded, and mark the lines of others as lost."""
    for item in items:
        try:
            fold(state, item.event, _placeholders)
        except ValueError as error:
            assert item.line is not None
            item.line.is_whole = False
            item.line.add_finding("missing", f"its reference is missing: {error}")
        else:
            yield item


def _placeholders(event: ev.ContextLoaded) -> Sequence[ChatMessage]:
    """Return placeholders for the messages of a commit: only their number matters."""
    return [Message("user", "") for _ in range(event.count)]


def _build_repaired_event(source: str, lost: Iterable[LogFinding], id_: MessageId) -> ev.KnownEvent:
    reasons = [{"line": f.line, "byte": f.byte, "reason": f.message} for f in lost]
    return ev.SessionRepaired(message_id=id_, source=source, lost=reasons)


def _is_continued(item: _Item, after: _Item | None) -> bool:
    """Whether the event and the next one were in one group, with no lost line between them."""
    line, next_line = item.line, after.line if after is not None else None
    is_next = line is not None and next_line is not None and next_line.number == line.number + 1
    return is_next and isinstance(line, SealedLine) and line.has_more


def _iter_sealed_chunks(bodies: Iterable[tuple[bytes, bool]]) -> Iterator[bytes]:
    """Yield the sealed lines of these events, in chunks. Each comes with its `more`."""
    before, lines, size = b"", [], 0
    for body, more in bodies:
        line, before = seal(before, body, more=more)
        lines.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)


def _write(path: Path, pieces: Iterable[bytes], disk: Disk | None) -> None:
    """Write a new file durably. Raises LogWriteError."""
    with closing(LogFile(path, disk=disk, create=True)) as file:
        for piece in pieces:
            file.append(piece)
        file.sync()
        file.sync_name()


_IDS_OF_ANY = ("message_id", "substance", "tool_call")
_IDS = (*_IDS_OF_ANY, "summary", "upto", "tools", "request", "entry")
"""The members that refer to one message; `tool_call` is left over from the fragment dialect."""
