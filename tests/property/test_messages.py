"""Laws of messages, events and canonical bytes, on whatever Hypothesis can think of.

A string may hold lone surrogates, as a tool's output may. Two that form a pair are left out:
JSON cannot tell a pair from the character that it stands for.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.core import events as ev
from harken.core.event_types.message_parser import encode_extra, parse_message
from harken.core.event_types.spec import (
    AgentSpec,
    Budget,
    Copies,
    ForeignAgent,
    HookPoint,
    Limits,
    MadeBy,
    MadeFor,
    PermissionMode,
    SpecChange,
    Standing,
    TemplateOrigin,
)
from harken.core.ids import Origin
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    MessageContent,
    Occurrence,
    Role,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    extend_context_hash,
    join_occurrence,
    message_hash,
    split_occurrence,
)
from harken.errors import StopReason


def _has_no_pair(text: str) -> bool:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") == text


TEXT = st.text(st.characters(), max_size=12).filter(_has_no_pair)
ODD_TEXT = st.text(st.sampled_from('aé\u2028\x00\x1f\x7f"\\😀\ud83d\udc80\uffff'), max_size=6)
STRING = TEXT | ODD_TEXT.filter(_has_no_pair)
INTEGER = st.integers(-(10**40), 10**40)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)


def json_values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRING, inner, max_size=4),
    )


WITHOUT_FLOATS = json_values(st.none() | st.booleans() | INTEGER | STRING)
JSON = json_values(st.none() | st.booleans() | INTEGER | FLOAT | STRING)
META = st.dictionaries(STRING, JSON, max_size=3)
MAYBE_META = st.none() | META
MAYBE = st.none() | STRING

EXTRA = META.map(encode_extra)
PART = (
    st.builds(TextPart, STRING, MAYBE_META, EXTRA)
    | st.builds(ThinkingPart, STRING, MAYBE_META, EXTRA)
    | st.builds(ImagePart, MAYBE, MAYBE, MAYBE, MAYBE_META, EXTRA)
    | st.builds(UnknownPart, STRING, STRING, MAYBE_META, EXTRA)
)
CONTENT: st.SearchStrategy[Content] = st.none() | STRING | st.lists(PART, max_size=4)
ROLE: st.SearchStrategy[Role] = st.sampled_from(get_args(Role))
CALL = st.builds(
    ToolCall,
    STRING,
    st.builds(FunctionCall, STRING, STRING),
    st.sampled_from(["function", "custom"]) | STRING,
    st.just(msgspec.UNSET) | META,
    EXTRA.map(lambda extra: extra or msgspec.UNSET),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message whose places, where it has some, are those of its calls, in order."""
    role = draw(ROLE)
    content = draw(CONTENT)
    calls = draw(st.lists(CALL, max_size=3))
    if isinstance(content, list) and draw(st.booleans()):
        calls = list({call.id: call for call in calls}.values())
        for call, index in zip(calls, sorted(draw(_places(len(calls), len(content)))), strict=True):
            content.insert(index + calls.index(call), ToolCallSlot(call.id))
    return Message(
        role=role,
        content=content,
        tool_calls=calls or None,
        tool_call_id=draw(MAYBE),
        name=draw(MAYBE),
        is_error=draw(st.booleans()) if role == "tool" else False,
    )


def _places(count: int, stop: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, stop), min_size=count, max_size=count)


