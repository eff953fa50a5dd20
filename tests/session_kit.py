"""Helpers for tests of sessions. Clock and disks are those of `harken.testing`."""

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


def session_options(
    *,
    durability: Durability = "none",
    disk: Disk | None = None,
    resolver: Resolver | None = None,
) -> SessionOptions:
    """Return options with a ticking clock and, by default, without syncs."""
    return SessionOptions(durability=durability, clock=ticking(), disk=disk, resolver=resolver)


def new_session(folder: Path, **how: Any) -> Session:
    """Begin a session in `folder`, without agents."""
    return Session(folder / "s.jsonl", options=session_options(**how))


def reload_session(session: Session) -> Session:
    """Close a session and load it from its log."""
    session.close()
    return Session.load(session.path, options=session_options(resolver=session.options.resolver))


def create_agent(
    session: Session,
    *,
    cause: ev.Cause = None,
    relation: ev.Relation | None = None,
    **more: Any,
) -> AgentId:
    """Log the creation of an agent and return its id."""
    agent = session.allocate_agent_id()
    session.log_agent_created(agent, cause, relation=relation, **more)
    return agent


def log_user_message(session: Session, agent: str, text: str = "hello", **more: Any) -> MessageId:
    """Log a user message of an agent."""
    return session.log_transcript_entry(agent, {"role": "user", "content": text}, **more)


def log_answer(session: Session, agent: str, text: str = "hi", **more: Any) -> MessageId:
    """Log an answer of the agent."""
    return session.log_transcript_entry(agent, {"role": "assistant", "content": text}, **more)


def call_dict(id_: str, tool: str = "look", arguments: str = "{}") -> dict[str, Any]:
    """Return one item of `tool_calls`."""
    return {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}


def log_tool_calls(session: Session, agent: str, *ids: str, **more: Any) -> MessageId:
    """Log an assistant message that calls tools, with these call ids."""
    calls = [call_dict(id_, **more) for id_ in ids]
    return session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": calls})


def log_tool_result(
    session: Session, agent: str, call_id: str, text: str = "done", **more: Any
) -> MessageId:
    """Log the result of a call."""
    message = {"role": "tool", "tool_call_id": call_id, "name": "look", "content": text}
    return session.log_transcript_entry(agent, message, **more)


def hash_context(messages: Sequence[ChatMessage], so_far: str = "") -> str:
    """Return the rolling hash of a context that continues one with the hash `so_far`."""
    for message in messages:
        so_far = extend_context_hash(so_far, message)
    return so_far


def log_request(session: Session, agent: AgentId, **more: Any) -> MessageId:
    """Log a model call with the current context of the agent."""
    context, state = session.context(agent), session.agent(agent)
    covered, so_far = state.context_hash_state
    request = ev.LlmRequest(
        agent_id=agent,
        context=state.segments(),
        count=len(context),
        context_hash=hash_context(context[covered:], so_far),
        model="scripted:x",
        **more,
    )
    return session.append(request)


def log_response(session: Session, agent: AgentId, request: MessageId, **more: Any) -> MessageId:
    """Log the end of a model call."""
    return session.append(ev.LlmResponse(agent_id=agent, request=request, **more))


def log_turn(session: Session, agent: AgentId, number: int) -> MessageId:
    """Log a turn with a user message, a tool call and an answer, as an agent does."""
    log_user_message(session, agent, f"turn {number}")
    request = log_request(session, agent)
    calling = log_tool_calls(session, agent, f"call_{number}")
    log_response(session, agent, request, entry=calling)
    session.sync()
    log_tool_result(session, agent, f"call_{number}")
    request = log_request(session, agent)
    answer_id = log_answer(session, agent, f"answer {number}")
    log_response(session, agent, request, entry=answer_id)
    session.sync()
    return answer_id


def log_edit(session: Session, agent: AgentId, *segments: ev.Segment, **more: Any) -> MessageId:
    """Log an edit of the context of an agent to these segments."""
    return session.append(ev.TranscriptEdited(agent_id=agent, segments=list(segments), **more))


def range_segment(start: int, stop: int) -> ev.Segment:
    """Return a range of the context before an edit."""
    return ev.Segment(start=start, stop=stop)


def entry_segment(*ids: MessageId) -> ev.Segment:
    """Return a segment of entries."""
    return ev.Segment(entries=list(ids))


def without_log_fields(messages: Sequence[ChatMessage]) -> list[Message]:
    """Return messages without the members that the log adds."""
    return [
        Message(m.role, m.content, m.tool_calls, m.tool_call_id, m.name, m.is_error)
        for m in messages
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log as JSON objects."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def fold_log(path: Path, resolver: Resolver | None = None) -> SessionState:
    """Return the state that a log folds to."""
    state = SessionState()
    for event in iter_events(path):
        fold(state, event, resolver)
    return state


def read_message_ids(path: Path, reading: LogReadReport | None = None) -> list[str]:
    """Return the message ids of a log."""
    return [event.message_id for event in iter_events(path, reading)]


def context_texts(session: Session, agent: str) -> list[Any]:
    """Return the contents of an agent's context."""
    return [message.content for message in current_messages(session.agent(agent))]


def assert_refused(session: Session, event: ev.Event, *, because: str) -> None:
    """Assert that an event is refused without effects, and that the session continues."""
    bytes_before, state_before = session.path.read_bytes(), session.state.describe()
    reason = ""
    try:
        session.append(event)
    except InvalidEvent as error:
        reason = str(error)
    assert re.search(because, reason), f"refused because {reason!r}"
    assert session.path.read_bytes() == bytes_before
    assert session.state.describe() == state_before
    log_user_message(session, next(iter(session.agents)), "and so on")


def find_line(session: Session, id_: str) -> Mapping[str, Any]:
    """Return the line of an event as a JSON object."""
    return next(line for line in read_lines(session.path) if line["message_id"] == id_)


def write_log_lines(folder: Path, texts: int = 5) -> list[bytes]:
    """Write a session into a new folder and return its lines."""
    folder.mkdir()
    session = new_session(folder)
    agent = create_agent(session)
    for n in range(texts):
        log_user_message(session, agent, f"text {n}")
    session.close()
    return session.path.read_bytes().splitlines(keepends=True)
