"""Events: one fact about one agent at one time, in one session. They are immutable.

Each class is one `event_type`; its fields are the members of the JSON line. Unknown members are
kept in `unknown`, and an event of an unknown type is an `UnknownEvent`: both are written back
unchanged. The format is specified in docs/formats/session-log.md; a field of a class that is
missing there is a bug.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

import msgspec

from harken.core import canonical
from harken.core.event_types.agents import AgentConfigured as AgentConfigured
from harken.core.event_types.agents import AgentCreated as AgentCreated
from harken.core.event_types.agents import AgentMoved as AgentMoved
from harken.core.event_types.agents import AgentStateSaved as AgentStateSaved
from harken.core.event_types.agents import InterlocutorsSet as InterlocutorsSet
from harken.core.event_types.agents import Place as Place
from harken.core.event_types.agents import Relation as Relation
from harken.core.event_types.agents import TriggerArmed as TriggerArmed
from harken.core.event_types.agents import TriggerDisarmed as TriggerDisarmed
from harken.core.event_types.base import Cause as Cause
from harken.core.event_types.base import EventBase as EventBase
from harken.core.event_types.base import Json as Json
from harken.core.event_types.base import Reference as Reference
from harken.core.event_types.discussions import DiscussionChosen as DiscussionChosen
from harken.core.event_types.discussions import DiscussionJudged as DiscussionJudged
from harken.core.event_types.discussions import DiscussionOpened as DiscussionOpened
from harken.core.event_types.discussions import DiscussionSpoken as DiscussionSpoken
from harken.core.event_types.discussions import Judgement as Judgement
from harken.core.event_types.message_parser import drop_unknown_members, fit_content
from harken.core.event_types.spec import (
    AgentSpec,
    ForeignAgent,
    HookPoint,
    SpecChange,
    drop_unknown_from_spec,
)
from harken.core.ids import AgentId, MessageId, Origin
from harken.core.messages import Content, Role, ToolCall
from harken.errors import StopReason

SCHEMA_VERSION = 2

Purpose: TypeAlias = Literal[
    "duty", "question", "again", "comment", "returned", "told", "note", "cut_off", "summary"
]
"""Why Harken wrote a message for an agent: the duty of a hook; a question to a hook; the
request to answer it again; a hook's comment; the reason why an answer was denied; a report of a
user's command; a note of a hook; a note on a canceled answer; the summary of a compaction."""
Closed: TypeAlias = Literal[
    "denied", "refused", "interrupted", "not_run", "half", "moved", "stopped", "lost"
]
"""Why a call has no result of its own: a hook denied it; the user or a permission refused it; it
had begun when the process ended or the turn was given up; it had not begun then; the answer ended
in the middle of the call; another agent took the place of the caller; a hook ended the turn; a
repair of the log closed it."""


VerdictKind: TypeAlias = Literal["ok", "comment", "deny", "rewrite", "stop"]


class Segment(
    msgspec.Struct, omit_defaults=True, frozen=True, gc=False, forbid_unknown_fields=True
):
    """A range of a context, in exactly one of three forms.

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
    """Tokens of one model call. A value is None if the provider did not report it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class SessionStarted(EventBase, tag="session_started", kw_only=True):
    """The first line, `msg_000`."""

    session_id: str
    schema_version: int = 0
    """Always written; 0 if a log lacks it."""
    origin: Origin | None = None
    """None if the session is no branch."""


class SessionEnded(EventBase, tag="session_ended", kw_only=True):
    """The session was closed on purpose. A resumed session continues after it."""

    reason: str | None = None


class SessionRepaired(EventBase, tag="session_repaired", kw_only=True):
    """The log was written by repair, from a damaged or older log."""

    source: str
    lost: list[dict[str, Json]] = []
    """The lines that could not be recovered: `line`, `byte`, `reason`."""


class ContentPurged(EventBase, tag="content_purged", kw_only=True):
    """Text was removed from all earlier lines of this log and replaced with `[purged]`."""

    places: int
    """The number of lines that contained it."""
    by: str | None = None
    why: str | None = None


