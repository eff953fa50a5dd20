"""What tests of sessions share: small builders; clock and disks are those of harken.testing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.errors import InvalidEvent
from harken.session.fold import Resolver, current_messages, fold
from harken.session.log.file import Disk
from harken.session.log.reader import LogReadReport, iter_events
from harken.session.session import Durability, Session, SessionOptions
from harken.session.state import SessionState
from harken.testing import ticking


def options(
    *,
    durability: Durability = "none",
    disk: Disk | None = None,
    resolver: Resolver | None = None,
) -> SessionOptions:
    """Return options with a fixed clock; syncs only where a test is about them."""
    return SessionOptions(durability=durability, clock=ticking(), disk=disk, resolver=resolver)


def new_session(folder: Path, **how: Any) -> Session:
    """Begin a session in `folder`, without agents."""
    return Session(folder / "s.jsonl", options=options(**how))


def again(session: Session) -> Session:
    """Close a session and load it from its log."""
    session.close()
    return Session.load(session.path, options=options(resolver=session.options.resolver))


def born(
    session: Session,
    *,
    cause: ev.Cause = None,
    relation: ev.Relation | None = None,
    **more: Any,
) -> AgentId:
    """Log the birth of a new agent; return its id."""
    agent = session.allocate_agent_id()
    session.log_agent_created(agent, cause, relation=relation, **more)
    return agent


def hear(session: Session, agent: str, text: str = "hello", **more: Any) -> MessageId:
    """Log what a user or another agent said to the agent."""
    return session.log_transcript_entry(agent, {"role": "user", "content": text}, **more)


def say(session: Session, agent: str, text: str = "hi", **more: Any) -> MessageId:
    """Log an utterance of the agent."""
    return session.log_transcript_entry(agent, {"role": "assistant", "content": text}, **more)


def call_dict(id_: str, tool: str = "look", arguments: str = "{}") -> dict[str, Any]:
    """Return one item of `tool_calls`."""
    return {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}


def act(session: Session, agent: str, *ids: str, **more: Any) -> MessageId:
    """Log an assistant message that calls tools, with these call ids."""
    calls = [call_dict(id_, **more) for id_ in ids]
    return session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": calls})


def result(
    session: Session, agent: str, call_id: str, text: str = "done", **more: Any
) -> MessageId:
    """Log the result of a call."""
    message = {"role": "tool", "tool_call_id": call_id, "name": "look", "content": text}
    return session.log_transcript_entry(agent, message, **more)


def hash_of(messages: Sequence[ChatMessage], so_far: str = "") -> str:
    """Return the rolling hash of a context, or of one with this hash and these after it."""
    for message in messages:
        so_far = extend_context_hash(so_far, message)
    return so_far


def ask(session: Session, agent: AgentId, **more: Any) -> MessageId:
    """Log a model call with the agent's context as it is."""
    context, state = session.context(agent), session.agent(agent)
    covered, so_far = state.context_hash_state
    request = ev.LlmRequest(
        agent_id=agent,
        context=state.segments(),
        count=len(context),
        context_hash=hash_of(context[covered:], so_far),
        model="scripted:x",
        **more,
    )
    return session.append(request)


def answered(session: Session, agent: AgentId, request: MessageId, **more: Any) -> MessageId:
    """Log how a model call ended."""
    return session.append(ev.LlmResponse(agent_id=agent, request=request, **more))


def turn(session: Session, agent: AgentId, number: int) -> MessageId:
    """Log a turn as an agent does: heard, asked, called a tool, settled, answered, settled."""
    hear(session, agent, f"turn {number}")
    request = ask(session, agent)
    calling = act(session, agent, f"call_{number}")
    answered(session, agent, request, entry=calling)
    session.sync()
    result(session, agent, f"call_{number}")
    request = ask(session, agent)
    said = say(session, agent, f"answer {number}")
    answered(session, agent, request, entry=said)
    session.sync()
    return said


def edit(session: Session, agent: AgentId, *segments: ev.Segment, **more: Any) -> MessageId:
    """Log that the agent reads these segments from now on."""
    return session.append(ev.TranscriptEdited(agent_id=agent, segments=list(segments), **more))


def kept(start: int, stop: int) -> ev.Segment:
    """Return a range of the context before an edit."""
    return ev.Segment(start=start, stop=stop)


def listed(*ids: MessageId) -> ev.Segment:
    """Return a segment of entries."""
    return ev.Segment(entries=list(ids))


def plain(messages: Sequence[ChatMessage]) -> list[Message]:
    """Return messages without what the log adds, to compare them."""
    return [
        Message(m.role, m.content, m.tool_calls, m.tool_call_id, m.name, m.is_error)
        for m in messages
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log, as any JSON reader sees them."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def folded(path: Path, resolver: Resolver | None = None) -> SessionState:
    """Return what a log amounts to, read afresh."""
    state = SessionState()
    for event in iter_events(path):
        fold(state, event, resolver)
    return state


def ids(path: Path, reading: LogReadReport | None = None) -> list[str]:
    """Return the message ids of a log, read and verified."""
    return [event.message_id for event in iter_events(path, reading)]


def texts(session: Session, agent: str) -> list[Any]:
    """Return the contents of an agent's context."""
    return [message.content for message in current_messages(session.agent(agent))]


def refused(session: Session, event: ev.Event, *, because: str) -> None:
    """Assert that an event is refused, that nothing is left of it, and that others pass."""
    bytes_before, state_before = session.path.read_bytes(), session.state.describe()
    reason = ""
    try:
        session.append(event)
    except InvalidEvent as error:
        reason = str(error)
    assert re.search(because, reason), f"refused because {reason!r}"
    assert session.path.read_bytes() == bytes_before
    assert session.state.describe() == state_before
    hear(session, next(iter(session.agents)), "and so on")


def members(session: Session, id_: str) -> Mapping[str, Any]:
    """Return the line of an event, as any JSON reader sees it."""
    return next(line for line in lines(session.path) if line["message_id"] == id_)


def log_lines(folder: Path, texts: int = 5) -> list[bytes]:
    """Return the lines of a session that is written in a new folder."""
    folder.mkdir()
    session = new_session(folder)
    agent = born(session)
    for n in range(texts):
        hear(session, agent, f"text {n}")
    session.close()
    return session.path.read_bytes().splitlines(keepends=True)
