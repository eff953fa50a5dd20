"""Older dialects of logs, which are read but never written.

A dialect converts one line into current events. The dialect of a log is identified by its first
event, or only later: the first lines of an S1 log look like current ones. A dialect remembers the
calls of the log so far, and nothing else, because links refer to calls. Unknown members
are kept in the event's `unknown`, and unknown types become `UnknownEvent`s. No line becomes an
event with both a substance and a cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from harken.core.canonical import from_json
from harken.core.events import AgentCreated, Event, Reference, TranscriptEntry, event_from_dict
from harken.core.ids import USER, reference_message_id
from harken.session.fold import format_call_reference


class Dialect(Protocol):
    """A dialect of logs. It has state, so each log needs a new instance."""

    @property
    def name(self) -> str | None:
        """The dialect's name, as far as the lines so far show, or None for the current dialect."""
        ...

    def read(self, line: bytes) -> Iterable[Event]:
        """Return the events of one line, in order. Raises ValueError if it is not an event."""
        ...


class PlainDialect:
    """Current members or those of S1 (`content_id`, `caused_by`), line by line, without sums.

    S1 omits the author of a piece of text (the agent of the causing call) and the creator of an
    agent (the agent with an open `task` call that names it). A birth without such a call has no
    parent; the first of these is the root.

    Source: the specification's session log, versions 0 and 1.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._calls = _Calls()

    def read(self, line: bytes) -> Iterable[Event]:
        """Return the event of the line."""
        data = _parse_object(line)
        for name in ("more", "sum"):  # Another program has rewritten a current log.
            data.pop(name, None)
        if data.keys() & {"content_id", "caused_by"}:
            self.name = "S1"
        if data["event_type"] in _LINKED:
            _convert_links(data, self._calls)
        if data["event_type"] == "piece_of_text":
            self._convert_piece(data)
        elif data["event_type"] == "agent_created":
            self._convert_birth(data)
        event = event_from_dict(data)
        self._calls.note(event)
        return [event]

    def _convert_piece(self, data: dict[str, Any]) -> None:
        if "agent_id" not in data and data.get("cause"):
            self.name = "S1"
            data["agent_id"] = self._calls.owner(data["cause"])

    def _convert_birth(self, data: dict[str, Any]) -> None:
        if data.get("cause") is None:
            data["cause"] = self._calls.creator_of(_get_text(data, "name"))
            self.name = self.name if data["cause"] is None else "S1"
        if data.get("relation") is None:
            is_root = data["cause"] is None and not self._calls.births
            data["relation"] = "primary" if is_root else "subagent"


class FragmentDialect:
    """The dialect of an early multi-agent chat program: `agent`, `fragment`, `transcript_edit`.

    Message ids are `"0"`, `"1"`, ... and are kept. Agent ids (numbers, later lower-cased names)
    are kept too. The user is the agent `user`, and the cause of events without another cause. A
    result also names the calling entry (`tool_call`), a birth its `parent` and sometimes a `role`;
    these are converted to the current members, and kept if they contradict them.

    The members of a `transcript_edit` could not be found in any public version of the program, so
    it stays an `UnknownEvent`: no member is lost, and the fold ignores it.

    Source: github.com/damonjw/smallchat, session.py and agent.py (their state of late 2025).
    """

    name = "fragment"

    def __init__(self) -> None:
        self._calls = _Calls()

    def read(self, line: bytes) -> Iterable[Event]:
        """Return the event of the line."""
        data = _parse_object(line)
        if "agent" in data and "agent_id" not in data:
            data["agent_id"] = data.pop("agent")
        if data["event_type"] == "fragment":
            data["event_type"] = "piece_of_text"
        if data["event_type"] in _LINKED:
            _remove_user_cause(data)
            _convert_links(data, self._calls)
        if data["event_type"] == "transcript_entry":
            self._convert_entry(data)
        elif data["event_type"] == "agent_created":
            self._convert_birth(data)
        event = event_from_dict(data)
        self._calls.note(event)
        return [event]

    def _convert_entry(self, data: dict[str, Any]) -> None:
        call = self._calls.open.get((_get_text(data, "agent_id"), _get_text(data, "tool_call_id")))
        if call is not None and data.get("tool_call") == reference_message_id(call.reference):
            del data["tool_call"]

    def _convert_birth(self, data: dict[str, Any]) -> None:
        parent = _get_text(data, "parent")
        relation = _RELATIONS.get(_get_text(data, "role"))
        if relation is not None:
            del data["role"]
        data["relation"] = relation or ("primary" if parent in (None, USER) else "subagent")
        if parent != USER and data.get("cause") is None:
            data["cause"] = self._calls.births.get(parent)
        if parent in (USER, self._calls.owner(data.get("cause"))):
            data.pop("parent", None)


def dialect_of(line: bytes) -> Dialect:
    """Return the dialect that a log with this first line is written in."""
    try:
        data = _parse_object(line)
    except ValueError:
        return PlainDialect()  # Its `read` raises the error.
    return FragmentDialect() if "agent" in data and "agent_id" not in data else PlainDialect()


_LINKED = ("transcript_entry", "piece_of_text", "agent_created")
"""The types that have links in the older dialects."""
_RELATIONS: dict[str | None, str] = {"primary": "primary", "child": "subagent", "hook": "hook"}


class _Call(msgspec.Struct):
    """A tool call without a result."""

    tool: str
    arguments: str
    reference: Reference
    has_agent: bool = False
    """Whether a birth was matched with it; a call creates one agent."""


class _Calls:
    """The authors of entries and the open calls so far, as needed to resolve links."""

    def __init__(self) -> None:
        self.open: dict[tuple[str | None, str | None], _Call] = {}
        """By agent and call id, oldest first."""
        self.births: dict[str | None, str] = {}
        """Agent -> the message of its birth."""
        self._owners: dict[str, str | None] = {}
        self._only_call: dict[str, str] = {}
        """Messages that made one call -> its id."""

    def note(self, event: Event) -> None:
        """Remember the event's data that later lines may refer to."""
        if isinstance(event, AgentCreated):
            self.births[event.agent_id] = event.message_id
            self._owners[event.message_id] = event.agent_id
        elif isinstance(event, TranscriptEntry):
            self._owners[event.message_id] = event.agent_id
            if event.role == "tool":
                self.open.pop((event.agent_id, event.tool_call_id), None)
            self._note_calls(event)

    def _note_calls(self, event: TranscriptEntry) -> None:
        calls = event.tool_calls or []
        if len(calls) == 1:
            self._only_call[event.message_id] = calls[0].id
        for call in calls:
            reference = format_call_reference(event, call.id)
            self.open.pop((event.agent_id, call.id), None)  # A reused id moves to the end.
            self.open[event.agent_id, call.id] = _Call(
                call.function.name, call.function.arguments, reference
            )

    def owner(self, cause: Any) -> str | None:
        """Return the agent of a cause (of the first, if it is a list). Return None if unknown."""
        first = cause[0] if isinstance(cause, list) and cause else cause
        return self._owners.get(reference_message_id(first)) if isinstance(first, str) else None

    def canonical(self, reference: Any) -> Any:
        """Return the current form of a reference: `msg_003.c1` only if there are several calls."""
        if not isinstance(reference, str):
            return reference
        message, _, call = reference.partition(".")
        return message if call and self._only_call.get(message) == call else reference

    def creator_of(self, name: str | None) -> Reference | None:
        """Return the latest open `task` call that names a new agent. A call is matched only once.

        This is the only code that parses a tool's arguments: S1 has no other record of the creator.
        """
        for call in reversed(self.open.values()):
            if call.tool == "task" and not call.has_agent and _has_name(call.arguments, name):
                call.has_agent = True
                return call.reference
        return None


