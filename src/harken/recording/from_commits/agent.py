"""The events of one agent: converts its entries, one by one, to the events of a session log.

The agent's context is tracked with the state of the fold, message by message, so that each model
call references exactly the messages that the commits contain. All terms of a log (birth, link,
edit) have the same meaning here.

Source: docs/formats/session-log.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.messages import Message, ToolCall, text_of
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.sent_requests import SentRequest
from harken.recording.from_commits.event_log import AgentContext, ContextItem, EventLog, message_key
from harken.recording.from_commits.response_facts import (
    UNKNOWN,
    find_model,
    find_response_id,
    find_stop_reason,
    is_failure,
    is_summary,
    parse_usage,
)
from harken.recording.from_commits.tool_calls import UNNAMED, build_repeated_call, make_ids_unique
from harken.session.fold import current_messages
from harken.session.state import AgentState
from harken.store.base import StoredCommit

NO_RESULT_TEXT = "[no result: the conversation went on from an earlier message]"
"""The result of a call in an abandoned branch, if it had none."""
_TIME_CHARS = len("2026-01-31T12:00:00.000000Z")


@dataclass(slots=True)
class AgentEvents:
    """The converter of one agent."""

    log: EventLog
    id: AgentId
    birth: MessageId
    time: str
    """The time of its last event."""
    model: str | None = None
    context: AgentContext = field(default_factory=AgentContext)
    prompt: tuple[MessageId, str] | None = None
    """The text that another agent created for it, which is its first input."""
    last_utterance: tuple[MessageId, str] | None = None
    """Its last utterance."""
    spawned: dict[str, AgentEvents] = field(default_factory=dict)
    """Call -> the agent that it created."""
    last: MessageId | None = None
    """Its last entry."""
    _calls: dict[str, tuple[MessageId, ToolCall]] = field(default_factory=dict)
    """Id of a call -> the first message with it."""
    _renamed_ids: dict[str, str] = field(default_factory=dict)
    """Id of an open call -> its renamed id in the log, if that differs."""
    _request: MessageId | None = None

    @property
    def state(self) -> AgentState:
        """The state of the agent in the log."""
        return self.log.state.agents[self.id]

    def log_request(self, answer: ConversationEntry) -> None:
        """Log a model request, before its answer."""
        model = find_model(answer)
        if model is not None and model != self.model:
            self.model = model
            event = ev.AgentConfigured(agent_id=self.id, language_model=model)
            self.log.append(event, self.time)
        sent_request = self.log.requests.find(find_response_id(answer))
        request = ev.LlmRequest(
            agent_id=self.id,
            context=self.state.segments(),
            count=len(self.context),
            context_hash=self.context.hash,
            model=self.model or UNKNOWN,
            parameters=dict(sent_request.parameters) if sent_request is not None else None,
            tools=self._log_tools(sent_request.tools) if sent_request is not None else None,
            evidence="rebuilt",
            missing=self._find_missing(sent_request) or None,
        )
        self._request = self.log.append(request, self.time)

    def log_entry(self, entry: ConversationEntry, time: str) -> None:
        """Log an input or an answer, and the model response if there was a request."""
        count = len(self.context)
        self.time = time
        item = self._append_message(entry)
        request, self._request = self._request, None
        if request is not None:
            self._log_response(entry, request, item.id)
        if len(self.context) > count + 1:  # Synthesized calls are not part of the context.
            self.log_edit([*self.context.held[:count], item], "a result without its call")

    def log_replacement(self, entries: Sequence[ConversationEntry], reason: str, time: str) -> None:
        """Log an edit that replaces the complete context."""
        self.time = time
        repeated = self.context.repeated([message_key(entry.message) for entry in entries])
        target: list[ContextItem] = []
        summaries: list[tuple[bool, MessageId]] = []
        for entry, repeated_item in zip(entries, repeated, strict=True):
            item = self._append_message(entry) if repeated_item is None else repeated_item
            target.append(item)
            if repeated_item is None and entry.message.role == "user":
                summaries.append((is_summary(entry), item.id))
        self.log_edit(target, reason, max(summaries)[1] if summaries else None)

    def log_rewind(self, target: Sequence[ContextItem]) -> None:
        """Log a rewind to an earlier context. Open calls get a result first."""
        if self.state.open_calls:
            target_ids = {item.id for item in target}
            calls = [*self.state.open_calls.values()]
            for call in calls:
                if reference_message_id(call.reference) not in target_ids:
                    self._append(
                        self._build_result(call.id, Message("tool", NO_RESULT_TEXT, is_error=True))
                    )
        self.log_edit(target, "rewind")

    def log_edit(
        self, target: Sequence[ContextItem], reason: str, summary: MessageId | None = None
    ) -> None:
        """Log an edit of the context, unless it is unchanged."""
        if [item.id for item in target] == [item.id for item in self.context.held]:
            return
        event = ev.TranscriptEdited(
            agent_id=self.id,
            segments=self.context.segments(target),
            summary=summary,
            reason=reason,
        )
        self.log.append(event, self.time)
        self.context = self.context.instead(target)

    def log_commit(self, stored: StoredCommit) -> None:
        """Log that the context is in a commit."""
        event = ev.ContextCommitted(
            agent_id=self.id,
            ctx=stored.id,
            parent_ctx=stored.commit.parent,
            checkpoint=stored.commit.checkpoint,
            upto=self.last,
        )
        self.log.append(event, self.time)

    def _find_missing(self, sent_request: SentRequest | None) -> list[ev.RequestPart]:
        """Return the parts of a request that neither commits nor the transcript have.

        A program may have added messages for one request only, unless the hashes of all messages
        are those of the conversation.
        """
        if sent_request is not None:
            has_all = self.log.requests.has_only_known(sent_request, len(self.context))
            return [] if has_all else ["messages"]
        has_system = any(message.role == "system" for message in current_messages(self.state))
        return ["messages", "tools"] if has_system else ["messages", "system", "tools"]

    def _log_tools(self, tools: Sequence[Mapping[str, ev.Json]]) -> MessageId | None:
        """Return the event that holds these schemas. Log it if no earlier event does."""
        if not tools:
            return None
        tools_hash = canonical.hash_value(canonical.TOOLS_DOMAIN, tools)
        schemas = [dict(schema) for schema in tools]
        return self.log.state.tools.get(tools_hash) or self.log.append(
            ev.ToolsDefined(tools=schemas, tools_hash=tools_hash), self.time
        )

    def _log_response(
        self, entry: ConversationEntry, request: MessageId, answer: MessageId
    ) -> None:
        failed = is_failure(entry)
        response = ev.LlmResponse(
            agent_id=self.id,
            request=request,
            entry=None if failed else answer,
            stop_reason=find_stop_reason(entry),
            model=find_model(entry),
            usage=parse_usage(entry),
            error=text_of(entry.message.content) if failed else None,
        )
        self.log.append(response, self.time)

    def _append_message(self, entry: ConversationEntry) -> ContextItem:
        """Append a message to the transcript."""
        match entry.message.role:
            case "assistant":
                event = self._build_answer(entry.message)
            case "tool":
                event = self._build_tool_result(entry.message)
            case _:
                event = self._build_input(entry.message)
        return self._append(event, entry.time)

    def _append(self, event: ev.TranscriptEntry, time: str | None = None) -> ContextItem:
        id_ = self.log.append(event, self.time)
        item = ContextItem(id_, message_key(event), time)
        self.context.add(item)
        self.last = id_
        for call in event.tool_calls or ():
            self._calls.setdefault(call.id, (event.substance or id_, call))
        if event.is_utterance:
            self.last_utterance = id_, text_of(event.content)
        return item

    def _build_answer(self, message: Message) -> ev.TranscriptEntry:
        message, renamed = make_ids_unique(message, self.state.open_calls)
        self._renamed_ids |= renamed
        return ev.TranscriptEntry(
            agent_id=self.id,
            role="assistant",
            content=message.content,
            tool_calls=message.tool_calls or None,
            name=message.name,
        )

    def _build_input(self, message: Message) -> ev.TranscriptEntry:
        prompt, substance = self.prompt, None
        if prompt is not None and message.role == "user":
            self.prompt = None
            substance = prompt[0] if text_of(message.content) == prompt[1] else None
        return ev.TranscriptEntry(
            agent_id=self.id,
            role=message.role,
            content=message.content,
            name=message.name,
            substance=substance,
        )

    def _build_tool_result(self, message: Message) -> ev.TranscriptEntry:
        """Build the entry of a result. If its call is not open, the call is repeated first."""
        native_id = message.tool_call_id or ""
        id_ = self._renamed_ids.pop(native_id, native_id) or "call"
        if id_ not in self.state.open_calls:
            original, call = self._calls.get(id_, (None, None))
            repeated_call = ev.TranscriptEntry(
                agent_id=self.id,
                role="assistant",
                tool_calls=[build_repeated_call(call, id_, message.name)],
                substance=original,
            )
            self._append(repeated_call)
        substance, cause = self._find_origin(id_, message)
        return self._build_result(id_, message, substance, cause)

    def _build_result(
        self,
        call: str,
        message: Message,
        substance: MessageId | None = None,
        cause: MessageId | None = None,
    ) -> ev.TranscriptEntry:
        """Build the entry of the result of an open call."""
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

    def _find_origin(
        self, call: str, message: Message
    ) -> tuple[MessageId | None, MessageId | None]:
        """Return the substance and the cause of a result, if it has a spawned agent's utterance."""
        spawned_agent = self.spawned.get(call)
        if spawned_agent is None or spawned_agent.last_utterance is None:
            return None, None
        id_, utterance = spawned_agent.last_utterance[0], spawned_agent.last_utterance[1].strip()
        text = text_of(message.content).strip()
        if text == utterance:
            return id_, None
        return None, (id_ if utterance in text else None)


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
