"""Events: one fact about one agent at one time, in one session. Never changed, never deleted.

Each class is one `event_type`; its members are the members of the JSON line. A member that a
reader does not know is kept in `unknown`, an event type that it does not know is an
`UnknownEvent`: both are written again as they were. The format is specified in
docs/formats/session-log.md; a member here that is not there is a bug.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from harken.core import canonical
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Content, Role, ToolCall, drop_unknown_content, drop_unknown_members

SCHEMA_VERSION = 1

Json: TypeAlias = Any
Reference: TypeAlias = str
"""A message (`msg_003`), or one of several calls of a message (`msg_003.call_abc`)."""
Cause: TypeAlias = Reference | list[Reference] | None
Relation: TypeAlias = Literal["primary", "subagent", "hook"]
Place: TypeAlias = Literal["primary", "subagent", "hook", "gone"]


class Segment(
    msgspec.Struct, omit_defaults=True, frozen=True, gc=False, forbid_unknown_fields=True
):
    """A stretch of a context: exactly one of three forms.

    `request` + `start` + `stop`: that range of the context of an earlier request;
    `entries`: these entries, in order;
    `loaded` + `start` + `stop`: that range of the messages that a `context_loaded` brought in.
    In a `transcript_edited`, `start` + `stop` alone is a range of the context just before it.
    """

    request: MessageId | None = None
    loaded: MessageId | None = None
    start: int | None = None
    stop: int | None = None
    entries: list[MessageId] | None = None


class Usage(msgspec.Struct, omit_defaults=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """Tokens of one model call; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class EventBase(
    msgspec.Struct,
    tag_field="event_type",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """What every event has. The writer fills in `message_id` and `time`."""

    message_id: MessageId = MessageId("")
    time: str = ""
    """UTC, RFC 3339, microseconds: `2026-01-31T12:00:00.000000Z`."""
    agent_id: AgentId | None = None
    """Whom it is about; session-level events have none."""
    unknown: dict[str, Json] | None = msgspec.field(default=None, name="~unknown")
    """Members that this version does not know, as they were read; written beside the others."""


class SessionStarted(EventBase, tag="session_started", kw_only=True):
    """The first line, `msg_000`."""

    session_id: str
    schema_version: int = 0
    """Always written; 0 where a log does not say."""


class SessionEnded(EventBase, tag="session_ended", kw_only=True):
    """The session was closed on purpose; a resumed one goes on after it."""

    reason: str | None = None


class SessionRepaired(EventBase, tag="session_repaired", kw_only=True):
    """The log was written by repair, from a damaged or older one."""

    source: str
    lost: list[dict[str, Json]] = []
    """What could not be taken over: `line`, `byte`, `reason`."""


class ContentPurged(EventBase, tag="content_purged", kw_only=True):
    """Text was taken out of this log, in all lines before; `[purged]` stands in its place."""

    places: int
    """How many lines had it."""
    by: str | None = None
    why: str | None = None


class AgentCreated(EventBase, tag="agent_created", kw_only=True):
    """A birth. The parent, or for a hook the watched agent, is the agent of the cause."""

    cause: Cause = None
    name: str | None = None
    language_model: str | None = None
    relation: Relation | None = None
    """Always written; a log of an older dialect may lack it."""
    spec: dict[str, Json] | None = None
    """What it is: template, tools, budget; for a dumb agent its registered `kind`."""


class TranscriptEntry(EventBase, tag="transcript_entry", kw_only=True):
    """A message that entered an agent's transcript."""

    role: Role
    content: Content = None
    substance: MessageId | None = None
    """The original that this represents; absent where it is itself the original."""
    cause: Cause = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False

    @property
    def is_utterance(self) -> bool:
        """Whether the agent said something rather than acted."""
        return self.role == "assistant" and bool(self.content) and not self.tool_calls


class PieceOfText(EventBase, tag="piece_of_text", kw_only=True):
    """A text that an agent made for others, or what happened outside; in nobody's transcript."""

    content: str
    cause: Cause = None
    trigger: str | None = None
    """Of what happened outside: which of the agent's triggers says so. The agent hears it later."""
    seen: Json = None
    """How far that trigger has looked; after a resume it goes on from there."""


class AgentConfigured(EventBase, tag="agent_configured", kw_only=True):
    """The agent's name, model or members of its spec changed; what is absent stays."""

    name: str | None = None
    language_model: str | None = None
    spec: dict[str, Json] | None = None
    cause: Cause = None


class AgentStateSaved(EventBase, tag="agent_state_saved", kw_only=True):
    """The whole state of a dumb agent or hook, as it gave it."""

    state: Json = None
    cause: Cause = None
    """What the agent says next has this cause, too: the state counts as soon as that is said."""


class AgentMoved(EventBase, tag="agent_moved", kw_only=True):
    """The agent's place in the tree changed; `gone` takes its whole subtree along."""

    place: Place
    parent: AgentId | None = None
    """The agent below (hook) or above (subagent) which it stands now; absent: as before."""
    replaces: AgentId | None = None
    """The agent directly above or below it whose place it takes, with that one's parent."""
    replaced_as: Literal["subagent", "hook"] | None = None
    """How that one stands to it then: as its newest subagent, or its last hook."""
    spec: dict[str, Json] | None = None
    """Members of its spec that change with the place, such as the budget that goes with it."""
    replaced_spec: dict[str, Json] | None = None
    """The same for the one that it replaces, such as where that is asked as a hook."""
    cause: Cause = None


class InterlocutorsSet(EventBase, tag="interlocutors_set", kw_only=True):
    """Whom the agent's next `discuss` addresses where it names nobody."""

    speakers: list[AgentId] = []
    listeners: list[AgentId] = []
    cause: Cause = None


class TranscriptEdited(EventBase, tag="transcript_edited", kw_only=True):
    """From here on the agent reads these segments instead of its context so far."""

    segments: list[Segment]
    summary: MessageId | None = None
    """The entry among them that sums up what was left out."""
    reason: str | None = None
    cause: Cause = None


class ContextLoaded(EventBase, tag="context_loaded", kw_only=True):
    """The agent starts from a commit: `count` messages with this rolling hash."""

    ctx: str
    count: int
    context_hash: str
    stop: str = "compaction"
    cause: Cause = None


class ContextCommitted(EventBase, tag="context_committed", kw_only=True):
    """The agent's understanding up to entry `upto` is in the store as this commit."""

    ctx: str
    parent_ctx: str | None = None
    checkpoint: str | None = None
    upto: MessageId | None = None


class ToolsDefined(EventBase, tag="tools_defined", kw_only=True):
    """A list of tool schemas, in full, once a session; requests name it."""

    tools: list[dict[str, Json]]
    tools_hash: str


class LlmRequest(EventBase, tag="llm_request", kw_only=True):
    """A model call begins; `context` says which messages it saw."""

    context: list[Segment]
    count: int
    context_hash: str
    model: str
    parameters: dict[str, Json] | None = None
    tools: MessageId | None = None
    wire: dict[str, Json] | None = None
    """Of a call that another program made: how it was written, where the context does not say."""


class LlmResponse(EventBase, tag="llm_response", kw_only=True):
    """How a model call ended."""

    request: MessageId
    entry: MessageId | None = None
    """What it answered; absent where nothing usable arrived."""
    stop_reason: str | None = None
    """The provider's, or `cancelled`, `error`, `interrupted`."""
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    error: str | None = None
    partial: str | None = None
    """What had arrived of a cancelled or failed answer and is in no entry; see `core.partial`."""


class ActionRewritten(EventBase, tag="action_rewritten", kw_only=True):
    """A hook changed a call of this agent; the model's own call stays as it was."""

    call: Reference
    tool: str
    arguments: str
    cause: Cause = None


class MemoryOperation(EventBase, tag="memory_operation", kw_only=True):
    """The agent used its memory."""

    memory_type: Literal["STM", "LTM"]
    operation: Literal["READ", "WRITE", "QUERY"]
    file_path: str | None = None
    query: str | None = None
    result_count: int | None = None
    content_preview: str | None = None
    cause: Cause = None


class ThreadNoted(EventBase, tag="thread_noted", kw_only=True):
    """A row of an interaction thread that the rest of the log does not say, or says otherwise."""

    entry_type: str
    """`MESSAGE_ADDED`, `CONTEXT_REPLAYED`, ...: see docs/formats/interactions.md."""
    whole: bool = False
    """The agent's whole context was assembled: a row for each position of it."""
    of: MessageId | None = None
    """The event whose own row this one replaces."""
    message: str | None = None
    """The id of the logged message; empty: none; absent: that of the one at `position`."""
    position: int | None = None
    snapshot: dict[str, Json] | None = None
    operation: dict[str, Json] | None = None


class UnknownEvent(msgspec.Struct, kw_only=True, frozen=True):
    """An event of a type that this version does not know: its members as they were read."""

    message_id: MessageId
    time: str
    agent_id: AgentId | None
    event_type: str
    data: dict[str, Json]


KnownEvent: TypeAlias = (
    SessionStarted
    | SessionEnded
    | SessionRepaired
    | ContentPurged
    | AgentCreated
    | TranscriptEntry
    | PieceOfText
    | AgentConfigured
    | AgentStateSaved
    | AgentMoved
    | InterlocutorsSet
    | TranscriptEdited
    | ContextLoaded
    | ContextCommitted
    | ToolsDefined
    | LlmRequest
    | LlmResponse
    | ActionRewritten
    | MemoryOperation
    | ThreadNoted
)
Event: TypeAlias = KnownEvent | UnknownEvent

EVENT_TYPES: dict[str, type[EventBase]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(KnownEvent)
}
_decoder = msgspec.json.Decoder(KnownEvent)
_UNKNOWN = "~unknown"


def event_type(event: Event) -> str:
    """Return the `event_type` under which an event is written.

    >>> event_type(SessionEnded())
    'session_ended'
    """
    if isinstance(event, UnknownEvent):
        return event.event_type
    return str(event.__struct_config__.tag)


def encode_event(event: Event) -> bytes:
    """Return the event as one JSON object on one line, without `sum`."""
    if isinstance(event, UnknownEvent):
        return canonical.to_json_line(event.data)
    if event.unknown:
        return canonical.to_json_line(event_dict(event))
    return canonical.to_json_line(event)


def event_dict(event: Event) -> dict[str, Json]:
    """Return the event as the dict that its line holds, without `sum`."""
    if isinstance(event, UnknownEvent):
        return dict(event.data)
    data: dict[str, Json] = msgspec.to_builtins(event)
    unknown = data.pop(_UNKNOWN, None) or {}
    return {**data, **unknown}


def decode_event(body: bytes) -> Event:
    """Read one event from its JSON object. Unknown members and types are kept.

    Raises ValueError, with the reason, where the bytes are no event.
    """
    try:
        event: Event = _decoder.decode(body)
        return event
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return event_from_dict(
            canonical.from_json(body)
        )  # rare: unknown members or types, surrogates


def event_from_dict(data: Json) -> Event:
    """Read one event from the dict that its line holds. Raises ValueError as `decode_event`.

    A member with something inside that this version does not know (a new member of a tool call,
    a new kind of part) is read as far as it is known, and kept whole in `unknown`.
    """
    if not isinstance(data, dict) or not isinstance(data.get("event_type"), str):
        raise ValueError("not a JSON object with an event_type")
    kind = EVENT_TYPES.get(data["event_type"])
    if kind is None:
        return _unknown_event(data)
    fields = {*kind.__struct_encode_fields__, "event_type"} - {_UNKNOWN}
    known = {name: _pruned(name, value) for name, value in data.items() if name in fields}
    unknown = {name: value for name, value in data.items() if known.get(name, ...) != value}
    return cast("Event", msgspec.convert({**known, _UNKNOWN: unknown or None}, kind))


def _pruned(name: str, value: Json) -> Json:
    """Return a member as far as it is known inside."""
    if name in {"content", "tool_calls"}:
        return drop_unknown_content(name, value)
    if name in {"context", "segments"} and isinstance(value, list):
        return [drop_unknown_members(Segment, item) for item in value]
    return drop_unknown_members(Usage, value) if name == "usage" else value


def _unknown_event(data: dict[str, Json]) -> UnknownEvent:
    agent = data.get("agent_id")
    return UnknownEvent(
        message_id=MessageId(str(data.get("message_id", ""))),
        time=str(data.get("time", "")),
        agent_id=AgentId(agent) if isinstance(agent, str) else None,
        event_type=data["event_type"],
        data=data,
    )
