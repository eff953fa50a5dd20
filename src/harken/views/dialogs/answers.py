"""Answers that hooks judge: which of them other agents received, and in which words.

An answer of a guarded agent is a draft until its hooks let it through (`answer_given`). A draft
that a hook denied, that a stop of the turn ended, or that a new input followed, was received by
no agent and no user. All of this is read from events and their members, never from texts.

An answer that a hook has yet to judge is pending. Before the first question or verdict about it,
this is known for smart agents with a smart hook at `response`, which is always asked.

`Answers` also knows the words of hooks: the messages with which they answer questions. They are
addressed to no agent; their effect is the event `hook_verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, TypeAlias

from harken.core.event_types.spec import SMART
from harken.core.events import (
    AgentMoved,
    AnswerGiven,
    DiscussionSpoken,
    Event,
    HookVerdict,
    TranscriptEntry,
    TurnStop,
)
from harken.core.ids import AgentId, MessageId
from harken.session.fold import fold
from harken.session.state import AgentState, SessionState
from harken.views.model_calls import placeholders

_NO_ANSWERS: frozenset[MessageId] = frozenset()
AnswerStatus: TypeAlias = Literal["rewritten", "pending", "denied", "stopped", "dropped"]
"""`rewritten`: others received another text; `pending`: hooks have yet to judge it; `denied`;
`stopped`: a hook ended the turn; `dropped`: the turn ended, or an input came, before a decision."""


class AnswerOutcome(NamedTuple):
    """The outcome of an answer that did not reach others as its agent wrote it."""

    status: AnswerStatus
    hook: AgentId | None = None
    """The hook that denied, stopped or last rewrote it."""
    text: str = ""
    """The text that others received; of a denied or stopped answer the reason."""

    @property
    def is_draft(self) -> bool:
        """Whether no other agent received it."""
        return self.status != "rewritten"


class Answers:
    """The outcomes of the answers of a session that may be running."""

    def __init__(self) -> None:
        self.outcomes: dict[MessageId, AnswerOutcome] = {}
        """Answer -> its outcome. Others received an answer without one as its agent wrote it."""
        self.words_of_hooks: set[MessageId] = set()
        """The messages of hooks that answer a question."""
        self._state = SessionState()
        self._last_answers: dict[AgentId, MessageId] = {}
        self._rewrites: dict[MessageId, AnswerOutcome] = {}
        self._changed = _NO_ANSWERS

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Return the outcomes of all answers in these events."""
        answers = cls()
        answers.add(events)
        return answers

    def add(self, events: Iterable[Event]) -> set[MessageId]:
        """Add later events. Return the answers with a new outcome."""
        changed: set[MessageId] = set()
        for event in events:
            changed |= self.add_event(event)
        return changed

    def add_event(self, event: Event) -> frozenset[MessageId]:
        """Add a later event. Return the answers with a new outcome."""
        self._changed = _NO_ANSWERS
        self._add_event(event)
        try:
            fold(self._state, event, placeholders)
        except ValueError:
            return self._changed  # A log of another program may be inconsistent.
        return self._changed

    def is_draft(self, message_id: MessageId) -> bool:
        """Whether a message is an answer that no other agent received."""
        outcome = self.outcomes.get(message_id)
        return outcome is not None and outcome.is_draft

    def _add_event(self, event: Event) -> None:
        match event:
            case TranscriptEntry():
                self._add_entry(event)
            case HookVerdict():
                self._add_verdict(event)
            case AnswerGiven():
                self._give(event.answer)
            case DiscussionSpoken():
                self._give(event.said)
            case TurnStop():
                self._drop(event.agent_id)
            case AgentMoved():  # A move ends the turn of both agents.
                self._drop(event.agent_id)
                self._drop(event.replaces)
            case _:
                pass

    def _add_entry(self, entry: TranscriptEntry) -> None:
        agent = self._state.agents.get(entry.agent_id or AgentId(""))
        if entry.substance is not None:
            self._give(entry.substance)
        if agent is None:
            return
        if entry.role == "assistant" and entry.substance is None:
            if entry.is_utterance:
                self._add_answer(agent, entry.message_id)
        elif entry.role == "user" and entry.purpose is None:
            self._drop(agent.id)
        elif entry.purpose == "question" and isinstance(entry.cause, str):
            watched = agent.parent or AgentId("")
            if self._last_answers.get(watched) == entry.cause:
                self._await_verdict(MessageId(entry.cause))

    def _add_answer(self, agent: AgentState, id_: MessageId) -> None:
        self._last_answers[agent.id] = id_
        if agent.questions:
            self.words_of_hooks.add(id_)
        hooks = (self._state.agents[hook_id] for hook_id in agent.hooks)
        if _is_smart(agent) and any(map(_judges_answers, hooks)):
            self._await_verdict(id_)

    def _add_verdict(self, verdict: HookVerdict) -> None:
        if verdict.said is not None:
            self.words_of_hooks.add(verdict.said)
        if verdict.point != "response":
            return
        answer, text = MessageId(verdict.subject), verdict.text or ""
        if verdict.verdict == "deny":
            self._set(answer, AnswerOutcome("denied", verdict.agent_id, text))
        elif verdict.verdict == "stop":
            self._set(answer, AnswerOutcome("stopped", verdict.agent_id, text))
        else:
            if verdict.verdict == "rewrite":
                self._rewrites[answer] = AnswerOutcome("rewritten", verdict.agent_id, text)
            self._await_verdict(answer)

    def _await_verdict(self, answer: MessageId) -> None:
        if answer not in self.outcomes:
            self._set(answer, AnswerOutcome("pending"))

    def _give(self, answer: MessageId) -> None:
        """Note that others received an answer."""
        outcome = self.outcomes.get(answer)
        if outcome is not None and outcome.status == "pending":
            del self.outcomes[answer]
            self._changed |= {answer}
            if answer in self._rewrites:
                self._set(answer, self._rewrites[answer])

    def _drop(self, agent_id: AgentId | None) -> None:
        """Note that the last answer of an agent will not be received if it is pending."""
        answer = self._last_answers.get(agent_id or AgentId(""), MessageId(""))
        outcome = self.outcomes.get(answer)
        if outcome is not None and outcome.status == "pending":
            self._set(answer, AnswerOutcome("dropped"))

    def _set(self, answer: MessageId, outcome: AnswerOutcome) -> None:
        self.outcomes[answer] = outcome
        self._changed |= {answer}


def _is_smart(agent: AgentState) -> bool:
    return agent.spec.kind in ("", SMART)


def _judges_answers(hook: AgentState) -> bool:
    """Whether this is a smart hook at `response`."""
    points = hook.spec.standing.points
    return _is_smart(hook) and (points is None or "response" in points)
