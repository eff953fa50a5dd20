"""Verdicts: everything that hooks said, what it was about, and what became of it.

A hook is asked in its own transcript: a user entry whose cause is the subject. Its verdict comes
after that, in words: an utterance (`OK`, `COMMENT: ...`, `DENY: ...`, `REWRITE: ...`), or the
system entry `[hook failed] ...`. A smart one may act in between, and is asked again once where what
it says is no verdict; where hooks of its own make it think again, its last word counts. A hook is
asked one thing at a time, except about calls of one message, which are made at once: there the
verdicts come in the order of the questions.

Watches: who came to watch whom as a hook, who saw to it, and when it left.

Made from births and moves by the fold: who stands as a hook of another before an event and not
after it has left, and the other way round.
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
from harken.core.verdict import FAILED, VerdictWord, parse_verdict_entry
from harken.session.fold import fold
from harken.session.state import AgentState, SessionState
from harken.views.interventions import Intervention, interventions
from harken.views.links import Links, causes_of
from harken.views.message_text import call_text
from harken.views.message_text import readable_text as words

How: TypeAlias = Literal["begun", "made", "copied", "moved", "quit", "ended"]


class Watch(SparseRecord, frozen=True, kw_only=True):
    """A hook began to watch an agent, or left it."""

    kind: Literal["installed", "left"]
    how: How
    """`begun`: whoever set the agent up did; `made`: `by` called `hook`; `copied`: its parent is
    watched by such a one; `moved`: somebody took another place; `quit`: by its own will; `ended`:
    by somebody else's."""
    message_id: MessageId
    hook: AgentId
    hook_name: str | None
    agent_id: AgentId
    """Who is, or was, watched."""
    name: str | None
    by: AgentId | None = None
    """Whose doing it was; None where the log names nobody."""
    by_name: str | None = None
    cause: Reference | None = None
    """What they did."""
    told: str | None = None
    """What a smart hook was told when it was born: why it is there."""
    time: str


def watches(events: Iterable[Event]) -> list[Watch]:
    """Return all that began and ended, oldest first."""
    return list(_watches(Links.of(events)))


def _watches(links: Links) -> Iterator[Watch]:
    state = SessionState()
    for event in links:
        if isinstance(event, TranscriptEntry):
            fold(state, event)  # whose a call is: births name calls
        if not isinstance(event, AgentCreated | AgentMoved):
            continue
        moved = [event.agent_id, getattr(event, "replaces", None)]
        hooks = [one for one in moved if one is not None]
        before = [_watched(state, hook) for hook in hooks]
        fold(state, event)
        for hook, was in zip(hooks, before, strict=True):
            now = _watched(state, hook)
            if was == now:
                continue
            if was is not None:
                yield _row(links, event, (hook, was), "left", _how_left(links, event, hook))
            if now is not None:
                how = _how_born(state, event, hook)
                yield _row(links, event, (hook, now), "installed", how)


def _watched(state: SessionState, hook: AgentId) -> AgentId | None:
    """Return whom an agent watches; None where it is no hook."""
    agent = state.agents.get(hook)
    return agent.parent if agent is not None and agent.place == "hook" else None


