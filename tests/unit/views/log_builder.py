"""A builder that writes a log through the real Session with a fixed clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harken.core import events as ev
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId, MessageId
from harken.core.messages import extend_context_hash
from harken.errors import StopReason
from harken.session.fold import Resolver
from harken.session.session import Session, SessionOptions
from harken.views.viewer import SessionViewer

NOON_US = 1_769_860_800_000_000
_VERDICTS: dict[str, ev.VerdictKind] = {
    "OK": "ok",
    "COMMENT": "comment",
    "DENY": "deny",
    "REWRITE": "rewrite",
    "STOP": "stop",
}


class LogBuilder:
    """Each method logs the event in its name and returns the id of the event."""

    def __init__(self, folder: Path, resolver: Resolver | None = None) -> None:
        seconds = count()
        options = SessionOptions(
            durability="none", clock=lambda: NOON_US + next(seconds) * 1_000_000, resolver=resolver
        )
        self.session = Session(folder / "play.jsonl", options=options)
        self.root = self.create_agent("Root")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.close()

    def viewer(self) -> SessionViewer:
        return SessionViewer(self.session.path)

    def create_agent(
        self, name: str | None, by: str | None = None, relation: ev.Relation | None = None
    ) -> AgentId:
        agent = self.session.allocate_agent_id()
        cause = None if by is None else self.calls(by, ("task", '{"not": "read"}'))
        self.session.log_agent_created(agent, cause=cause, name=name, relation=relation)
        if by is not None and cause is not None:
            self.result(by, cause, f"Created: {name}")
        return agent

    def calls(self, agent: str, *calls: tuple[str, str], text: str | None = None) -> MessageId:
        """Log an assistant entry that calls tools; a call's id is `<tool>_<message>_<n>`."""
        event_id = self.session.next_id()
        tool_calls = [
            {"id": f"{tool}_{event_id}_{n}", "function": {"name": tool, "arguments": arguments}}
            for n, (tool, arguments) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text, "tool_calls": tool_calls}
        return self.session.log_transcript_entry(agent, message)

    def result(self, agent: str, call: str, text: str, n: int = 0, **links: Any) -> MessageId:
        """Log the result of the nth call of a message."""
        calls = self.session.agent(agent).open_calls.values()
        mine = [c for c in calls if c.reference.partition(".")[0] == call]
        message = {
            "role": "tool",
            "content": text,
            "tool_call_id": mine[n].id,
            "name": mine[n].name,
        }
        return self.session.log_transcript_entry(agent, message, **links)

    def says(self, agent: str, content: Any) -> MessageId:
        message = {"role": "assistant", "content": content}
        return self.session.log_transcript_entry(agent, message)

    def hears(
        self, agent: str, content: Any, substance: str | None = None, **links: Any
    ) -> MessageId:
        message = {"role": "user", "content": content}
        return self.session.log_transcript_entry(agent, message, substance, **links)

    def receives(
        self, agent: str, text: str, purpose: ev.Purpose, cause: ev.Reference
    ) -> MessageId:
        """Log a message to an agent with a purpose, such as a hook's comment."""
        return self.session.append(
            ev.TranscriptEntry(
                agent_id=AgentId(agent), role="user", content=text, cause=cause, purpose=purpose
            )
        )

    def asks_hook(self, hook: str, point: HookPoint, subject: ev.Reference) -> MessageId:
        """Log the question to a hook about a message or call."""
        return self.receives(hook, f"[{point}] about {subject}", "question", subject)

    def judges(
        self, hook: str, point: HookPoint, subject: ev.Reference, words: str, **members: Any
    ) -> MessageId:
        """Log a question to a hook, its answer, and its verdict, whose id is returned."""
        self.asks_hook(hook, point, subject)
        return self.gives_verdict(hook, point, subject, words, self.says(hook, words), **members)

    def gives_verdict(
        self,
        hook: str,
        point: HookPoint,
        subject: ev.Reference,
        words: str,
        answer: MessageId | None = None,
        **members: Any,
    ) -> MessageId:
        """Log a verdict, such as `DENY: no`, of a hook on a message or call of its agent."""
        kind, _, text = words.partition(": ")
        watched = self.session.agent(hook).parent
        return self.session.append(
            ev.HookVerdict(
                agent_id=AgentId(hook),
                watched=AgentId(watched or ""),
                subject=subject,
                point=point,
                verdict=_VERDICTS[kind],
                text=text or None,
                said=answer,
                **members,
            )
        )

    def gives_answer(self, agent: str, answer: MessageId) -> MessageId:
        """Log that the hooks of an agent let its answer through."""
        return self.session.append(ev.AnswerGiven(agent_id=AgentId(agent), answer=answer))

    def stops_turn(self, agent: str, reason: StopReason, text: str) -> MessageId:
        """Log the end of a turn without an answer. Return the id of the text in its place."""
        piece = self.piece(agent, text, self.session.state.last_id)
        self.session.append(ev.TurnStop(agent_id=AgentId(agent), reason=reason, piece=piece))
        return piece

    def piece(self, agent: str, text: str, cause: ev.Cause) -> MessageId:
        return self.session.log_piece_of_text(agent, text, cause)

    def asks(self, agent: str, **members: Any) -> MessageId:
        """Log a model call of the agent with its current context."""
        context_hash, context = "", self.session.context(agent)
        for message in context:
            context_hash = extend_context_hash(context_hash, message)
        request = ev.LlmRequest(
            agent_id=AgentId(agent),
            context=self.session.agent(agent).segments(),
            count=len(context),
            context_hash=context_hash,
            model="scripted:play",
            **members,
        )
        return self.session.append(request)

    def answers(self, agent: str, request: MessageId, text: str) -> MessageId:
        """Log the answer of a model call and its response event."""
        entry = self.says(agent, text)
        usage = ev.Usage(input_tokens=10, output_tokens=2)
        self.session.append(
            ev.LlmResponse(
                agent_id=AgentId(agent),
                request=request,
                entry=entry,
                usage=usage,
                cost_usd=0.5,
                stop_reason="stop",
            )
        )
        return entry

    def moves(self, agent: str, place: ev.Place, parent: str | None = None) -> MessageId:
        above = None if parent is None else AgentId(parent)
        return self.session.append(
            ev.AgentMoved(agent_id=AgentId(agent), place=place, parent=above)
        )


def write_log(folder: Path, lines: Sequence[dict[str, Any]]) -> SessionViewer:
    """Write a log of another program: current members, no sums."""
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return SessionViewer(file)
