"""A conversation of any runtime as another one may go on with it.

One idea: what a provider refuses in a request, it refuses in a session that was written, too. So
before entries are given the form of a runtime, they are brought into the shape that all providers
take: answers and what is heard by turns, the user first, each call with just one result right
after it, ids and names of letters that all take, nothing empty.

The invariant: nothing that was said is lost without a word about it, but for thoughts (which were
not said) and errors of a client (which no model read). And what the target wrote itself stays as
it was, as far as a provider takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from harken.core.messages import (
    Content,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCall,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.alternation import LATE, NO_OUTPUT, NOTHING, SYSTEM
from harken.formats.providers.openai_responses import is_instructions
from harken.formats.runtimes.base import BROKEN_OFF
from harken.formats.runtimes.base import PI_MEMBER as PI
from harken.formats.runtimes.steps import INSTRUCTIONS
from harken.formats.runtimes.steps import SYSTEM as BY_SYSTEM
from harken.formats.runtimes.target import TargetRules, message_parts
from harken.formats.tool_calls import content_of, in_order

IMAGES = "[images of a result]:"
"""Before images that their result cannot hold."""

_Call: TypeAlias = tuple[str, str]
"""The ids of a call: as it was, and as it is."""


def fitted(entries: Iterable[ConversationEntry], fit: TargetRules) -> list[ConversationEntry]:
    """Return a conversation as the target may go on with it, oldest first. Raises nothing.

    What is changed keeps its time and its source; of answers that become one, those of the last.
    What a user is made to say has the `kind` of what a runtime says in their name.
    """
    return list(_Fitting(fit).entries(entries))


@dataclass(slots=True)
class _Answer:
    """An answer on its way."""

    entry: ConversationEntry
    items: list[Part | ToolCall]
    calls: list[_Call]
    is_changed: bool

    def joined(self, other: _Answer) -> _Answer:
        """Return this answer and the next one as one."""
        entry = replace(other.entry, source=other.entry.source or self.entry.source)
        return _Answer(entry, self.items + other.items, self.calls + other.calls, is_changed=True)

    def fitted(self, fit: TargetRules) -> ConversationEntry:
        """Return its entry."""
        if self.is_changed or (fit.has_calls_last and not fit.owns(self.entry)):
            return replace(self.entry, message=fit.answer(self.items))
        return self.entry


@dataclass(slots=True)
class _Round:
    """Answers in a row, and what is heard then, up to the next answer; with what stands aside."""

    answers: list[_Answer | ConversationEntry] = field(default_factory=list)
    heard: list[ConversationEntry] = field(default_factory=list)


class _Fitting:
    """Fits one conversation."""

    def __init__(self, fit: TargetRules) -> None:
        self._fit = fit
        self._ids = fit.ids()
        self._has_begun = False
        """Whether somebody has spoken."""

    def entries(self, entries: Iterable[ConversationEntry]) -> Iterator[ConversationEntry]:
        """Yield what becomes of them."""
        for one in self._rounds(entries):
            calls: list[_Call] = []
            for said in self._answers(one):
                if isinstance(said, ConversationEntry):
                    yield said
                    continue
                if not self._has_begun:
                    yield _made_up([TextPart(NOTHING)], said.entry)
                yield from self._closed(calls, said.entry.time)
                yield said.fitted(self._fit)
                calls, self._has_begun = said.calls, True
            yield from self._heard(one, calls)
            self._has_begun = self._has_begun or not all(map(self._fit.is_aside, one.heard))

    def _rounds(self, entries: Iterable[ConversationEntry]) -> Iterator[_Round]:
        current = _Round()
        for one in self._each(entries):
            if isinstance(one, ConversationEntry) and self._fit.is_aside(one):
                (current.heard or current.answers).append(one)
            elif isinstance(one, ConversationEntry):
                current.heard.append(one)
            elif current.heard:
                yield current
                current = _Round([one])
            else:
                current.answers.append(one)
        yield current

    def _each(self, entries: Iterable[ConversationEntry]) -> Iterator[_Answer | ConversationEntry]:
        """Yield what becomes of each entry, if anything; results are left for later."""
        for entry in entries:
            role = entry.message.role
            if self._fit.is_aside(entry) or (role == "tool" and not is_unread(entry)):
                yield entry
            elif is_unread(entry):
                continue
            elif role == "assistant":
                answer = self._answer(entry)
                if answer.items or self._fit.owns(entry):
                    yield answer
            else:
                heard = self._said(entry)
                if heard.message.content or self._fit.owns(entry):
                    yield heard

    def _answers(self, one: _Round) -> Iterator[_Answer | ConversationEntry]:
        """Yield answers, joined where they must be, each with what stands aside after it."""
        answered = {e.message.tool_call_id or "" for e in one.heard if e.message.role == "tool"}
        last: _Answer | None = None
        asides: list[ConversationEntry] = []
        for answer in one.answers:
            if isinstance(answer, ConversationEntry):
                asides.append(answer)
            elif last is None:
                last = answer
            elif not self._stays_apart(last, answered):
                last = last.joined(answer)
            else:
                yield last
                yield from asides
                last, asides = answer, []
        if last is not None:
            yield last
        yield from asides

    def _stays_apart(self, answer: _Answer, answered: Collection[str]) -> bool:
        """Whether another answer may follow: calls that are never answered are closed between."""
        if answer.calls:
            return all(raw not in answered for raw, _ in answer.calls)
        return self._fit.has_answers_in_a_row

    def _answer(self, entry: ConversationEntry) -> _Answer:
        before = list(in_order(entry.message))
        items = self._fit.items(entry, self._ids)
        was, is_ = ([i.id for i in those if isinstance(i, ToolCall)] for those in (before, items))
        return _Answer(entry, items, list(zip(was, is_, strict=True)), is_changed=items != before)

    def _heard(self, one: _Round, calls: Sequence[_Call]) -> Iterator[ConversationEntry]:
        """Yield the results of calls, then all else that is heard."""
        waiting, rest, pictures = list(calls), [], []
        for entry in one.heard:
            message = entry.message
            due = next((c for c in waiting if c[0] == (message.tool_call_id or "")), None)
            if message.role != "tool" or due is None or self._fit.is_aside(entry):
                rest.append(entry)
                continue
            waiting.remove(due)
            result, images = self._result(entry, due[1])
            yield result
            if images:
                pictures.append(_made_up([TextPart(IMAGES), *images], entry))
        yield from self._closed(waiting, one.heard[-1].time if one.heard else None)
        yield from pictures
        for entry in rest:
            is_late = entry.message.role == "tool" and not self._fit.is_aside(entry)
            yield self._late(entry) if is_late else entry

    def _closed(self, calls: Iterable[_Call], time: str | None) -> Iterator[ConversationEntry]:
        """Yield results of calls that have none."""
        for _, id_ in calls:
            message = Message("tool", self._fit.no_result, tool_call_id=id_, is_error=True)
            yield ConversationEntry(message, time)

    def _result(
        self, entry: ConversationEntry, id_: str
    ) -> tuple[ConversationEntry, list[ImagePart]]:
        """Return a result, and the images that it cannot hold."""
        content = self._fit.content(entry)
        images = _images(content)
        if images and not self._holds_images(entry):
            said = f"[images, shown after the results: {len(images)}]"
            kept = [part for part in _parts(content) if not isinstance(part, ImagePart)]
            content = content_of([*kept, TextPart(said)])
        else:
            images = []
        if not content and not self._fit.owns(entry):
            content = NO_OUTPUT
        before = entry.message
        message = Message("tool", content, None, id_, before.name, before.is_error)
        return replace(entry, message=message), images

    def _holds_images(self, result: ConversationEntry) -> bool:
        fit = self._fit
        is_fit = fit.has_error_images or not result.message.is_error or fit.owns(result)
        return fit.has_result_images and is_fit

    def _late(self, entry: ConversationEntry) -> ConversationEntry:
        """Return a result without a call as what a user says."""
        content = self._fit.content(entry)
        told = TextPart(LATE + (text_of(content) or NO_OUTPUT))
        return _made_up([told, *_images(content)], entry)

    def _said(self, entry: ConversationEntry) -> ConversationEntry:
        """Return what a user says, or is made to say."""
        message, content = entry.message, self._fit.content(entry)
        if message.role == "system" and not self._fit.has_system:
            told = [TextPart(SYSTEM + text_of(content))] if content else []
            return _made_up(told, entry)
        return replace(entry, message=Message(message.role, content, name=message.name))


def is_unread(entry: ConversationEntry) -> bool:
    """Whether no model but the one that it was for reads an entry.

    Such are errors that a client wrote, answers that broke off, and instructions about a runtime.
    """
    source = entry.source or {}
    own = source.get(PI)
    is_broken = isinstance(own, dict) and own.get("stopReason") in BROKEN_OFF
    return source.get("kind") == "error" or is_broken or instructs(entry)


def instructs(entry: ConversationEntry) -> bool:
    """Whether an entry is what a client instructs its own model with."""
    return (entry.source or {}).get("kind") == INSTRUCTIONS or is_instructions(entry)


def _made_up(parts: Sequence[Part], near: ConversationEntry) -> ConversationEntry:
    """Return an entry that a user is made to say."""
    return ConversationEntry(Message("user", content_of(parts)), near.time, {"kind": BY_SYSTEM})


def _parts(content: Content) -> list[Part]:
    return message_parts(Message("user", content))


def _images(content: Content) -> list[ImagePart]:
    return [part for part in _parts(content) if isinstance(part, ImagePart)]
