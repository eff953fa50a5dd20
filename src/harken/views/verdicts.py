"""Verdicts of hooks: their questions, subjects and effects.

The question to a hook is a user entry in the hook's transcript, whose cause is the subject. The
verdict follows as text: an utterance (`OK`, `COMMENT: ...`, `DENY: ...`, `REWRITE: ...`), or the
system entry `[hook failed] ...`. A smart hook may act in between, and its question is repeated once
if its answer is not a verdict; if its own hooks make it reconsider, its last answer counts. A hook
has one open question at a time, except for the calls of one message, which are asked about
concurrently: there the verdicts come in the order of the questions.

Watches: when a hook was installed on an agent, by which agent, and when it was removed.

Watches are found by folding creation and move events: a hook is installed or removed if it watches
an agent only after, or only before, an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from harken.core.events import (
    ActionRewritten,
    AgentCreated,
    AgentMoved,
    Event,
    PieceOfText,
    Reference,
    TranscriptEdited,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.messages import text_of
from harken.core.record import SparseRecord
from harken.core.verdict import HOOK_FAILED_PREFIX, VerdictWord, parse_verdict_entry
from harken.session.fold import fold
from harken.session.state import AgentState, SessionState
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links, causes_of
from harken.views.message_text import call_text
from harken.views.message_text import readable_text as words

How: TypeAlias = Literal["begun", "made", "copied", "moved", "quit", "ended"]


class Watch(SparseRecord, frozen=True, kw_only=True):
    """The installation or removal of a hook."""

    kind: Literal["installed", "left"]
    how: How
    """The way in which the hook was installed or removed.

    `begun`: by the code that created the agent; `made`: `by` called `hook`; `copied`: a copy of a
    hook of the parent agent; `moved`: an agent was moved; `quit`: the hook removed itself;
    `ended`: another agent removed it.
    """
    message_id: MessageId
    hook: AgentId
    hook_name: str | None
    agent_id: AgentId
    """The watched agent."""
    name: str | None
    by: AgentId | None = None
    """The agent that installed or removed the hook, or None if the log does not name it."""
    by_name: str | None = None
    cause: Reference | None = None
    """The event that caused it."""
    instructions: str | None = None
    """The initial instructions of a smart hook, which explain its purpose."""
    time: str


def watches(events: Iterable[Event]) -> list[Watch]:
    """Return all installations and removals of hooks, oldest first."""
    return list(_iter_watches(Links.of(events)))


def _iter_watches(links: Links) -> Iterator[Watch]:
    state = SessionState()
    for event in links:
        if isinstance(event, TranscriptEntry):
            fold(state, event)  # Creation events refer to calls by their entries.
        if not isinstance(event, AgentCreated | AgentMoved):
            continue
        moved_ids = [event.agent_id, getattr(event, "replaces", None)]
        hooks = [id_ for id_ in moved_ids if id_ is not None]
        before = [_find_watched(state, hook) for hook in hooks]
        fold(state, event)
        for hook, old_target in zip(hooks, before, strict=True):
            new_target = _find_watched(state, hook)
            if old_target == new_target:
                continue
            if old_target is not None:
                yield _build_watch(
                    links, event, (hook, old_target), "left", _removal_kind(links, event, hook)
                )
            if new_target is not None:
                how = _installation_kind(state, event, hook)
                yield _build_watch(links, event, (hook, new_target), "installed", how)


def _find_watched(state: SessionState, hook: AgentId) -> AgentId | None:
    """Return the agent that a hook watches, or None if it is not a hook."""
    agent = state.agents.get(hook)
    return agent.parent if agent is not None and agent.place == "hook" else None


def _installation_kind(state: SessionState, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if isinstance(event, AgentMoved):
        return "moved"
    if len(causes_of(event)) > 1:
        return "made"
    watched = state.agents[hook].parent
    parent = None if watched is None else state.agents[watched].parent
    hooks = state.agents[parent].hooks if parent is not None else []
    # A copy may have a suffix in its name.
    original_name = re.sub(r" \(\d+\)$", "", event.name or "")
    names = [state.agents[hook_id].name for hook_id in hooks]
    return "copied" if original_name in names or event.name in names else "begun"


def _removal_kind(links: Links, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if getattr(event, "place", None) != "gone":
        return "moved"
    return "quit" if _find_author(links, event) == hook else "ended"


def _find_author(links: Links, event: Event) -> AgentId | None:
    """Return the author of an event's last cause; for a creation event, the caller of `hook`."""
    causes = causes_of(event)
    return links.author(links.target(causes[-1])) if causes else None


