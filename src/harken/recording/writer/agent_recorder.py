"""`AgentRecorder`: log the requests and responses of one agent of a recorded session.

The session has a file, or is in memory (`MemorySession`). Each request is passed complete, and only
its new part is logged. The context of an agent is a list of items. A request that extends this list
is logged as its new entries, any other request as an edit made of ranges as well. So n requests
cost O(n) bytes, and a request costs the time to compare its keys.

Between `log_request` and `log_response` nothing else may be done with the agent. The item list
equals the context in the log at any time, also after an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any
from weakref import ReferenceType, ref

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ChatMessage,
    Message,
    UnknownPart,
    message_hash,
)
from harken.core.stream import Finish, format_partial
from harken.formats.shared_list import SharedList
from harken.formats.wire.base import Form
from harken.recording.writer.context_diff import SegmentBuilder, common_prefix_length, find_origins
from harken.recording.writer.item import ContextPrefix, Item, LoggedItem, SharedItems, message_key
from harken.recording.writer.logged_items import (
    JOINED_FORM,
    KeyFunction,
    group_items,
    load_item,
)
from harken.recording.writer.memory_session import WritableSession
from harken.recording.writer.request import RequestSettings
from harken.session.fold import iter_loaded_entries
from harken.session.session import build_entry

UNNAMED_CALL = "unnamed"
"""The tool name, or the call id, of a tool result that does not name its own."""


class AgentRecorder:
    """One agent of another program, in the log of a session."""

    def __init__(self, session: WritableSession, agent_id: str) -> None:
        """Start with an agent that exists in the log and has an empty context."""
        self.session = session
        self.agent_id = AgentId(agent_id)
        self.items: list[LoggedItem] = []
        """The items of its context, oldest first."""
        self.requested_count = 0
        """The number of these items that its last request had."""
        self.open_request: MessageId | None = None
        """Its request that has no response yet."""
        self.user_message_cause: MessageId | None = None
        """The cause of its user messages. None if they come from a person."""
        self.items_by_key: dict[str, list[LoggedItem]] = {}
        """All items it ever had, by key."""
        self._shared = SharedItems()
        """The items that it may share with other agents."""
        self._requested_items: ReferenceType[SharedList[Item]] | None = None
        """The items of its last request, while they are cached."""
        self._equal_count = 0
        """The number of these that equal the first items of its context."""
        self._changes_seen = 0
        """The number of changes of shared items when they were compared."""
        self._before = [ContextPrefix()]
        """The prefix before each item, and the whole context."""
        self._tools: dict[bytes, MessageId] = {}
        self._parsed_tools: tuple[object, MessageId] | None = None
        """The tools of its last request, if they are of a wire protocol, and their event."""
        self._names: dict[str, str] = {}
        """Call id -> tool name."""

    @classmethod
    def forked_from(cls, source: AgentRecorder, agent_id: str) -> AgentRecorder:
        """Create a recorder for an agent whose first request may reuse items of another agent."""
        recorder = cls(source.session, agent_id)
        recorder.items_by_key = {key: list(items) for key, items in source.items_by_key.items()}
        recorder._names, recorder._shared = dict(source._names), source._shared
        recorder.user_message_cause = source.user_message_cause
        return recorder

    @classmethod
    def from_log(
        cls,
        session: WritableSession,
        agent_id: str,
        *,
        forms: Mapping[MessageId, Form] | None = None,
        known: KeyFunction | None = None,
        shared_by: SharedItems | None = None,
    ) -> AgentRecorder:
        """Restore an agent from its log.

        forms: the last logged form of each entry; known: computes keys, for items that are not
        messages of Harken's own kind; shared_by: the items of all agents of the session. The items
        of this agent are added to it.
        """
        recorder = cls(session, agent_id)
        recorder._shared = shared_by or SharedItems()
        shared_items = recorder._shared.by_entries
        agent, forms = session.agent(agent_id), forms or {}
        make_key = known or (lambda messages, _: (message_key(messages[0]), ""))
        agent_entries = {entry.message_id: entry for entry in iter_loaded_entries(agent)}
        context_entries = [
            entry for entry in session.context(agent_id) if isinstance(entry, ev.TranscriptEntry)
        ]
        context_ids = {entry.message_id for entry in context_entries}
        request_count = 0 if agent.request is None else agent.request.count
        for entries in group_items(context_entries, forms):
            recorder.requested_count += recorder.count < request_count
            is_answer = recorder.count >= request_count and entries[0].role == "assistant"
            item = load_item(entries, forms, make_key, shared_items, is_answer=is_answer)
            recorder._remember(item)
            recorder._place(item)
        other_entries = [entry for id_, entry in agent_entries.items() if id_ not in context_ids]
        for entries in group_items(other_entries, forms):
            recorder._remember(load_item(entries, forms, make_key, shared_items, is_answer=False))
        for entry in agent_entries.values():
            recorder._learn_calls(entry)
        recorder.open_request = _open_request(session, recorder.agent_id)
        return recorder

    @property
    def count(self) -> int:
        """The number of messages in its context."""
        return self._before[-1].message_count

    @property
    def context_hash(self) -> str:
        """The rolling hash of the messages in its context."""
        return self._before[-1].context_hash

    def prefix_at(self, index: int) -> ContextPrefix:
        """Return the part of its context before an item."""
        return self._before[index]

    def count_common(self, items: Sequence[Item]) -> int:
        """Return how many items at the beginning of a request its context has.

        The items that its last request had, too, are not compared again.
        """
        start = self._count_compared(items)
        return start + common_prefix_length(items[start:], self.items[start:])

    def log_request(
        self,
        items: Sequence[Item],
        settings: RequestSettings,
        *,
        reason: str = "rewritten",
        summary: int | None = None,
    ) -> MessageId:
        """Log a request for these items, with what is new in them. Return its id.

        reason: why the context changed, if it did; summary: the index of the item that summarizes
        what was left out. An earlier request without a response is logged as interrupted. Raises
        InvalidEvent, LogError.
        """
        self._close_request()
        compared_count = self._arrange(items, reason, summary)
        forms = self._dressed(items, compared_count)
        self._requested_items = ref(items) if isinstance(items, SharedList) else None
        self._equal_count, self._changes_seen = len(items), self._shared.change_count
        return self._log_request(settings, forms)

    def log_request_for_context(self, settings: RequestSettings) -> MessageId:
        """Log a request for the context as it is. Return its id. Errors as for `log_request`."""
        self._close_request()
        return self._log_request(settings, {})

    def _close_request(self) -> None:
        """Log that the open request was interrupted, if there is one."""
        if self.open_request is not None:
            self.log_response(self.open_request, finish=Finish(stop_reason="interrupted"))

    def _log_request(self, settings: RequestSettings, forms: Mapping[str, Form]) -> MessageId:
        """Log a request for the current context. forms: those that change with it."""
        wire = None if settings.wire is None else dict(settings.wire)
        if wire is not None and forms:
            wire["forms"] = dict(forms)
        request = ev.LlmRequest(
            agent_id=self.agent_id,
            context=self.session.agent(self.agent_id).segments(),
            count=self.count,
            context_hash=self.context_hash,
            model=settings.model,
            parameters=dict(settings.parameters) or None,
            tools=self._tools_id(settings.tools),
            wire=wire,
            evidence=settings.evidence,
            missing=list(settings.missing) or None,
        )
        self.open_request = self.session.append(request)
        self.requested_count = len(self.items)
        return self.open_request

    def log_response(
        self,
        request_id: MessageId,
        items: Sequence[Item] = (),
        *,
        finish: Finish | None = None,
        latency_s: float | None = None,
        error: str = "",
        partial: tuple[str, str] = ("", ""),
        extra: Mapping[str, Any] | None = None,
    ) -> MessageId | None:
        """Log the response to a request. Return the last entry of the answer.

        partial: thinking and text of an answer that is otherwise unusable. extra: further members
        of the event. Raises InvalidEvent if the request is not the open one, LogError.
        """
        entry = None
        for item in items:
            logged = self._append(item)
            logged.likeness = item.likeness
            entry = logged.ids[-1]
        finish = finish or Finish(stop_reason="error" if error else "interrupted")
        self.session.append(
            ev.LlmResponse(
                agent_id=self.agent_id,
                request=request_id,
                entry=entry,
                stop_reason=finish.stop_reason or None,
                model=finish.model,
                usage=finish.usage,
                cost_usd=finish.cost_usd,
                latency_s=latency_s,
                error=error or None,
                partial=format_partial(*partial),
                response_id=finish.response_id,
                unknown=dict(extra) if extra else None,
            )
        )
        self.open_request = None
        return entry

    def set_context(
        self, items: Sequence[Item], *, reason: str = "rewritten", summary: int | None = None
    ) -> None:
        """Make these items the agent's context, without a request.

        Arguments and errors are those of `log_request`.
        """
        self._arrange(items, reason, summary)

    def append_item(
        self, item: Item, *, substance: MessageId | None = None, cause: ev.Cause = None
    ) -> LoggedItem:
        """Append an item to the context, without a request. Errors as for `log_request`.

        substance, cause: the links of its entries. By default user messages have the cause of the
        recorder.
        """
        return self._append(item, substance, cause)

    def restore(self, items: Sequence[LoggedItem], reason: str) -> None:
        """Make logged items the context: those of an earlier moment. Errors as for `log_request`.

        Nothing is logged if they are the context already.
        """
        pairs = zip(items, self.items, strict=False)
        shared_count = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        if not shared_count == len(items) == len(self.items):
            self._edit(shared_count, items[shared_count:], reason, None)

    def inherit(self, source: AgentRecorder, count: int) -> None:
        """Begin with the first items of another agent's context. Errors as for `log_request`."""
        items = source.items[:count]
        for item in items:
            self._remember(item)
        self._names = dict(source._names)
        self.restore(items, "inherited")

    def _arrange(self, items: Sequence[Item], reason: str, summary: int | None) -> int:
        """Make these items the agent's context.

        Return how many of them were in the last request, too, and have not changed in the log.
        """
        compared_count = self._count_compared(items)
        shared_count = compared_count + common_prefix_length(
            items[compared_count:], self.items[compared_count:]
        )
        for item, logged in zip(
            items[compared_count:shared_count],
            self.items[compared_count:shared_count],
            strict=True,
        ):
            logged.likeness = ""
            self._rename(logged, item.key)
        tail_items = items[shared_count:]
        origins = find_origins(items, self.items, shared_count, self.items_by_key)
        is_more = shared_count == len(self.items) and all(origin.is_new for origin in origins)
        arranged = [
            self._append(item)
            if origin.is_new
            else origin.removed_item or self.items[origin.index or 0]
            for item, origin in zip(tail_items, origins, strict=True)
        ]
        if is_more:
            return compared_count
        for item, logged in zip(tail_items, arranged, strict=True):
            self._rename(logged, item.key)
        self._edit(shared_count, arranged, reason, summary)
        return compared_count

    def _edit(
        self, shared_count: int, arranged: Sequence[LoggedItem], reason: str, summary: int | None
    ) -> None:
        """Log that logged items follow the first `shared_count` items of the context."""
        tail = enumerate(self.items[shared_count:], shared_count)
        indexes = {id(logged): index for index, logged in tail}
        segments = SegmentBuilder([])
        segments.add_range(0, self._before[shared_count].message_count)
        for logged in arranged:
            index = indexes.get(id(logged))
            if index is None:
                segments.add_entries(logged.ids)
            else:
                start = self._before[index].message_count
                segments.add_range(start, start + logged.size)
        # Nothing from here to the append can fail, so the item list and the log stay equal.
        target = [*self.items[:shared_count], *arranged]
        sums_up = None if summary is None else target[summary].ids[0]
        self.session.append(
            ev.TranscriptEdited(
                agent_id=self.agent_id, segments=segments.segments, summary=sums_up, reason=reason
            )
        )
        self._equal_count = min(self._equal_count, shared_count)
        del self.items[shared_count:], self._before[shared_count + 1 :]
        for logged in arranged:
            logged.likeness = ""
            self._place(logged)

    def _count_compared(self, items: Sequence[Item]) -> int:
        """Return how many items were in the last request, too, and have not changed in the log.

        Other agents may have the same logged items, under other keys and in another dress.
        """
        requested_items = None if self._requested_items is None else self._requested_items()
        if not isinstance(items, SharedList) or requested_items is None:
            return 0
        if self._changes_seen != self._shared.change_count:
            return 0
        return min(items.common_length(requested_items), self._equal_count)

    def _dressed(self, items: Sequence[Item], start: int) -> dict[str, Form]:
        """Return the forms that change with this request, and note them as logged.

        start: the number of items that were in the last request, in the same dress.
        """
        forms: dict[str, Form] = {}
        pairs = zip(items[start:], self.items[start:], strict=True)
        for index, (item, logged) in enumerate(pairs, start):
            if item.dress == logged.dress:
                continue
            self._shared.change_count += logged.dress is not None
            form = item.form(self._entries(index))
            if not _equal(form, logged.form):
                forms[logged.ids[0]] = logged.form = form
            if not logged.is_joined:
                forms |= dict.fromkeys(logged.ids[1:], JOINED_FORM)
                logged.is_joined = True
            logged.dress = item.dress
        return forms

    def _entries(self, index: int) -> Sequence[ChatMessage]:
        start, item = self._before[index].message_count, self.items[index]
        return self.session.context(self.agent_id)[start : start + item.size]

    def _append(
        self, item: Item, substance: MessageId | None = None, cause: ev.Cause = None
    ) -> LoggedItem:
        """Log a new item at the end of the context."""
        ids: list[MessageId] = []
        hashes: list[str] = []
        messages = item.messages
        for message, known_hash in zip(messages, item.hashes or [""] * len(messages), strict=True):
            own_cause = self.user_message_cause if message.role == "user" else None
            loggable, hash_ = self._loggable(message, known_hash)
            entry = build_entry(
                self.agent_id,
                loggable,
                substance=substance,
                cause=cause if substance or cause else own_cause,
            )
            ids.append(self.session.append(entry))
            logged = self.session.context(self.agent_id)[-1]
            if logged.content != loggable.content or logged.tool_calls != entry.tool_calls:
                hash_ = message_hash(logged)  # JSON joins two surrogates into one character.
            hashes.append(hash_)
            if loggable.tool_calls:
                self._learn_calls(loggable)
        logged_item = LoggedItem(item.key, tuple(ids), tuple(hashes), messages[0].role)
        self._remember(logged_item)
        self._place(logged_item)
        return logged_item

    def _place(self, item: LoggedItem) -> None:
        """Add an item to the end of the item list."""
        self.items.append(item)
        self._before.append(self._before[-1].extend(item))

    def _remember(self, item: LoggedItem) -> None:
        """Index an item by its key. Several items may have the same key."""
        self.items_by_key.setdefault(item.key, []).append(item)

    def _rename(self, item: LoggedItem, key: str) -> None:
        """Index an item by the key of the client's copy as well."""
        if item.key != key:
            item.key = key
            self._shared.change_count += 1
            self._remember(item)

    def _loggable(self, message: Message, hash: str) -> tuple[Message, str]:
        """Return a message that the log accepts, and its hash. A result names its call and tool.

        hash: the hash of the message, or an empty string if it is not known.
        """
        if message.role == "tool":
            id_ = message.tool_call_id or UNNAMED_CALL
            name = message.name or self._names.get(id_) or UNNAMED_CALL
            message = Message("tool", message.content, None, id_, name, message.is_error)
        try:
            return message, hash or message_hash(message)
        except ValueError:  # A foreign message may be invalid, such as a slot of a missing call.
            part = UnknownPart("message", canonical.to_json_line(message).decode())
            message = Message(
                message.role, [part], tool_call_id=message.tool_call_id, name=message.name
            )
            return message, message_hash(message)

    def _learn_calls(self, message: ChatMessage) -> None:
        for call in message.tool_calls or ():
            self._names[call.id] = call.function.name

    def _tools_id(self, tools: Sequence[Mapping[str, Any]]) -> MessageId | None:
        """Return the event that holds these schemas. Log it if no earlier event does."""
        if not tools:
            return None
        if self._parsed_tools is not None and self._parsed_tools[0] is tools:
            return self._parsed_tools[1]
        raw = canonical.to_json_line(tools)
        id_ = self._tools.get(raw) or self._log_tools(tools)
        self._tools = {raw: id_}
        # Equal tools of two bodies are one tuple. A list may be changed by its program.
        self._parsed_tools = (tools, id_) if isinstance(tools, tuple) else None
        return id_

    def _log_tools(self, tools: Sequence[Mapping[str, Any]]) -> MessageId:
        tools_hash = canonical.hash_value(canonical.TOOLS_DOMAIN, tools)
        id_ = self.session.state.tools.get(tools_hash)
        if id_ is None:
            schemas = [dict(schema) for schema in tools]
            id_ = self.session.append(ev.ToolsDefined(tools=schemas, tools_hash=tools_hash))
        return id_


def _equal(left: Form, right: Form) -> bool:
    """Whether two forms have equal canonical bytes: `1`, `1.0` and `true` all differ."""
    if left is None or right is None:
        return left is right
    return canonical.to_canonical_bytes(left) == canonical.to_canonical_bytes(right)


def _open_request(session: WritableSession, agent_id: AgentId) -> MessageId | None:
    request = session.state.requests.get(agent_id)
    return None if request is None else request.message_id
