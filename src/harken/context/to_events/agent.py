"""A voice: one agent while it is told, entry by entry, in the events that a log would have of it.

One idea: what the agent reads is held beside the fold's own state, message by message, so that each
model call names exactly what the commits say that it saw. All other words of a log (what is a
birth, a link, an edit) mean here what they mean there.

Source: docs/formats/session-log.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harken.context.to_events.event_log import ContextItem, EventLog, Reads, message_key
from harken.context.to_events.response_facts import (
    UNKNOWN,
    is_failure,
    is_summary,
    model_of,
    stop_reason_of,
    usage_in,
)
from harken.context.to_events.tool_calls import UNNAMED, call_again, with_own_ids
from harken.core import events as ev
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.messages import Message, ToolCall, text_of
from harken.formats.base import ConversationEntry
from harken.session.state import AgentState
from harken.store.base import StoredCommit

LEFT = "[no result: the conversation went on from an earlier message]"
"""The result of a call in a branch that was left before it had one."""
_USUAL = len("2026-01-31T12:00:00.000000Z")


@dataclass(slots=True)
class AgentEvents:
    """One agent."""

    story: EventLog
    id: AgentId
    birth: MessageId
    time: str
    """Of its last event."""
    model: str | None = None
    reads: Reads = field(default_factory=Reads)
    told: tuple[MessageId, str] | None = None
    """The text that another agent made for it, which is what it hears first."""
    said: tuple[MessageId, str] | None = None
    """What it said last."""
    spawned: dict[str, AgentEvents] = field(default_factory=dict)
    """Call -> the agent that it made."""
    last: MessageId | None = None
    """Its last entry."""
    _made: dict[str, tuple[MessageId, ToolCall]] = field(default_factory=dict)
    """Id of a call -> the first message that made it."""
    _own: dict[str, str] = field(default_factory=dict)
    """Id of an open call -> what it is called here, where that is another one."""
    _request: MessageId | None = None

    @property
    def state(self) -> AgentState:
        """What the log amounts to for it."""
        return self.story.state.agents[self.id]

    def ask(self, answer: ConversationEntry) -> None:
        """Tell that a model is called, before its answer is told."""
        model = model_of(answer)
        if model is not None and model != self.model:
            self.model = model
            changed = ev.AgentConfigured(agent_id=self.id, language_model=model)
            self.story.say(changed, self.time)
        request = ev.LlmRequest(
            agent_id=self.id,
            context=self.state.segments(),
            count=len(self.reads),
            context_hash=self.reads.hash,
            model=self.model or UNKNOWN,
        )
        self._request = self.story.say(request, self.time)

    def tell(self, entry: ConversationEntry, time: str) -> None:
        """Tell what it hears or says; where a model was asked for it, how that ended."""
        count = len(self.reads)
        self.time = time
        held = self._enter(entry)
        request, self._request = self._request, None
        if request is not None:
            self._respond(entry, request, held.id)
        if len(self.reads) > count + 1:  # what was made up for it is not read
            self.edit([*self.reads.held[:count], held], "a result without its call")

    def replace(self, entries: Sequence[ConversationEntry], reason: str, time: str) -> None:
        """Tell that it reads this from here on, instead of all before."""
        self.time = time
        repeated = self.reads.repeated([message_key(entry.message) for entry in entries])
        target: list[ContextItem] = []
        summaries: list[tuple[bool, MessageId]] = []
        for entry, known in zip(entries, repeated, strict=True):
            held = self._enter(entry) if known is None else known
            target.append(held)
            if known is None and entry.message.role == "user":
                summaries.append((is_summary(entry), held.id))
        self.edit(target, reason, max(summaries)[1] if summaries else None)

    def go_back(self, target: Sequence[ContextItem]) -> None:
        """Tell that it goes on from an earlier place; calls that it left open end where it was."""
        if self.state.open_calls:
            there = {one.id for one in target}
            calls = [*self.state.open_calls.values()]
            for call in calls:
                if reference_message_id(call.reference) not in there:
                    self._say(self._result(call.id, Message("tool", LEFT, is_error=True)))
        self.edit(target, "rewind")

    def edit(
        self, target: Sequence[ContextItem], reason: str, summary: MessageId | None = None
    ) -> None:
        """Tell that it reads these messages, where that is not what it reads already."""
        if [one.id for one in target] == [one.id for one in self.reads.held]:
            return
        edited = ev.TranscriptEdited(
            agent_id=self.id,
            segments=self.reads.segments(target),
            summary=summary,
            reason=reason,
        )
        self.story.say(edited, self.time)
        self.reads = self.reads.instead(target)

    def commit(self, stored: StoredCommit) -> None:
        """Tell that all of this is in a commit."""
        committed = ev.ContextCommitted(
            agent_id=self.id,
            ctx=stored.id,
            parent_ctx=stored.commit.parent,
            checkpoint=stored.commit.checkpoint,
            upto=self.last,
        )
        self.story.say(committed, self.time)

    def _respond(self, entry: ConversationEntry, request: MessageId, answer: MessageId) -> None:
        failed = is_failure(entry)
        response = ev.LlmResponse(
            agent_id=self.id,
            request=request,
            entry=None if failed else answer,
            stop_reason=stop_reason_of(entry),
            model=model_of(entry),
            usage=usage_in(entry),
            error=text_of(entry.message.content) if failed else None,
        )
        self.story.say(response, self.time)

    def _enter(self, entry: ConversationEntry) -> ContextItem:
        """Add a message to its transcript."""
        match entry.message.role:
            case "assistant":
                event = self._saying(entry.message)
            case "tool":
                event = self._getting(entry.message)
            case _:
                event = self._hearing(entry.message)
        return self._say(event, entry.time)

    def _say(self, event: ev.TranscriptEntry, time: str | None = None) -> ContextItem:
        id_ = self.story.say(event, self.time)
        held = ContextItem(id_, message_key(event), time)
        self.reads.add(held)
        self.last = id_
        for call in event.tool_calls or ():
            self._made.setdefault(call.id, (event.substance or id_, call))
        if event.is_utterance:
            self.said = id_, text_of(event.content)
        return held

    def _saying(self, message: Message) -> ev.TranscriptEntry:
        message, renamed = with_own_ids(message, self.state.open_calls)
        self._own |= renamed
        return ev.TranscriptEntry(
            agent_id=self.id,
            role="assistant",
            content=message.content,
            tool_calls=message.tool_calls or None,
            name=message.name,
        )

    def _hearing(self, message: Message) -> ev.TranscriptEntry:
        told, substance = self.told, None
        if told is not None and message.role == "user":
            self.told = None
            substance = told[0] if text_of(message.content) == told[1] else None
        return ev.TranscriptEntry(
            agent_id=self.id,
            role=message.role,
            content=message.content,
            name=message.name,
            substance=substance,
        )

    def _getting(self, message: Message) -> ev.TranscriptEntry:
        """Return the entry of a result; a call that is not open is made again."""
        given = message.tool_call_id or ""
        id_ = self._own.pop(given, given) or "call"
        if id_ not in self.state.open_calls:
            original, call = self._made.get(id_, (None, None))
            again = ev.TranscriptEntry(
                agent_id=self.id,
                role="assistant",
                tool_calls=[call_again(call, id_, message.name)],
                substance=original,
            )
            self._say(again)
        substance, cause = self._came_from(id_, message)
        return self._result(id_, message, substance, cause)

    def _result(
        self,
        call: str,
        message: Message,
        substance: MessageId | None = None,
        cause: MessageId | None = None,
    ) -> ev.TranscriptEntry:
        """Return the entry of the result of an open call."""
        return ev.TranscriptEntry(
            agent_id=self.id,
            role="tool",
            content=message.content,
            tool_call_id=call,
            name=message.name or self.state.open_calls[call].name or UNNAMED,
            is_error=message.is_error,
            substance=substance,
            cause=cause,
        )

    def _came_from(self, call: str, message: Message) -> tuple[MessageId | None, MessageId | None]:
        """Return the substance and the cause of a result: what the agent said that it made."""
        other = self.spawned.get(call)
        if other is None or other.said is None:
            return None, None
        id_, words = other.said[0], other.said[1].strip()
        text = text_of(message.content).strip()
        if text == words:
            return id_, None
        return None, (id_ if words in text else None)


def time_in(entry: ConversationEntry, before: str) -> str:
    """Return the time of an entry as events have it; where it has none, the one before.

    >>> time_in(ConversationEntry(Message("user"), "2026-01-31T13:00:00+01:00"), "")
    '2026-01-31T12:00:00.000000Z'
    """
    time = entry.time
    if time is None or (len(time) == _USUAL and time.endswith("Z")):
        return time or before
    try:
        return format_rfc3339(parse_rfc3339(time))
    except (ValueError, OverflowError):
        return before