MESSAGE = messages()
ID = st.from_regex(r"msg_[0-9]{3,5}", fullmatch=True)
IDS = st.lists(ID, max_size=3)
AGENT = st.from_regex(r"agent_[0-9]{3}", fullmatch=True) | st.sampled_from(["user", "agent_root"])
CAUSE = st.none() | ID | IDS | st.just("msg_003.call_abc")
COUNT = st.none() | st.integers(0, 9)
MAYBE_META = st.none() | META
NAMES = st.none() | st.lists(STRING, max_size=2)
LIMITS = st.builds(
    Limits,
    NAMES,
    NAMES,
    NAMES,
    st.none() | st.sampled_from(get_args(PermissionMode)),
    st.none() | st.builds(Budget, COUNT, COUNT, st.none() | st.floats(0, 1e6), COUNT, COUNT),
)
STANDING = st.builds(
    Standing,
    st.none() | st.lists(st.sampled_from(get_args(HookPoint)), max_size=2),
    st.none() | st.sampled_from(get_args(MadeBy)),
)
FOREIGN = st.none() | st.builds(ForeignAgent, STRING, MAYBE, MAYBE)
CHANGE = st.none() | st.builds(SpecChange, limits=LIMITS, standing=STANDING)
SPEC = st.none() | st.builds(
    AgentSpec,
    kind=MAYBE,
    options=MAYBE_META,
    template=st.none() | st.builds(TemplateOrigin, STRING, MAYBE),
    parameters=MAYBE_META,
    keeps=st.none() | st.sampled_from(["notes", "all"]),
    copies=st.none() | st.builds(Copies, st.booleans(), MAYBE),
    original=st.none() | AGENT,
    foreign=FOREIGN,
    made_for=st.none() | st.builds(MadeFor, ID, MAYBE),
    folder=MAYBE,
    task=MAYBE,
    rerun=MAYBE_META,
    limits=LIMITS,
    standing=STANDING,
)
SEGMENT = st.builds(ev.Segment, st.none() | ID, st.none() | ID, COUNT, COUNT, st.none() | IDS)
USAGE = st.builds(ev.Usage, COUNT, COUNT, COUNT, COUNT)
MONEY = st.none() | st.floats(0, 1e6)

