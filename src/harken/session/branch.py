"""`branch`: a new session that begins with the events of another one, up to a point.

The events are copied byte for byte, with their ids and times; only the first line differs, which
has the id of the new session and its `origin`. A group is never split. A prefix of a log is a log,
so the new session has every agent, hook, note and discussion as they were, and is resumed as any
other. A change of the branch is ordinary events after the copied ones.

The log of a branch gets its name when it is complete and on disk: it is there with its change, or
not at all. The log of the other session is only read, also while it is being written.

Source: docs/formats/session-log.md, "Branches".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical, structs
from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.ids import USER, AgentId, MessageId, Origin, reference_number
from harken.core.messages import replace_content_text, text_of
from harken.errors import (
    ConfigError,
    InvalidLog,
    LogError,
    LogReadOnly,
    LogWriteError,
    NameNotFound,
)
from harken.session.log.checksum import DIGITS_AT, has_more, is_valid_line, read_body, seal
from harken.session.log.compressed import is_packed, log_path
from harken.session.log.credential_check import check_credentials
from harken.session.log.disk import move_durably
from harken.session.log.file import LogFile, is_being_written
from harken.session.log.origin import find_log_of_origin
from harken.session.log.reader import LogReadReport, iter_records, open_log
from harken.session.session import Session, SessionOptions

_BATCH_BYTES = 1 << 20
_MAX_STEM_CHARS = 70

Change: TypeAlias = Callable[[Session], None]
"""Appends events to a branch before it gets its name."""


class Branch(msgspec.Struct, frozen=True):
    """A new session that was branched off another one."""

    path: Path
    origin: Origin


class _Prefix(msgspec.Struct, frozen=True):
    """The part of a log that a branch copies."""

    size_bytes: int
    upto: MessageId
    checksum: str
    next_group: Sequence[ev.Event] = ()
    """The group that follows, which contains the message of the point."""
    changes: tuple[str, ...] = ()
    """The changes of the branch, for people."""


@check_arguments
def branch(
    path: Path,
    to: Path,
    at: str | None = None,
    *,
    before: bool = False,
    change: Change | None = None,
    changes: Sequence[str] = (),
    options: SessionOptions | None = None,
) -> Branch:
    """Create the session `to` with the events of the log `path` up to the group of message `at`.

    Without `at`, with all events; with `before`, up to the group before that of `at`. `change`
    appends events to the new session, opened with `options`; if it raises, there is no new session.
    `changes` describes them to people, in the origin. Triggers stay armed; see `disarm_triggers`.
    Raises NameNotFound for an unknown message, LogReadOnly for a log without checksums,
    CredentialInLog if `options` redact and the log has a credential,
    LogWriteError if `to` exists or cannot be written, and as a reader of the log.
    """
    prefix = structs.replace(_find_prefix(path, at, before=before), changes=tuple(changes))
    return _write_branch(path, to, prefix, change, options or SessionOptions())


@check_arguments
def branch_with_edit(
    path: Path,
    to: Path,
    at: str,
    text: str,
    *,
    change: Change | None = None,
    changes: Sequence[str] = (),
    options: SessionOptions | None = None,
) -> Branch:
    """Create a session as `branch` does, in which the message `at` has another text.

    The copied events end before the group of the message. Then come the events of that group, with
    the new text; thinking, images and calls of the message are kept. An answer of a model ends its
    request with the stop reason `edited`. An answer of the user in a discussion is passed on when
    the branch goes on, and an answer to `ask_user` gets its result. Raises ConfigError if the event
    is no message of a transcript, and as `branch`.
    """
    prefix = structs.replace(
        _find_prefix(path, at, before=True), changes=(f"edited {at}", *changes)
    )
    edited = _edit_group(prefix.next_group, MessageId(at), text)
    result = _find_result(path, edited, MessageId(at))

    def apply(session: Session) -> None:
        if session.next_id() != edited[0].message_id:
            raise ConfigError(f"{at}: ids are missing before this message, so it cannot be edited")
        with session.group():
            for event in edited:
                session.append(event)
            _end_request(session, edited, MessageId(at))
            if result is not None:
                session.append(structs.replace(result, content=text))
        if change is not None:
            change(session)

    return _write_branch(path, to, prefix, apply, options or SessionOptions())


def _find_prefix(path: Path, point: str | None, *, before: bool) -> _Prefix:
    """Read a log up to a point, and verify it. Raises as `branch`."""
    report = LogReadReport()
    prefix, size_bytes = _Prefix(0, MessageId(""), ""), 0
    group: list[ev.Event] = []
    is_found = False
    for event, line in iter_records(path, report):
        if not report.sealed:
            raise LogReadOnly(path, dialect=report.dialect or "without checksums")
        group.append(event)
        size_bytes += len(line)
        is_found = is_found or event.message_id == point
        if has_more(line):
            continue
        if is_found and before:
            break
        prefix = _Prefix(size_bytes, event.message_id, line[DIGITS_AT].decode())
        group.clear()
        if is_found:
            break
    if point is not None and not is_found:
        raise NameNotFound("message", point, [f"msg_000 to {prefix.upto}"])
    if not prefix.size_bytes:
        raise ConfigError(f"{point} is the first event of the session; a branch has at least it")
    return structs.replace(prefix, next_group=tuple(group))


def _write_branch(
    path: Path, to: Path, prefix: _Prefix, change: Change | None, options: SessionOptions
) -> Branch:
    """Write the copied lines and the change to a hidden file, and give it its name."""
    to = to.absolute()
    if log_path(to) != to or to.suffix != ".jsonl":
        raise ConfigError(f"{to}: the name of a session log ends in .jsonl")
    if os.path.lexists(to) or is_packed(to):
        raise LogWriteError(to, reason="branching: the session exists")
    partial = to.with_name(f".{to.name}.{os.getpid()}.partial")
    origin = structs.replace(_find_origin(path, prefix), changes=prefix.changes)
    _remove_stale(to)
    try:
        with closing(LogFile(partial, disk=options.disk, create=True)) as file:
            for batch in _iter_batches(path, prefix, to.stem, origin):
                if options.redact is not None:
                    check_credentials(path, batch)
                file.append(batch)
            file.sync()
        if change is not None:
            with Session(partial, options=options) as session:
                change(session)
        move_durably(partial, to)
    except FileExistsError:
        raise LogWriteError(to, reason="branching: the session exists") from None
    except OSError as error:
        raise LogWriteError(to, reason=f"branching: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return Branch(to, origin)


def _remove_stale(to: Path) -> None:
    """Remove the files that killed processes left when they created a branch of this name."""
    for file in to.parent.glob(f".{to.name}.*.partial"):
        if not is_being_written(file):
            file.unlink(missing_ok=True)


def _find_origin(path: Path, prefix: _Prefix) -> Origin:
    """Return the origin of a branch of a log: the log in which its last event was written first.

    A branch of a branch names the other session only if that log, in the same folder, lacks it.
    """
    start, _ = next(iter_records(path, LogReadReport()))
    assert isinstance(start, ev.SessionStarted)
    earlier = start.origin
    if earlier is not None and reference_number(prefix.upto) <= reference_number(earlier.upto):
        log_of_origin = find_log_of_origin(path, start)
        if log_of_origin is not None:
            with suppress(LogError, NameNotFound):
                return _find_origin(
                    log_of_origin, _find_prefix(log_of_origin, prefix.upto, before=False)
                )
    return Origin(log_path(path).stem, prefix.upto, prefix.checksum)


def _iter_batches(path: Path, prefix: _Prefix, stem: str, origin: Origin) -> Iterator[bytes]:
    """Yield the lines of a branch, sealed anew. The source was verified up to the prefix.

    Raises InvalidLog if it was changed since then.
    """
    checksum, source_checksum, remaining = b"", b"", prefix.size_bytes
    lines: list[bytes] = []
    size_bytes = 0
    with open_log(path) as file:
        while remaining > 0 and (raw := file.readline()):
            remaining -= len(raw)
            source = raw if raw.endswith(b"\n") else raw + b"\n"
            if not is_valid_line(source_checksum, source):
                break
            source_checksum, body = source[DIGITS_AT], read_body(source)
            if not checksum:
                body = _first_body(body, stem, origin)
            line, checksum = seal(checksum, body, more=has_more(source))
            lines.append(line)
            size_bytes += len(line)
            if size_bytes >= _BATCH_BYTES:
                yield b"".join(lines)
                lines, size_bytes = [], 0
    if source_checksum.decode() != prefix.checksum:
        raise InvalidLog(path, "was changed while it was branched; try again")
    yield b"".join(lines)


def _first_body(body: bytes, stem: str, origin: Origin) -> bytes:
    """Return the first event of a branch; members that this version does not know are kept."""
    data = canonical.from_json(body)
    data |= {"session_id": stem, "origin": msgspec.to_builtins(origin)}
    return canonical.to_json_line(data)


def _edit_group(group: Sequence[ev.Event], edited_id: MessageId, text: str) -> list[ev.KnownEvent]:
    """Return the events of a group, in which a message has another text. Raises ConfigError."""
    events: list[ev.KnownEvent] = []
    for event in group:
        if isinstance(event, ev.UnknownEvent):
            raise ConfigError(f"{edited_id}: the type {event.event_type} in its group is unknown")
        if event.message_id == edited_id:
            if not isinstance(event, ev.TranscriptEntry):
                kind = ev.event_type(event)
                raise ConfigError(f"{edited_id} is an event of type {kind}, not a message")
            content = replace_content_text(event.content, text)
            event = structs.replace(event, content=content)
        elif isinstance(event, ev.LlmResponse) and event.entry == edited_id:
            event = _edited_response(event.agent_id, event.request, edited_id)
        events.append(structs.replace(event))
        if event.message_id == edited_id and _is_discussion_answer(group, edited_id):
            break  # the discussion goes on with the answer: its other forms follow from it
    return events


def _is_discussion_answer(group: Sequence[ev.Event], id_: MessageId) -> bool:
    """Whether a message is an answer of the user in a discussion, logged with the step it is."""
    return any(
        isinstance(event, ev.DiscussionSpoken) and event.said == id_ and event.by == USER
        for event in group
    )


def _find_result(
    path: Path, edited: Sequence[ev.KnownEvent], edited_id: MessageId
) -> ev.TranscriptEntry | None:
    """Return the result, without its id, of the call that an edited answer of the user answers.

    Return None if the message is none. Raises ConfigError if the result is not the answer itself.
    """
    entry = edited[-1]
    if not isinstance(entry, ev.TranscriptEntry) or entry.message_id != edited_id:
        return None
    if entry.agent_id != USER or entry.role != "assistant" or entry.cause is None:
        return None
    text = None
    for event, _ in iter_records(path, LogReadReport()):
        if isinstance(event, ev.DiscussionSpoken) and event.said == edited_id:
            return None
        if not isinstance(event, ev.TranscriptEntry):
            continue
        if event.message_id == edited_id:
            text = text_of(event.content)
        elif event.role == "tool" and event.substance == edited_id:
            if text_of(event.content) == text:
                unset: dict[str, Any] = {"message_id": "", "time": None}  # Set when it is logged.
                return structs.replace(event, **unset)
            break
    raise ConfigError(
        f"{edited_id} is the user's answer to a call, not its result: edit the result of the call"
    )


def _edited_response(
    agent_id: AgentId | None, request: MessageId, entry: MessageId
) -> ev.LlmResponse:
    return ev.LlmResponse(agent_id=agent_id, request=request, entry=entry, stop_reason="edited")


def _end_request(session: Session, events: Sequence[ev.KnownEvent], edited_id: MessageId) -> None:
    """End the model call that an edited message answers, if the log ended it in a later group."""
    entry = next(event for event in events if event.message_id == edited_id)
    request = session.state.requests.get(entry.agent_id or AgentId(""))
    if request is not None and isinstance(entry, ev.TranscriptEntry) and entry.role == "assistant":
        session.append(_edited_response(entry.agent_id, request.message_id, edited_id))


def find_free_name(folder: Path, session: str, suffix: str) -> str:
    """Return a name for a session made of another one: `cafe-fork`, `cafe-fork2`, ...

    It is not a prefix of the name of another session in the folder, up to a hyphen.
    """
    stem = re.sub(rf"-{suffix}\d*$", "", session)
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("._")[:_MAX_STEM_CHARS] or "session"
    names = {log_path(file).stem for file in folder.glob("*.jsonl*")}
    for number in count(1):
        name = f"{stem}-{suffix}{number if number > 1 else ''}"
        if not any(existing == name or existing.startswith(f"{name}-") for existing in names):
            return name
    raise AssertionError  # count() does not end


def remove_hooks(session: Session, names: Sequence[str]) -> None:
    """Remove the hooks with these names from all agents. Raises NameNotFound for a name."""
    state = session.state
    hooks = [
        agent
        for agent in state.agents.values()
        if agent.place == "hook" and state.is_live(agent.id)
    ]
    existing = list(dict.fromkeys(hook.name or hook.id for hook in hooks))
    for name in names:
        if name not in existing:
            raise NameNotFound("hook", name, existing)
    with session.group():
        for hook in hooks:
            if (hook.name or hook.id) in names:
                session.append(ev.AgentMoved(agent_id=hook.id, place="gone"))


def change_model(session: Session, model: str, *, previous: str | None = None) -> None:
    """Configure another model for the live agents with the model `previous`.

    By default that is the model of the root agent.
    """
    state = session.state
    if previous is None and state.root is not None:
        previous = state.agents[state.root].language_model
    with session.group():
        for agent in state.agents.values():
            if agent.language_model == previous and state.is_live(agent.id):
                session.append(ev.AgentConfigured(agent_id=agent.id, language_model=model))


def disarm_triggers(session: Session) -> list[str]:
    """Disarm the triggers of all agents. Return their names.

    A branch would else do again what the other session does.
    """
    armed = [(agent.id, name) for agent in session.agents.values() for name in agent.triggers]
    with session.group():
        for agent_id, name in armed:
            session.append(ev.TriggerDisarmed(agent_id=agent_id, name=name))
    return [name for _, name in armed]