def _system_prompt(links: Links, birth: AgentCreated) -> str | None:
    """Return the system prompt that follows an agent's creation event, or None."""
    next_events = links.events[links.positions[birth.message_id] + 1 :][:1]
    for entry in next_events:
        if isinstance(entry, TranscriptEntry) and entry.agent_id == birth.agent_id:
            return words(entry.content) if entry.role == "system" else None
    return None


def _build_watch(
    links: Links,
    event: AgentCreated | AgentMoved,
    pair: tuple[AgentId, AgentId],
    kind: Literal["installed", "left"],
    how: How,
) -> Watch:
    has_author = how in ("made", "moved", "quit", "ended")
    by = _find_author(links, event) if has_author else None
    hook, watched = pair
    return Watch(
        kind=kind,
        how=how,
        message_id=event.message_id,
        hook=hook,
        hook_name=links.names.latest_name(hook),
        agent_id=watched,
        name=links.names.latest_name(watched),
        by=by,
        by_name=links.names.latest_name(by) if by is not None else None,
        cause=causes_of(event)[-1] if has_author and causes_of(event) else None,
        instructions=_system_prompt(links, event) if isinstance(event, AgentCreated) else None,
        time=event.time,
    )


VerdictKind: TypeAlias = Literal["ok", "comment", "denial", "rewrite", "failure"]
Point: TypeAlias = Literal["input", "action", "result", "response"]

_KINDS: dict[VerdictWord, VerdictKind] = {
    "OK": "ok",
    "COMMENT": "comment",
    "DENY": "denial",
    "REWRITE": "rewrite",
}


class VerdictEffect(SparseRecord, frozen=True, kw_only=True):
    """The effect of a verdict on an agent: a comment, a refusal, or another text or call."""

    message_id: MessageId
    agent_id: AgentId | None
    name: str | None
    text: str


class VerdictRow(SparseRecord, frozen=True, kw_only=True):
    """A verdict of a hook."""

    kind: VerdictKind
    point: Point | None = None
    """The kind of subject; None if the log lacks the subject."""
    message_id: MessageId
    """Id of the verdict in the hook's transcript."""
    hook: AgentId
    hook_name: str | None
    text: str
    """The comment, the reason, the replacement, or the error."""
    question: MessageId
    """Id of the question in the hook's transcript. Earlier hooks may have rewritten its text."""
    subject: Reference
    """The message or call that was judged."""
    agent_id: AgentId | None
    """The watched agent, which the subject belongs to."""
    name: str | None
    proposed: str
    """The subject: a message text, or a call verbatim."""
    outcomes: list[VerdictEffect] = msgspec.field(default_factory=list)
    """Effects of the verdict, oldest first.

    Empty if a later verdict denied the subject. Each of several consecutive rewrites has the final
    text.
    """
    time: str


class _Verdict(NamedTuple):
    kind: VerdictKind
    text: str


def verdicts(events: Iterable[Event]) -> list[VerdictRow]:
    """Return the verdicts of all hooks, oldest first."""
    links = Links.of(events)
    rewritten: dict[MessageId, list[Intervention]] = {}
    for row in interventions(links):
        if row.kind == "message":
            rewritten.setdefault(row.message_id, []).append(row)
    judgements = _collect_judgements(links)
    reader = _Reader(links, rewritten, frozenset(judgements))
    return [reader.row(*judgement) for judgement in judgements.values()]


def parse_verdict_text(entry: TranscriptEntry) -> _Verdict | None:
    """Parse a hook's entry as a verdict. Return None if it is not one."""
    text = text_of(entry.content)
    if entry.role == "system" and text.startswith(HOOK_FAILED_PREFIX):
        return _Verdict("failure", text.removeprefix(HOOK_FAILED_PREFIX))
    verdict = parse_verdict_entry(entry)
    return None if verdict is None else _Verdict(_KINDS[verdict.word], verdict.text)