class TranscriptEntry(EventBase, tag="transcript_entry", kw_only=True):
    """A message that entered an agent's transcript."""

    role: Role
    content: Content = None
    substance: MessageId | None = None
    """The original that this represents; absent if it is itself the original."""
    cause: Cause = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    purpose: Purpose | None = None
    """Set if Harken wrote the message for this reader; only a user message without a purpose asks
    for an answer."""
    closed: Closed | None = None
    """For a result: why the call has no result of its own."""

    @property
    def is_utterance(self) -> bool:
        """Whether this is an assistant message with content and without tool calls."""
        return self.role == "assistant" and bool(self.content) and not self.tool_calls


class PieceOfText(EventBase, tag="piece_of_text", kw_only=True):
    """A text that an agent wrote for other agents, or a trigger event. It is in no transcript."""

    content: str
    cause: Cause = None
    trigger: str | None = None
    """For a trigger event: the name of the agent's trigger. The event is delivered later."""
    seen: Json = None
    """The position up to which the trigger has read; a resumed trigger continues from it."""


class TranscriptEdited(EventBase, tag="transcript_edited", kw_only=True):
    """The agent's context was replaced with these segments."""

    segments: list[Segment]
    summary: MessageId | None = None
    """The entry in the segments that summarizes the omitted messages."""
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
    """The agent's context up to entry `upto` was stored as this commit."""

    ctx: str
    parent_ctx: str | None = None
    checkpoint: str | None = None
    upto: MessageId | None = None


class ToolsDefined(EventBase, tag="tools_defined", kw_only=True):
    """A full list of tool schemas, logged once per session; requests refer to it."""

    tools: list[dict[str, Json]]
    tools_hash: str


Evidence: TypeAlias = Literal["recorded", "partial", "rebuilt"]
"""How a request is known: seen as it was made; reported or confirmed in part by the program that
made it; or derived from a transcript."""
RequestPart: TypeAlias = Literal["messages", "system", "tools", "parameters"]
"""A part of a request that its source may lack: messages that the program added for this request
only, its system prompt, its tools, some or all of its other parameters."""


class LlmRequest(EventBase, tag="llm_request", kw_only=True):
    """A model call was started; `context` describes the messages that were sent."""

    context: list[Segment]
    count: int
    context_hash: str
    model: str
    parameters: dict[str, Json] | None = None
    tools: MessageId | None = None
    wire: dict[str, Json] | None = None
    """For a call of another program: details of the wire format that the context lacks."""
    evidence: Evidence | None = None
    """None if the request was recorded."""
    missing: list[RequestPart] | None = None
    """The parts that are unknown, sorted. None if the log has the complete request."""

    @property
    def known_by(self) -> Evidence:
        """The evidence of the request."""
        return self.evidence or "recorded"


class LlmResponse(EventBase, tag="llm_response", kw_only=True):
    """The end of a model call."""

    request: MessageId
    entry: MessageId | None = None
    """The entry of the answer; absent if nothing usable arrived."""
    stop_reason: str | None = None
    """The provider's stop reason, or `cancelled`, `error`, `interrupted`; `edited` in a branch."""
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    error: str | None = None
    partial: str | None = None
    """The received part of a cancelled or failed answer; see `core.stream.partial_of`."""
    response_id: str | None = None
    """The provider's id of the response."""


class ActionRewritten(EventBase, tag="action_rewritten", kw_only=True):
    """A hook changed a call of this agent; the entry of the model's own call is unchanged."""

    call: Reference
    tool: str
    arguments: str
    cause: Cause = None


class ActionStarted(EventBase, tag="action_started", kw_only=True):
    """A tool that is not idempotent begins to act: a resume does not run the call again."""

    call: Reference


class HookVerdict(EventBase, tag="hook_verdict", kw_only=True):
    """The verdict of a hook (`agent_id`) that counts, after those of its own hooks."""

    watched: AgentId
    """The agent whose message or call was judged."""
    subject: Reference
    point: HookPoint
    verdict: VerdictKind
    """`stop`: the hook ended the turn of the watched agent."""
    text: str | None = None
    """The comment, the reason, or the new text or arguments."""
    said: MessageId | None = None
    """The hook's message with the verdict."""
    failed: str | None = None
    """Why the hook failed: then the verdict is `deny` at a guarded point, and `ok` elsewhere."""


class NoteKept(EventBase, tag="note_kept", kw_only=True):
    """A hook keeps a note. It is added to the hook's context with the next verdict."""

    text: str
    cause: Reference
    """The call."""


