"""The events of one agent: passes its entries, one by one, to the writer of its context.

Entries are logged as the commits have them: a result may be without its call, and a call without a
result. All terms of a log (birth, link, edit) have the same meaning here.

Source: docs/formats/session-log.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from harken.core import events as ev
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.messages import Message, text_of
from harken.core.stream import Finish
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.sent_requests import SentRequest, StatedRequest
from harken.formats.runtimes.steps import NOTIFICATION
from harken.recording.from_commits.known_requests import KnownRequests
from harken.recording.from_commits.response_facts import (
    UNKNOWN,
    find_model,
    find_response_id,
    find_stop_reason,
    is_failure,
    is_summary,
    parse_usage,
)
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item, LoggedItem, message_key
from harken.recording.writer.memory_session import MemorySession
from harken.recording.writer.request import RequestSettings
from harken.session.state import AgentState, OpenCall
from harken.store.base import StoredCommit

_TIME_CHARS = len("2026-01-31T12:00:00.000000Z")


@dataclass(slots=True)
class AgentEvents:
    """The converter of one agent."""

    session: MemorySession
    id: AgentId
    birth: MessageId
    time: str
    """The time of its last event."""
    requests: KnownRequests
    """The requests that the transcripts of the session record."""
    model: str | None = None
    prompt: tuple[MessageId, str] | None = None
    """The text that another agent created for it, which is its first input."""
    spawned: dict[str, AgentEvents] = field(default_factory=dict)
    """Call -> the agent that it created."""
    recorder: AgentRecorder = field(init=False)
    _times: dict[MessageId, str | None] = field(default_factory=dict)
    """Entry -> its time in its commit, for the entries of its context."""
    _notifications: set[MessageId] = field(default_factory=set)
    """System messages that the program received or wrote during the session."""

    def __post_init__(self) -> None:
        """Start with an empty context."""
        self.recorder = AgentRecorder(self.session, self.id)

    @property
    def state(self) -> AgentState:
        """The state of the agent in the session."""
        return self.session.agents[self.id]

    @property
    def last_utterance(self) -> tuple[MessageId, str] | None:
        """Its last utterance, as entry and text."""
        for entry in reversed(self.state.transcript or ()):
            if entry.is_utterance:
                return entry.message_id, text_of(entry.content)
        return None

    def open_calls(self) -> list[OpenCall]:
        """Return the calls in its context that have no result."""
        ids = {id_ for item in self.recorder.items for id_ in item.ids}
        calls = self.state.open_calls.values()
        return [call for call in calls if reference_message_id(call.reference) in ids]

    def log_request(self, answer: ConversationEntry) -> None:
        """Log a model request, before its answer."""
        self.session.time = self.time
        model = find_model(answer)
        if model is not None and model != self.model:
            self.model = model
            self.session.append(ev.AgentConfigured(agent_id=self.id, language_model=model))
        sent_request = self.requests.find(find_response_id(answer))
        stated = StatedRequest.from_source(answer.source)
        source = sent_request or stated
        settings = RequestSettings(
            model=self.model or UNKNOWN,
            parameters=source.parameters if source is not None else {},
            tools=sent_request.tools if sent_request is not None else (),
            evidence="rebuilt",
            missing=self._find_missing(sent_request, stated),
        )
        self.recorder.log_request_for_context(settings)

    def log_entry(self, entry: ConversationEntry, time: str) -> None:
        """Log an input or an answer, and the model response if there was a request."""
        self.time = self.session.time = time
        request = self.recorder.open_request
        if request is not None and not is_failure(entry):
            finish = Finish(
                stop_reason=find_stop_reason(entry) or "",
                usage=parse_usage(entry),
                model=find_model(entry),
            )
            self.recorder.log_response(request, [Item.from_message(entry.message)], finish=finish)
        else:
            self._append(entry.message)
            if request is not None:
                error = text_of(entry.message.content)
                self.recorder.log_response(request, finish=Finish(stop_reason="error"), error=error)
        self._note_entry(self.recorder.items[-1], entry)

    def _append(self, message: Message) -> None:
        """Log a message that is no answer of a model call."""
        substance = cause = None
        if message.role == "user" and self.prompt is not None:
            substance = self.prompt[0] if text_of(message.content) == self.prompt[1] else None
            self.prompt = None
        elif message.role == "tool":
            substance, cause = self._find_origin(message)
        self.recorder.append_item(Item.from_message(message), substance=substance, cause=cause)

    def log_replacement(self, entries: Sequence[ConversationEntry], reason: str, time: str) -> None:
        """Log an edit that replaces the complete context."""
        self.time = self.session.time = time
        items = [Item.from_message(entry.message) for entry in entries]
        summaries = [
            (is_summary(entry), index)
            for index, (entry, item) in enumerate(zip(entries, items, strict=True))
            if entry.message.role == "user" and item.key not in self.recorder.items_by_key
        ]
        summary = max(summaries)[1] if summaries else None
        self.recorder.set_context(items, reason=reason, summary=summary)
        for entry, logged in zip(entries, self.recorder.items, strict=True):
            if logged.ids[0] not in self._times:
                self._note_entry(logged, entry)

    def log_rewind(self, target: Sequence[LoggedItem]) -> None:
        """Log a rewind to an earlier context."""
        self.session.time = self.time
        self.recorder.restore(target, "rewound")

    def inherit(self, parent: AgentEvents, count: int) -> None:
        """Log that it starts with the first messages of its parent's context."""
        self.session.time = self.time
        self.recorder.inherit(parent.recorder, count)
        inherited = [item.ids[0] for item in self.recorder.items]
        self._times |= {id_: parent._times[id_] for id_ in inherited}
        self._notifications |= parent._notifications

    def count_common(self, entries: Sequence[ConversationEntry]) -> int:
        """Return how many entries begin its context, too: the same messages at the same times."""
        count = 0
        for entry, item in zip(entries, self.recorder.items, strict=False):
            same_time = entry.time == self._times[item.ids[0]]
            if not same_time or message_key(entry.message) != item.key:
                break
            count += 1
        return count

    def log_commit(self, stored: StoredCommit) -> None:
        """Log that the context is in a commit."""
        self.session.time = self.time
        own_entries = self.state.transcript
        event = ev.ContextCommitted(
            agent_id=self.id,
            ctx=stored.id,
            parent_ctx=stored.commit.parent,
            checkpoint=stored.commit.checkpoint,
            upto=own_entries[-1].message_id if own_entries else None,
        )
        self.session.append(event)

    def _note_entry(self, logged: LoggedItem, entry: ConversationEntry) -> None:
        self._times[logged.ids[0]] = entry.time
        if (entry.source or {}).get("kind") == NOTIFICATION:
            self._notifications.add(logged.ids[0])

    def _find_missing(
        self, sent_request: SentRequest | None, stated: StatedRequest | None
    ) -> list[ev.RequestPart]:
        """Return the parts of a request that neither commits nor the transcript have.

        A program may have added messages for one request only, unless its transcript states that it
        did not, or the hashes of all messages are those of the conversation.
        """
        if sent_request is not None:
            has_all = self.requests.has_only_known(sent_request, self.recorder.count)
            return [] if has_all else ["messages"]
        known_parts: list[ev.RequestPart] = []
        if stated is not None:
            known_parts += stated.known
        elif self._begins_with_system_prompt():
            known_parts.append("system")
        return [part for part in get_args(ev.RequestPart) if part not in known_parts]

    def _begins_with_system_prompt(self) -> bool:
        """Whether the context begins with a system message that is no notification."""
        first = next(iter(self.recorder.items), None)
        if first is None or first.role != "system":
            return False
        return first.ids[0] not in self._notifications

    def _find_origin(self, result: Message) -> tuple[MessageId | None, MessageId | None]:
        """Return the substance and the cause of a result, if it has a spawned agent's utterance."""
        spawned_agent = self.spawned.get(result.tool_call_id or "")
        utterance = None if spawned_agent is None else spawned_agent.last_utterance
        if utterance is None:
            return None, None
        id_, utterance_text = utterance[0], utterance[1].strip()
        text = text_of(result.content).strip()
        if text == utterance_text:
            return id_, None
        return None, (id_ if utterance_text in text else None)


def normalize_time(entry: ConversationEntry, before: str) -> str:
    """Return the normalized time of an entry, or `before` if it has none.

    >>> normalize_time(ConversationEntry(Message("user"), "2026-01-31T13:00:00+01:00"), "")
    '2026-01-31T12:00:00.000000Z'
    """
    time = entry.time
    if time is None or (len(time) == _TIME_CHARS and time.endswith("Z")):
        return time or before
    try:
        return format_rfc3339(parse_rfc3339(time))
    except (ValueError, OverflowError):
        return before