def _collect_judgements(
    links: Links,
) -> dict[MessageId, tuple[TranscriptEntry, TranscriptEntry, _Verdict]]:
    """Return questions by id, with their final verdict, in the order of the verdicts."""
    judgements: dict[MessageId, tuple[TranscriptEntry, TranscriptEntry, _Verdict]] = {}
    open_questions: dict[AgentId, list[TranscriptEntry]] = {}
    last_answered: dict[AgentId, TranscriptEntry] = {}
    question_by_subject: dict[tuple[AgentId, Reference], MessageId] = {}
    state = SessionState()
    for event in links:
        if isinstance(event, AgentCreated | AgentMoved | TranscriptEntry):
            fold(state, event)  # Only the places of agents matter here.
        if isinstance(event, AgentMoved) and event.replaces is not None:
            for moved_id in (event.agent_id, event.replaces):
                open_questions.pop(moved_id or AgentId(""), None)
                last_answered.pop(moved_id or AgentId(""), None)
        if not isinstance(event, TranscriptEntry) or event.agent_id is None:
            continue
        hook = state.agents.get(event.agent_id)
        if hook is None or hook.place not in ("hook", "gone"):
            continue
        questions = open_questions.setdefault(hook.id, [])
        if event.role == "user":
            if not _is_response_to_hook(links, event, hook):
                open_questions[hook.id] = _update_open(questions, event)
                last_answered.pop(hook.id, None)
        elif (verdict := parse_verdict_text(event)) is not None and not _is_rejected(links, event):
            question = _find_answered(event, questions) or last_answered.get(hook.id)
            if question is None:
                continue
            if question in questions:
                questions.remove(question)
            if not causes_of(event):  # A model answered, and may revise its answer.
                last_answered[hook.id] = question
            # A repeated question replaces the earlier one: the hook's own hooks were still judging
            # it.
            subject = hook.id, causes_of(question)[0]
            earlier = judgements.get(question_by_subject.get(subject, question.message_id))
            if earlier is not None and (earlier[0] is question or earlier[2].kind != "failure"):
                del judgements[earlier[0].message_id]
            question_by_subject[subject] = question.message_id
            judgements[question.message_id] = question, event, verdict
    return judgements


def _find_answered(
    verdict_entry: TranscriptEntry, questions: Sequence[TranscriptEntry]
) -> TranscriptEntry | None:
    """Return the open question that a verdict answers: the one that it names, else the oldest."""
    matches = (
        question for question in questions if question.message_id in causes_of(verdict_entry)
    )
    return next(matches, next(iter(questions), None))


def _is_response_to_hook(links: Links, input_entry: TranscriptEntry, hook: AgentState) -> bool:
    """Whether an input of a hook is a response to the hook or to its own hooks, not a question.

    Such inputs are its notes, and requests to repeat an invalid verdict. A hook has hooks of its
    own if it was watched before it became a hook.
    """
    cause = links.get(links.target(causes_of(input_entry)[0])) if causes_of(input_entry) else None
    return cause is not None and cause.agent_id in (hook.id, *hook.hooks)


def _is_rejected(links: Links, entry: TranscriptEntry) -> bool:
    """Whether the hook was told that its answer is no valid verdict for this kind of subject."""
    return any(
        isinstance(event, TranscriptEntry)
        and event.agent_id == entry.agent_id
        and event.role == "user"
        for event in links.events_to(entry.message_id)
    )


