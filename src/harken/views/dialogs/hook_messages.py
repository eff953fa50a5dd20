"""The messages of a hook of code, composed from its verdicts.

A hook of code has no transcript entries for what it judges: its verdict, the subject and the
rewrites of earlier hooks say all. A view shows the entries that a smart hook would have: the
question, and the answer with the verdict. It also shows the failure of any hook as an entry.

A composed answer has the id of the verdict, `msg_040`, and its question `msg_040.question`. Calls
that the hook made while it judged are between the two: their cause is the subject.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from harken.core.events import (
    AgentConfigured,
    AgentCreated,
    Event,
    HookVerdict,
    Reference,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall, text_of
from harken.core.verdict import HookQuestion, create_verdict, format_verdict
from harken.views.links import Links

FAILURE = "the hook failed: {}"


class HookMessages:
    """Composes the messages of hooks in a session."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._names: dict[AgentId, list[tuple[int, str]]] = {}
        """Agent -> its names, each with the position of the event that set it."""
        self._named_upto = 0
        """The number of events whose names are known."""

    def insert_into(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield events of agents with the messages that the log lacks.

        The question comes before the calls of its judgment, the answer before its verdict.
        """
        asked: set[tuple[AgentId | None, Reference]] = set()
        for event in events:
            verdict = self._find_verdict(event)
            if verdict is not None and (verdict.agent_id, verdict.subject) not in asked:
                asked.add((verdict.agent_id, verdict.subject))
                if self._find_logged_question(verdict) is None:
                    yield self._compose_question(verdict)
            if event is verdict:
                yield self._compose_answer(verdict)
            yield event

    def find_question(self, verdict: HookVerdict) -> HookQuestion:
        """Return the question that a verdict answers, as the hook got it.

        Its text is empty if the log lacks the subject.
        """
        links = self._links
        subject, call = links.get(links.target(verdict.subject)), links.find_call(verdict.subject)
        text = text_of(subject.content) if isinstance(subject, TranscriptEntry) else ""
        if verdict.point == "action":
            text = "" if call is None else call.function.arguments
        text = self._find_rewritten_text(verdict, text)
        if verdict.point != "action" or call is None:
            call = None
        else:
            call = ToolCall(call.id, FunctionCall(call.function.name, text))
        name = self._find_watched_name(verdict)
        return HookQuestion(verdict.point, name, verdict.subject, text, call)

    def _find_verdict(self, event: Event) -> HookVerdict | None:
        """Return the verdict without own messages that an event is, or is a call of."""
        if isinstance(event, HookVerdict):
            return event if event.said is None else None
        if not isinstance(event, TranscriptEntry) or not event.tool_calls:
            return None
        if not isinstance(event.cause, str):
            return None
        for verdict in self._links.events_to(self._links.target(event.cause)):
            if not isinstance(verdict, HookVerdict) or verdict.said is not None:
                continue
            if (verdict.agent_id, verdict.subject) == (event.agent_id, event.cause):
                return verdict
        return None

    def _compose_question(self, verdict: HookVerdict) -> TranscriptEntry:
        return TranscriptEntry(
            message_id=_question_id(verdict),
            time=verdict.time,
            agent_id=verdict.agent_id,
            role="user",
            content=self.find_question(verdict).prompt,
            cause=verdict.subject,
            purpose="question",
        )

    def _compose_answer(self, verdict: HookVerdict) -> TranscriptEntry:
        question = self._find_logged_question(verdict)
        if verdict.failed is None:
            content = format_verdict(create_verdict(verdict.verdict, verdict.text))
        else:
            content = FAILURE.format(verdict.failed)
        return TranscriptEntry(
            message_id=verdict.message_id,
            time=verdict.time,
            agent_id=verdict.agent_id,
            role="assistant" if verdict.failed is None else "system",
            content=content,
            cause=_question_id(verdict) if question is None else question.message_id,
        )

    def _find_logged_question(self, verdict: HookVerdict) -> TranscriptEntry | None:
        """Return the entry with the question, which only a smart hook has, also if it failed."""
        for event in self._links.events_to(self._links.target(verdict.subject)):
            if not isinstance(event, TranscriptEntry) or event.purpose != "question":
                continue
            if (event.agent_id, event.cause) == (verdict.agent_id, verdict.subject):
                return event
        return None

    def _find_rewritten_text(self, verdict: HookVerdict, text: str) -> str:
        """Return the text of a subject as rewritten by the hooks that judged it before."""
        for event in self._links.events_to(self._links.target(verdict.subject)):
            if event is verdict:
                break
            if isinstance(event, HookVerdict) and event.subject == verdict.subject:
                text = event.text or "" if event.verdict == "rewrite" else text
        return text

    def _find_watched_name(self, verdict: HookVerdict) -> str:
        """Return the name that the watched agent had at a verdict."""
        self._collect_names()
        names = self._names.get(verdict.watched, [])
        position = self._links.positions[verdict.message_id]
        index = bisect_left(names, position, key=lambda name: name[0])
        return names[index - 1][1] if index else verdict.watched

    def _collect_names(self) -> None:
        """Collect the names in the events that were added since the last time."""
        events = self._links.events
        for position in range(self._named_upto, len(events)):
            event = events[position]
            if isinstance(event, AgentCreated | AgentConfigured) and event.name:
                names = self._names.setdefault(event.agent_id or AgentId(""), [])
                names.append((position, event.name))
        self._named_upto = len(events)


def _question_id(verdict: HookVerdict) -> MessageId:
    return MessageId(f"{verdict.message_id}.question")