def _has_name(arguments: str, name: str | None) -> bool:
    """Whether the arguments of a call, if they are JSON at all, name this agent."""
    try:
        parsed = from_json(arguments.encode(errors="surrogatepass"))
    except ValueError:
        return False
    return name is not None and isinstance(parsed, dict) and parsed.get("name") == name


def _parse_object(line: bytes) -> dict[str, Any]:
    data = from_json(line)
    if not isinstance(data, dict) or not isinstance(data.get("event_type"), str):
        raise ValueError("not a JSON object with an event_type")
    return data


def _get_text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None


def _convert_links(data: dict[str, Any], calls: _Calls) -> None:
    """Give an event its substance or its cause, never both, under their current names."""
    if data.get("substance") is None and data.get("cause") is None:
        original = data.pop("content_id", None)
        if original is not None and original != data.get("message_id"):
            data["substance"] = original
        elif "caused_by" in data:
            data["cause"] = data.pop("caused_by")
    if data.get("substance") is not None:
        data.pop("cause", None)  # whatever has a substance was caused by it
    elif isinstance(data.get("cause"), list):
        data["cause"] = [calls.canonical(reference) for reference in data["cause"]]
    elif "cause" in data:
        data["cause"] = calls.canonical(data["cause"])


def _remove_user_cause(data: dict[str, Any]) -> None:
    """Remove the user from a cause: the user is not a message."""
    cause = data.get("cause")
    if isinstance(cause, list):
        data["cause"] = [reference for reference in cause if reference != USER] or None
    elif cause == USER:
        data["cause"] = None