def _update_open(
    open_questions: Sequence[TranscriptEntry], input_entry: TranscriptEntry
) -> list[TranscriptEntry]:
    """Return the open questions after a new input. A crash may leave a question open."""
    if not causes_of(input_entry):
        return []  # The input is a message without a subject.
    subjects, subject_ = (
        [causes_of(question)[0] for question in open_questions],
        causes_of(input_entry)[0],
    )
    at_once = subject_ not in subjects and all(
        reference_message_id(subject) == reference_message_id(subject_) for subject in subjects
    )
    return [*open_questions, input_entry] if at_once else [input_entry]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds rows of judgements."""

    links: Links
    rewritten: Mapping[MessageId, Sequence[Intervention]]
    """Original message -> its changed versions."""
    questions: frozenset[MessageId]
    """Ids of all questions; these are not effects of the messages they ask about."""

    def row(
        self, question: TranscriptEntry, entry: TranscriptEntry, verdict: _Verdict
    ) -> VerdictRow:
        """Return the row of a judgement."""
        reference = causes_of(question)[0]
        subject, call = (
            self.links.get(self.links.target(reference)),
            self.links.find_call(reference),
        )
        point = _subject_kind(subject)
        agent_id = None if subject is None else subject.agent_id
        return VerdictRow(
            kind=verdict.kind,
            point=point,
            message_id=entry.message_id,
            hook=entry.agent_id or AgentId(""),
            hook_name=self.links.names.latest_name(entry.agent_id),
            text=verdict.text,
            question=question.message_id,
            subject=reference,
            agent_id=agent_id,
            name=self.links.names.latest_name(agent_id),
            proposed=_event_text(subject) if call is None else call_text(call),
            outcomes=list(self._iter_effects(question, entry, verdict.kind, point, reference)),
            time=entry.time,
        )

    def _iter_effects(
        self,
        question: TranscriptEntry,
        entry: TranscriptEntry,
        kind: VerdictKind,
        point: Point | None,
        subject: Reference,
    ) -> Iterator[VerdictEffect]:
        """Yield the events that the verdict caused, or else the outcome of its subject."""
        caused = [*self._find_caused(entry.message_id), *self._find_removal(question)]
        if caused or kind in ("ok", "comment"):
            yield from map(self._build_effect, caused)
        elif point == "action":
            yield from map(self._build_effect, self._find_call_outcome(subject))
        elif point == "response" and kind == "rewrite":
            for intervention in self.rewritten.get(self.links.target(subject), ()):
                yield _create_effect(
                    intervention.became_id,
                    intervention.heard_by,
                    intervention.heard_by_name,
                    intervention.became,
                )
            yield from map(self._build_effect, self._find_caused(self.links.target(subject)))

    def _find_caused(self, message_id: MessageId) -> list[Event]:
        """Return the events that name a message as their cause, except questions about it."""
        return [
            event
            for event in self.links.events_to(message_id)
            if isinstance(event, TranscriptEntry | ActionRewritten)
            and message_id in causes_of(event)
            and event.message_id not in self.questions
        ]

    def _find_removal(self, question: TranscriptEntry) -> list[Event]:
        """Return the edit that removed the subject of the question from its agent's context."""
        edits = [event for event in self.links.events_to(question.message_id) if _is_edit(event)]
        return [event for event in edits if event.agent_id != question.agent_id]

    def _find_call_outcome(self, call: Reference) -> Sequence[Event]:
        """Return the later rewrites of a call, or else its result."""
        answers = [
            event
            for event in self.links.events_to(self.links.target(call))
            if any(
                link.kind == "call" and link.reference == call
                for link in self.links.links_from(event)
            )
        ]
        return [event for event in answers if isinstance(event, ActionRewritten)] or answers

    def _build_effect(self, event: Event) -> VerdictEffect:
        text = _event_text(event)
        if isinstance(event, ActionRewritten):
            text = f"{event.tool} {event.arguments}"
        if isinstance(event, TranscriptEdited):
            text = f"nothing of it ({event.reason})"
        return _create_effect(
            event.message_id, event.agent_id, self.links.names.latest_name(event.agent_id), text
        )


def _is_edit(event: Event) -> bool:
    return isinstance(event, TranscriptEdited)


def _create_effect(
    id_: MessageId, agent_id: AgentId | None, name: str | None, text: str
) -> VerdictEffect:
    return VerdictEffect(message_id=id_, agent_id=agent_id, name=name, text=text)


def _subject_kind(subject: Event | None) -> Point | None:
    """Return the kind of a subject, by its role."""
    if not isinstance(subject, TranscriptEntry):
        return None
    if subject.role == "assistant":
        return "action" if subject.tool_calls else "response"
    return "result" if subject.role == "tool" else "input"


def _event_text(event: Event | None) -> str:
    return words(event.content) if isinstance(event, TranscriptEntry | PieceOfText) else ""
