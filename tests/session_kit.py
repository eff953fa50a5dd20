"""What tests of sessions share: a clock, small builders, and disks that count or fail."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harken.core import events as ev
from harken.core.clock import Clock
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.session.file import RealDisk
from harken.session.fold import Resolver, context_now, fold
from harken.session.reader import Reading, events
from harken.session.session import Durability, Session, SessionOptions
from harken.session.state import SessionState

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z

Fault: TypeAlias = Literal["EIO", "ENOSPC", "none", "one", "half", "but one", "late"]
"""What a disk does instead of its work: it raises; or it takes no byte, one, half of them, all but
one; `late`: it does its work, and then raises EIO.
"""
WRITE_FAULTS: tuple[Fault, ...] = ("EIO", "ENOSPC", "none", "one", "half", "but one", "late")
SYNC_FAULTS: tuple[Fault, ...] = ("EIO", "ENOSPC", "late")


def ticking() -> Clock:
    """Return a clock that moves by a second each time that it is asked."""
    seconds = iter(range(10**9))
    return lambda: START_US + next(seconds) * 1_000_000


def options(
    *,
    durability: Durability = "none",
    disk: RealDisk | None = None,
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
    covered, so_far = state.hashed
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
    session.settle()
    result(session, agent, f"call_{number}")
    request = ask(session, agent)
    said = say(session, agent, f"answer {number}")
    answered(session, agent, request, entry=said)
    session.settle()
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
    for event in events(path):
        fold(state, event, resolver)
    return state


def ids(path: Path, reading: Reading | None = None) -> list[str]:
    """Return the message ids of a log, read and verified."""
    return [event.message_id for event in events(path, reading)]


def texts(session: Session, agent: str) -> list[Any]:
    """Return the contents of an agent's context."""
    return [message.content for message in context_now(session.agent(agent))]


@dataclass
class CountingDisk(RealDisk):
    """A disk that remembers what it was asked to do; it syncs nothing."""

    writes: list[bytes] = field(default_factory=list)
    synced: list[int] = field(default_factory=list)
    """For each sync, how many writes there were before it."""
    folders: list[Path] = field(default_factory=list)

    def write(self, fd: int, data: bytes) -> int:
        self.writes.append(data)
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.synced.append(len(self.writes))

    def sync_folder(self, folder: Path) -> None:
        self.folders.append(folder)


@dataclass
class FailingDisk(RealDisk):
    """A disk whose operation number `at` (from 0) fails; it syncs nothing."""

    at: int
    fault: Fault
    done: list[str] = field(default_factory=list)
    """The operations so far."""

    def write(self, fd: int, data: bytes) -> int:
        if not self._is_hit("write"):
            return super().write(fd, data)
        short = {"none": 0, "one": 1, "half": len(data) // 2, "but one": len(data) - 1}
        if self.fault in short:
            return super().write(fd, data[: short[self.fault]])
        if self.fault == "late":
            super().write(fd, data)
        raise self._error()

    def sync(self, fd: int) -> None:
        if self._is_hit("sync"):
            raise self._error()

    def sync_folder(self, folder: Path) -> None:
        if self._is_hit("sync_folder"):
            raise self._error()

    def _is_hit(self, operation: str) -> bool:
        self.done.append(operation)
        return len(self.done) == self.at + 1

    def _error(self) -> OSError:
        number = errno.ENOSPC if self.fault == "ENOSPC" else errno.EIO
        return OSError(number, os.strerror(number))


def faults_of(operations: Sequence[str]) -> Iterator[tuple[int, Fault]]:
    """Yield every operation's number with every fault that it can have."""
    for at, operation in enumerate(operations):
        for fault in WRITE_FAULTS if operation == "write" else SYNC_FAULTS:
            yield at, fault


def members(session: Session, id_: str) -> Mapping[str, Any]:
    """Return the line of an event, as any JSON reader sees it."""
    return next(line for line in lines(session.path) if line["message_id"] == id_)