MEMBERS: dict[type[ev.EventBase], dict[str, st.SearchStrategy[Any]]] = {
    ev.SessionStarted: {
        "session_id": STRING,
        "schema_version": st.integers(0, 9),
        "origin": st.none() | st.builds(Origin, STRING, ID, STRING),
    },
    ev.SessionEnded: {"reason": MAYBE},
    ev.SessionRepaired: {"source": STRING, "lost": st.lists(META, max_size=2)},
    ev.ContentPurged: {"places": st.integers(0, 9), "by": MAYBE, "why": MAYBE},
    ev.AgentCreated: {
        "cause": CAUSE,
        "name": MAYBE,
        "language_model": MAYBE,
        "relation": st.none() | st.sampled_from(["primary", "subagent", "hook"]),
        "spec": SPEC,
    },
    ev.TranscriptEntry: {
        "substance": st.none() | ID,
        "cause": CAUSE,
        "purpose": st.none() | st.sampled_from(get_args(ev.Purpose)),
        "closed": st.none() | st.sampled_from(get_args(ev.Closed)),
    },
    ev.PieceOfText: {"content": STRING, "cause": CAUSE, "trigger": MAYBE, "seen": JSON},
    ev.AgentConfigured: {
        "name": MAYBE,
        "language_model": MAYBE,
        "parameters": MAYBE_META,
        "spec": CHANGE,
        "foreign": FOREIGN,
        "cause": CAUSE,
    },
    ev.AgentStateSaved: {"state": JSON},
    ev.AgentMoved: {
        "place": st.sampled_from(["primary", "subagent", "hook", "gone"]),
        "parent": st.none() | AGENT,
        "replaces": st.none() | AGENT,
        "replaced_as": st.none() | st.sampled_from(["subagent", "hook"]),
        "spec": CHANGE,
        "replaced_spec": CHANGE,
        "cause": CAUSE,
    },
    ev.InterlocutorsSet: {
        "speakers": st.lists(AGENT, max_size=3),
        "listeners": st.lists(AGENT, max_size=3),
        "cause": CAUSE,
    },
    ev.TranscriptEdited: {
        "segments": st.lists(SEGMENT, max_size=3),
        "summary": st.none() | ID,
        "reason": MAYBE,
        "cause": CAUSE,
    },
    ev.ContextLoaded: {
        "ctx": STRING,
        "count": st.integers(0, 9),
        "context_hash": STRING,
        "stop": st.sampled_from(["compaction", "root"]) | STRING,
        "cause": CAUSE,
    },
    ev.ContextCommitted: {
        "ctx": STRING,
        "parent_ctx": MAYBE,
        "checkpoint": MAYBE,
        "upto": st.none() | ID,
    },
    ev.ToolsDefined: {"tools": st.lists(META, max_size=2), "tools_hash": STRING},
    ev.LlmRequest: {
        "context": st.lists(SEGMENT, max_size=3),
        "count": st.integers(0, 9),
        "context_hash": STRING,
        "model": STRING,
        "parameters": MAYBE_META,
        "wire": MAYBE_META,
        "tools": st.none() | ID,
        "evidence": st.none() | st.sampled_from(get_args(ev.Evidence)),
        "missing": st.none() | st.lists(st.sampled_from(get_args(ev.RequestPart)), unique=True),
    },
    ev.LlmResponse: {
        "request": ID,
        "entry": st.none() | ID,
        "stop_reason": MAYBE,
        "response_id": MAYBE,
        "model": MAYBE,
        "usage": st.none() | USAGE,
        "cost_usd": MONEY,
        "latency_s": MONEY,
        "error": MAYBE,
        "partial": MAYBE,
    },
    ev.TriggerArmed: {"name": STRING, "trigger": META, "cause": ID},
    ev.TriggerDisarmed: {"name": STRING, "cause": CAUSE},
    ev.DiscussionOpened: {
        "speakers": st.lists(AGENT, max_size=2),
        "listeners": st.lists(AGENT, max_size=2),
        "prompt": st.none() | ID,
        "rounds": st.integers(1, 20),
        "until": MAYBE,
        "judge": st.none() | AGENT,
        "moderator": st.none() | AGENT,
        "seed": st.none() | st.integers(0, 2**32),
        "cause": CAUSE,
    },
    ev.DiscussionSpoken: {
        "discussion": ID,
        "speaker": AGENT,
        "by": AGENT,
        "said": ID,
        "heard": MAYBE,
        "stopped": st.none() | st.sampled_from(get_args(StopReason)),
        "ends": st.booleans(),
    },
    ev.DiscussionChosen: {
        "discussion": ID,
        "by": AGENT,
        "said": ID,
        "speaker": st.none() | AGENT,
        "failed": MAYBE,
    },
    ev.DiscussionJudged: {
        "discussion": ID,
        "by": AGENT,
        "said": ID,
        "verdict": st.none() | st.sampled_from(get_args(ev.Judgement)),
        "text": MAYBE,
        "failed": MAYBE,
    },
    ev.AnswerGiven: {"answer": ID},
    ev.TurnStop: {"reason": st.sampled_from(get_args(StopReason)), "piece": ID, "cause": CAUSE},
    ev.HookVerdict: {
        "watched": AGENT,
        "subject": ID | st.just("msg_003.call_abc"),
        "point": st.sampled_from(get_args(HookPoint)),
        "verdict": st.sampled_from(get_args(ev.VerdictKind)),
        "text": MAYBE,
        "said": st.none() | ID,
        "failed": MAYBE,
    },
    ev.ActionStarted: {"call": ID | st.just("msg_003.call_abc")},
    ev.NoteKept: {"text": STRING, "cause": ID | st.just("msg_003.call_abc")},
    ev.HookLeaving: {"cause": ID | st.just("msg_003.call_abc")},
    ev.ActionRewritten: {
        "call": ID | st.just("msg_003.call_abc"),
        "tool": STRING,
        "arguments": STRING,
        "cause": CAUSE,
    },
    ev.MemoryOperation: {
        "memory_type": st.sampled_from(["STM", "LTM"]),
        "operation": st.sampled_from(["READ", "WRITE", "QUERY"]),
        "file_path": MAYBE,
        "query": MAYBE,
        "result_count": COUNT,
        "content_preview": MAYBE,
        "cause": CAUSE,
    },
    ev.ThreadNoted: {
        "entry_type": STRING,
        "whole": st.booleans(),
        "of": st.none() | ID,
        "message": MAYBE,
        "position": COUNT,
        "snapshot": MAYBE_META,
        "operation": MAYBE_META,
        "evidence": st.none() | st.sampled_from(get_args(ev.Evidence)),
    },
}
"""For each kind of event, a strategy for each of its own members; an entry is also a message."""

OWN_NAMES = {name for kind in MEMBERS for name in kind.__struct_encode_fields__} | {"event_type"}
UNKNOWN_NAME = STRING.filter(lambda name: name not in OWN_NAMES)
UNKNOWN_MEMBERS = st.none() | st.dictionaries(UNKNOWN_NAME, JSON, min_size=1, max_size=2)