class HookLeaving(EventBase, tag="hook_leaving", kw_only=True):
    """A hook ends its watch with its next verdict, which still counts."""

    cause: Reference
    """The call."""


class AnswerGiven(EventBase, tag="answer_given", kw_only=True):
    """All hooks of a guarded agent let its answer through: other agents hear it from now on."""

    answer: MessageId
    """The entry of the answer."""


class TurnStop(EventBase, tag="turn_stopped", kw_only=True):
    """A turn ended without an answer."""

    reason: StopReason
    piece: MessageId
    """The `piece_of_text` that others read in place of the answer."""
    cause: Cause = None
    """The verdict or the move that ended the turn."""


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
    """A row of an interaction thread that does not follow from the other events of the log."""

    entry_type: str
    """`MESSAGE_ADDED`, `CONTEXT_REPLAYED`, ...: see docs/formats/interactions.md."""
    whole: bool = False
    """Whether the agent's full context was assembled, with a row for each position."""
    of: MessageId | None = None
    """The event with the row that this row replaces."""
    message: str | None = None
    """The id of the logged message; empty if none; absent if it is the message at `position`."""
    position: int | None = None
    evidence: Evidence | None = None
    """For a request, as in `LlmRequest`."""
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
    | TriggerArmed
    | TriggerDisarmed
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
    | ActionStarted
    | HookVerdict
    | NoteKept
    | HookLeaving
    | DiscussionOpened
    | DiscussionSpoken
    | DiscussionChosen
    | DiscussionJudged
    | AnswerGiven
    | TurnStop
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
    """Return the event as the dict that its line encodes, without `sum`."""
    if isinstance(event, UnknownEvent):
        return dict(event.data)
    data: dict[str, Json] = msgspec.to_builtins(event)
    unknown = data.pop(_UNKNOWN, None) or {}
    return {**data, **unknown}


def decode_event(body: bytes) -> Event:
    """Decode one event from its JSON object. Unknown members and types are kept.

    Raises ValueError, with the reason, if the bytes are not an event.
    """
    try:
        event: Event = _decoder.decode(body)
        return event
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return event_from_dict(
            canonical.from_json(body)
        )  # Only events with unknown members or types, or with surrogates, get here.


def event_from_dict(data: Json) -> Event:
    """Decode one event from the dict of its line. Raises ValueError as `decode_event`.

    A member with unknown content (a new member of a tool call, a new kind of part) is decoded
    without that content, and kept complete in `unknown`.
    """
    if not isinstance(data, dict) or not isinstance(data.get("event_type"), str):
        raise ValueError("not a JSON object with an event_type")
    kind = EVENT_TYPES.get(data["event_type"])
    if kind is None:
        return _build_unknown_event(data)
    fields = {*kind.__struct_encode_fields__, "event_type"} - {_UNKNOWN}
    known_members = {
        name: _drop_unknown(kind, name, value) for name, value in data.items() if name in fields
    }
    unknown = {name: value for name, value in data.items() if known_members.get(name, ...) != value}
    return cast("Event", msgspec.convert({**known_members, _UNKNOWN: unknown or None}, kind))


def _drop_unknown(kind: type[EventBase], name: str, value: Json) -> Json:
    """Return the value of a member without content that this version does not know."""
    if name in {"content", "tool_calls"}:
        return fit_content(name, value)
    if name in {"context", "segments"} and isinstance(value, list):
        return [drop_unknown_members(Segment, item) for item in value]
    if name in {"spec", "replaced_spec"}:
        return drop_unknown_from_spec(value, AgentSpec if kind is AgentCreated else SpecChange)
    if name == "foreign":
        return drop_unknown_from_spec(value, ForeignAgent)
    structs: dict[str, type[msgspec.Struct]] = {"origin": Origin, "usage": Usage}
    return drop_unknown_members(structs[name], value) if name in structs else value


def _build_unknown_event(data: dict[str, Json]) -> UnknownEvent:
    agent = data.get("agent_id")
    return UnknownEvent(
        message_id=MessageId(str(data.get("message_id", ""))),
        time=str(data.get("time", "")),
        agent_id=AgentId(agent) if isinstance(agent, str) else None,
        event_type=data["event_type"],
        data=data,
    )