def _how_born(state: SessionState, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if isinstance(event, AgentMoved):
        return "moved"
    if len(causes_of(event)) > 1:
        return "made"
    watched = state.agents[hook].parent
    above = None if watched is None else state.agents[watched].parent
    hooks = state.agents[above].hooks if above is not None else []
    called = re.sub(r" \(\d+\)$", "", event.name or "")  # a copy may have got a name of its own
    names = [state.agents[one].name for one in hooks]
    return "copied" if called in names or event.name in names else "begun"


def _how_left(links: Links, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if getattr(event, "place", None) != "gone":
        return "moved"
    return "quit" if _doer(links, event) == hook else "ended"


def _doer(links: Links, event: Event) -> AgentId | None:
    """Return who made the last cause of an event: of a birth, who called `hook`."""
    named = causes_of(event)
    return links.author(links.target(named[-1])) if named else None


def _told(links: Links, birth: AgentCreated) -> str | None:
    """Return the system prompt of an agent, which follows its birth; None where there is none."""
    after = links.events[links.at[birth.message_id] + 1 :][:1]
    for entry in after:
        if isinstance(entry, TranscriptEntry) and entry.agent_id == birth.agent_id:
            return words(entry.content) if entry.role == "system" else None
    return None


def _row(
    links: Links,
    event: AgentCreated | AgentMoved,
    pair: tuple[AgentId, AgentId],
    kind: Literal["installed", "left"],
    how: How,
) -> Watch:
    is_done = how in ("made", "moved", "quit", "ended")
    by = _doer(links, event) if is_done else None
    hook, watched = pair
    return Watch(
        kind=kind,
        how=how,
        message_id=event.message_id,
        hook=hook,
        hook_name=links.names.of(hook),
        agent_id=watched,
        name=links.names.of(watched),
        by=by,
        by_name=links.names.of(by) if by is not None else None,
        cause=causes_of(event)[-1] if is_done and causes_of(event) else None,
        told=_told(links, event) if isinstance(event, AgentCreated) else None,
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
    """What an agent got because of a verdict: a comment, a refusal, another text or call."""

    message_id: MessageId
    agent_id: AgentId | None
    name: str | None
    text: str


class VerdictRow(SparseRecord, frozen=True, kw_only=True):
    """One judgement of one hook."""

    kind: VerdictKind
    point: Point | None = None
    """What was judged; None where the log lacks it."""
    message_id: MessageId
    """Of the verdict, in the hook's transcript."""
    hook: AgentId
    hook_name: str | None
    words: str
    """The comment, the reason, the other text, or how it failed."""
    question: MessageId
    """In the hook's transcript: what it was asked, as earlier hooks may have rewritten it."""
    subject: Reference
    """The message or call that was judged."""
    agent_id: AgentId | None
    """Whose it is: the watched agent."""
    name: str | None
    proposed: str
    """What was heard, or said, or the call, verbatim."""
    outcomes: list[VerdictEffect] = msgspec.field(default_factory=list)
    """What became of it, oldest first; nothing for what was passed over, or rewritten again and
    then denied. Of rewrites that follow each other each has the last text."""
    time: str


class _Said(NamedTuple):
    kind: VerdictKind
    words: str


def verdicts(events: Iterable[Event]) -> list[VerdictRow]:
    """Return all that hooks said when they were asked, oldest first."""
    links = Links.of(events)
    rewritten: dict[MessageId, list[Intervention]] = {}
    for found in interventions(links):
        if found.kind == "message":
            rewritten.setdefault(found.message_id, []).append(found)
    judgements = _judgements(links)
    reader = _Reader(links, rewritten, frozenset(judgements))
    return [reader.row(*judgement) for judgement in judgements.values()]


def read_words(entry: TranscriptEntry) -> _Said | None:
    """Read what a hook said as a verdict; None where it is none."""
    text = text_of(entry.content)
    if entry.role == "system" and text.startswith(FAILED):
        return _Said("failure", text.removeprefix(FAILED))
    said = parse_verdict_entry(entry)
    return None if said is None else _Said(_KINDS[said.word], said.text)


def _judgements(links: Links) -> dict[MessageId, tuple[TranscriptEntry, TranscriptEntry, _Said]]:
    """Return questions, by id, with what was said to them last, in the order of the verdicts."""
    found: dict[MessageId, tuple[TranscriptEntry, TranscriptEntry, _Said]] = {}
    waiting: dict[AgentId, list[TranscriptEntry]] = {}
    answered: dict[AgentId, TranscriptEntry] = {}
    asked: dict[tuple[AgentId, Reference], MessageId] = {}
    state = SessionState()
    for event in links:
        if isinstance(event, AgentCreated | AgentMoved | TranscriptEntry):
            fold(state, event)  # who stands where: nothing else matters here
        if isinstance(event, AgentMoved) and event.replaces is not None:
            for moved in (event.agent_id, event.replaces):
                waiting.pop(moved or AgentId(""), None)
                answered.pop(moved or AgentId(""), None)
        if not isinstance(event, TranscriptEntry) or event.agent_id is None:
            continue
        hook = state.agents.get(event.agent_id)
        if hook is None or hook.place not in ("hook", "gone"):
            continue
        questions = waiting.setdefault(hook.id, [])
        if event.role == "user":
            if not _is_aside(links, event, hook):
                waiting[hook.id] = _asked(questions, event)
                answered.pop(hook.id, None)
        elif (said := read_words(event)) is not None and not _is_asked_again(links, event):
            question = _answered_by(event, questions) or answered.get(hook.id)
            if question is None:
                continue
            if question in questions:
                questions.remove(question)
            if not causes_of(event):  # a model said it, and may say something else yet
                answered[hook.id] = question
            # One that is asked the same again had not been heard: its own hooks still judged that.
            subject = hook.id, causes_of(question)[0]
            before = found.get(asked.get(subject, question.message_id))
            if before is not None and (before[0] is question or before[2].kind != "failure"):
                del found[before[0].message_id]
            asked[subject] = question.message_id
            found[question.message_id] = question, event, said
    return found


def _answered_by(
    said: TranscriptEntry, questions: Sequence[TranscriptEntry]
) -> TranscriptEntry | None:
    """Return the open question that words answer: the one that they name, else the oldest."""
    named = (one for one in questions if one.message_id in causes_of(said))
    return next(named, next(iter(questions), None))


def _is_aside(links: Links, heard: TranscriptEntry, hook: AgentState) -> bool:
    """Whether what a hook heard is no new question, but an answer to itself, or to its own hooks.

    Those are its notes, and what it is told that gave no verdict; it has hooks where it was watched
    before it became one.
    """
    said = links.get(links.target(causes_of(heard)[0])) if causes_of(heard) else None
    return said is not None and said.agent_id in (hook.id, *hook.hooks)


def _is_asked_again(links: Links, said: TranscriptEntry) -> bool:
    """Whether a hook was told that this is no verdict there: it looks like one of another point."""
    return any(
        isinstance(event, TranscriptEntry)
        and event.agent_id == said.agent_id
        and event.role == "user"
        for event in links.down(said.message_id)
    )


def _asked(waiting: Sequence[TranscriptEntry], heard: TranscriptEntry) -> list[TranscriptEntry]:
    """Return the open questions after a hook has heard something; a crash may leave one open."""
    if not causes_of(heard):
        return []  # somebody talks with it
    before, now = [causes_of(question)[0] for question in waiting], causes_of(heard)[0]
    at_once = now not in before and all(
        reference_message_id(subject) == reference_message_id(now) for subject in before
    )
    return [*waiting, heard] if at_once else [heard]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes rows of judgements."""

    links: Links
    rewritten: Mapping[MessageId, Sequence[Intervention]]
    """An original -> where others heard something else."""
    questions: frozenset[MessageId]
    """What hooks heard because something was said: nothing became of that by it."""

    def row(self, asked: TranscriptEntry, entry: TranscriptEntry, said: _Said) -> VerdictRow:
        """Return the row of one judgement."""
        reference = causes_of(asked)[0]
        subject, call = self.links.get(self.links.target(reference)), self.links.called(reference)
        point = _point(subject)
        agent_id = None if subject is None else subject.agent_id
        return VerdictRow(
            kind=said.kind,
            point=point,
            message_id=entry.message_id,
            hook=entry.agent_id or AgentId(""),
            hook_name=self.links.names.of(entry.agent_id),
            words=said.words,
            question=asked.message_id,
            subject=reference,
            agent_id=agent_id,
            name=self.links.names.of(agent_id),
            proposed=_content(subject) if call is None else call_text(call),
            outcomes=list(self._outcomes(asked, entry, said.kind, point, reference)),
            time=entry.time,
        )

    def _outcomes(
        self,
        asked: TranscriptEntry,
        entry: TranscriptEntry,
        kind: VerdictKind,
        point: Point | None,
        subject: Reference,
    ) -> Iterator[VerdictEffect]:
        """Yield what names the verdict as its cause, else what became of the subject."""
        caused = [*self._caused_by(entry.message_id), *self._taken_out(asked)]
        if caused or kind in ("ok", "comment"):
            yield from map(self._outcome, caused)
        elif point == "action":
            yield from map(self._outcome, self._became_of_call(subject))
        elif point == "response" and kind == "rewrite":
            for heard in self.rewritten.get(self.links.target(subject), ()):
                yield _made(heard.became_id, heard.heard_by, heard.heard_by_name, heard.became)
            yield from map(self._outcome, self._caused_by(self.links.target(subject)))

    def _caused_by(self, message_id: MessageId) -> list[Event]:
        """Return what names a message as its cause, but for questions about it."""
        return [
            event
            for event in self.links.down(message_id)
            if isinstance(event, TranscriptEntry | ActionRewritten)
            and message_id in causes_of(event)
            and event.message_id not in self.questions
        ]

    def _taken_out(self, asked: TranscriptEntry) -> list[Event]:
        """Return the edit that took what was asked about out of what its agent reads."""
        edits = [one for one in self.links.down(asked.message_id) if _is_edit(one)]
        return [one for one in edits if one.agent_id != asked.agent_id]

    def _became_of_call(self, call: Reference) -> Sequence[Event]:
        """Return what a later hook made of a call, else its result."""
        answers = [
            event
            for event in self.links.down(self.links.target(call))
            if any(link.kind == "call" and link.reference == call for link in self.links.up(event))
        ]
        return [event for event in answers if isinstance(event, ActionRewritten)] or answers

    def _outcome(self, event: Event) -> VerdictEffect:
        text = _content(event)
        if isinstance(event, ActionRewritten):
            text = f"{event.tool} {event.arguments}"
        if isinstance(event, TranscriptEdited):
            text = f"nothing of it ({event.reason})"
        return _made(event.message_id, event.agent_id, self.links.names.of(event.agent_id), text)


def _is_edit(event: Event) -> bool:
    return isinstance(event, TranscriptEdited)


def _made(id_: MessageId, agent_id: AgentId | None, name: str | None, text: str) -> VerdictEffect:
    return VerdictEffect(message_id=id_, agent_id=agent_id, name=name, text=text)


def _point(subject: Event | None) -> Point | None:
    """Return what kind of thing a subject is, by its role."""
    if not isinstance(subject, TranscriptEntry):
        return None
    if subject.role == "assistant":
        return "action" if subject.tool_calls else "response"
    return "result" if subject.role == "tool" else "input"


def _content(event: Event | None) -> str:
    return words(event.content) if isinstance(event, TranscriptEntry | PieceOfText) else ""