@st.composite
def events(draw: st.DrawFn) -> ev.Event:
    """Any event of any known type, with or without members that nobody knows."""
    kind = draw(st.sampled_from(list(MEMBERS)))
    members = {name: draw(values) for name, values in MEMBERS[kind].items()}
    if kind is ev.TranscriptEntry:
        message = draw(MESSAGE)
        members |= {name: getattr(message, name) for name in Message.__struct_fields__}
    make: Any = kind
    event: ev.Event = make(
        message_id=draw(ID | STRING),
        time=draw(STRING),
        agent_id=draw(st.none() | AGENT),
        unknown=draw(UNKNOWN_MEMBERS),
        **members,
    )
    return event


def slow_canonical(value: Any) -> bytes:
    """Say again, independently, what canonical bytes are."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return b"".join(
        b"\\u%04x" % ord(letter) if 0xD800 <= ord(letter) <= 0xDFFF else letter.encode()
        for letter in text
    )


@given(MESSAGE)
def test_join_undoes_split(message: Message) -> None:
    assert join_occurrence(*split_occurrence(message)) == message


@given(MESSAGE)
def test_content_and_occurrence_can_be_stored_as_json(message: Message) -> None:
    pure, occurrence = split_occurrence(message)
    content = msgspec.convert(
        canonical.from_json(canonical.to_canonical_bytes(pure)), MessageContent
    )
    decoded = msgspec.convert(canonical.from_json(canonical.to_json_line(occurrence)), Occurrence)
    assert join_occurrence(content, decoded) == message
    assert message_hash(join_occurrence(content, decoded)) == message_hash(message)


@given(MESSAGE)
def test_message_hash_depends_only_on_the_content(message: Message) -> None:
    pure, occurrence = split_occurrence(message)
    ids = [{"id": str(index)} for index, _ in enumerate(occurrence.calls)]
    bare = Occurrence(shape=occurrence.shape, calls=ids)
    assert message_hash(join_occurrence(pure, bare)) == message_hash(message)


@given(MESSAGE)
def test_entry_and_message_have_the_same_content(message: Message) -> None:
    members = {name: getattr(message, name) for name in Message.__struct_fields__}
    entry = ev.TranscriptEntry(**members)
    assert split_occurrence(entry) == split_occurrence(message)
    assert parse_message(msgspec.to_builtins(message)) == message


@given(st.lists(MESSAGE, max_size=4), st.integers(0, 4))
def test_context_hash_continues_from_any_prefix(context: list[Message], stop: int) -> None:
    def hash_on(before: str, messages_: list[Message]) -> str:
        for message in messages_:
            before = extend_context_hash(before, message)
        return before

    assert hash_on(hash_on("", context[:stop]), context[stop:]) == hash_on("", context)


def test_each_event_member_has_a_strategy() -> None:
    elsewhere: dict[type[ev.EventBase], set[str]] = {
        ev.TranscriptEntry: set(Message.__struct_fields__)
    }
    assert set(MEMBERS) == set(ev.EVENT_TYPES.values())
    for kind, members in MEMBERS.items():
        fields = set(kind.__struct_fields__) - set(ev.EventBase.__struct_fields__)
        assert fields == set(members) | elsewhere.get(kind, set())


@given(events())
def test_event_round_trips_as_line(event: ev.Event) -> None:
    line = ev.encode_event(event)
    assert b"\n" not in line
    assert ev.decode_event(line) == event
    assert ev.encode_event(ev.decode_event(line)) == line


@given(events())
def test_event_round_trips_as_dict(event: ev.Event) -> None:
    assert ev.event_from_dict(ev.event_dict(event)) == event
    assert canonical.from_json(ev.encode_event(event)) == ev.event_dict(event)


@given(STRING.filter(lambda name: name not in ev.EVENT_TYPES), st.dictionaries(STRING, JSON))
def test_event_of_unknown_type_round_trips(kind: str, members: dict[str, Any]) -> None:
    line = canonical.to_json_line({**members, "event_type": kind})
    event = ev.decode_event(line)
    assert isinstance(event, ev.UnknownEvent)
    assert ev.encode_event(event) == line


@given(WITHOUT_FLOATS)
def test_canonical_bytes_equal_the_reference_implementation(value: Any) -> None:
    assert canonical.to_canonical_bytes(value) == slow_canonical(value)


@given(JSON)
def test_value_round_trips_as_canonical_bytes(value: Any) -> None:
    decoded = canonical.from_json(canonical.to_canonical_bytes(value))
    assert decoded == value
    assert canonical.to_canonical_bytes(decoded) == canonical.to_canonical_bytes(value)
