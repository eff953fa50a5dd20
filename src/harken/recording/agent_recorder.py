"""`AgentRecorder`: one agent of a recorded session. What it reads and says is brought into the log.

One idea: each request is given whole, and the log gets what is new of it. What the agent has in its
context is known as a row of items; a request that is that row and more is logged as its new
entries, any other one as an edit made of ranges besides. So n requests cost O(n) bytes, and a
request costs the time of comparing its keys.

Between `ask` and `answer` nothing else may be done with the agent; what the row says is what the
log says at any moment, also after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from harken.core import canonical
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ChatMessage,
    Message,
    UnknownPart,
    extend_context_hash_with,
    message_hash,
)
from harken.core.stream import Finish, partial_of
from harken.formats.wire.base import Form
from harken.recording.context_diff import SegmentBuilder, places, shared
from harken.recording.item import Item, LoggedItem, plain_key
from harken.session.fold import held
from harken.session.session import Session, entry_of

JOINED = {"joined": True}
"""The form of an entry that is one item with the entry before it."""
UNNAMED = "unnamed"
"""The tool, or the call, of a result that does not say which it is."""
Known: TypeAlias = Callable[[Sequence[ChatMessage], Form], tuple[str, str]]
"""Entries of one item and its form -> its key and likeness."""


class AgentRecorder:
    """One agent that another program runs, in the log of a session."""

    def __init__(self, session: Session, agent_id: str) -> None:
        """Begin with an agent that was born and has heard nothing."""
        self.session = session
        self.agent_id = AgentId(agent_id)
        self.row: list[LoggedItem] = []
        """What is in its context, oldest first."""
        self.asked = 0
        """So many of them were in its last request."""
        self.open: MessageId | None = None
        """Its request that has no answer yet."""
        self.told_by: MessageId | None = None
        """What tells it what a user would; None: a person does."""
        self.known: dict[str, list[LoggedItem]] = {}
        """All that it ever heard, by key."""
        self._before: list[tuple[int, str]] = [(0, "")]
        """Before each item: how many messages there are, and their rolling hash."""
        self._tools: dict[bytes, MessageId] = {}
        self._called: dict[str, str] = {}
        """Call -> its tool."""

    @classmethod
    def beside(cls, other: AgentRecorder, agent_id: str) -> AgentRecorder:
        """Begin with an agent whose first request may go on from what another one heard."""
        voice = cls(other.session, agent_id)
        voice.known = {key: list(same) for key, same in other.known.items()}
        voice._called = dict(other._called)
        voice.told_by = other.told_by
        return voice

    @classmethod
    def resumed(
        cls,
        session: Session,
        agent_id: str,
        *,
        forms: Mapping[MessageId, Form] | None = None,
        known: Known | None = None,
        shared_by: dict[tuple[MessageId, ...], LoggedItem] | None = None,
    ) -> AgentRecorder:
        """Go on with an agent as its log has it.

        forms: what the log said last of how entries are written; known: how keys are made, for
        items that are no messages of Harken's own kind; shared_by: what the agents of the session
        have heard, by its entries: what this one did is added to it.
        """
        voice = cls(session, agent_id)
        there_are = {} if shared_by is None else shared_by
        agent, forms = session.agent(agent_id), forms or {}
        keys = known or (lambda messages, _: (plain_key(messages[0]), ""))
        own = {one.message_id: one for one in held(agent)}
        there = [one for one in session.context(agent_id) if isinstance(one, ev.TranscriptEntry)]
        in_context = {one.message_id for one in there}
        asked = 0 if agent.request is None else agent.request.count
        for entries in items_of(there, forms):
            voice.asked += voice._before[-1][0] < asked
            is_answer = voice._before[-1][0] >= asked and entries[0].role == "assistant"
            heard = _from_log(entries, forms, keys, there_are, is_answer=is_answer)
            voice._remember(heard)
            voice._place(heard)
        others = [one for id_, one in own.items() if id_ not in in_context]
        for entries in items_of(others, forms):
            voice._remember(_from_log(entries, forms, keys, there_are, is_answer=False))
        for one in own.values():
            voice._learn_calls(one)
        voice.open = _open_request(session, voice.agent_id)
        return voice

    @property
    def count(self) -> int:
        """How many messages are in its context."""
        return self._before[-1][0]

    @property
    def context_hash(self) -> str:
        """Their rolling hash."""
        return self._before[-1][1]

    def before(self, index: int) -> tuple[int, str]:
        """Return how many messages stand before an item of the row, and their rolling hash."""
        return self._before[index]

    def ask(
        self,
        items: Sequence[Item],
        *,
        model: str,
        parameters: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        wire: Mapping[str, Any] | None = None,
        reason: str = "rewritten",
        summary: int | None = None,
    ) -> MessageId:
        """Log a request for these items, and what is new of them; return its id.

        reason: why the context is another one, where it is; summary: the item that sums up what
        was left out. A request before it that has no answer is one that was interrupted. Raises
        InvalidEvent, LogError.
        """
        if self.open is not None:
            self.answer(self.open, finish=Finish(stop_reason="interrupted"))
        self._arrange(items, reason, summary)
        forms = self._dressed(items)
        if wire is not None:
            wire = {**wire, "forms": forms} if forms else wire
        request = ev.LlmRequest(
            agent_id=self.agent_id,
            context=self.session.agent(self.agent_id).segments(),
            count=self.count,
            context_hash=self.context_hash,
            model=model,
            parameters=dict(parameters) if parameters else None,
            tools=self._tools_id(tools),
            wire=None if wire is None else dict(wire),
        )
        self.open = self.session.append(request)
        self.asked = len(self.row)
        return self.open

    def answer(
        self,
        request_id: MessageId,
        items: Sequence[Item] = (),
        *,
        finish: Finish | None = None,
        latency_s: float | None = None,
        error: str = "",
        partial: tuple[str, str] = ("", ""),
    ) -> MessageId | None:
        """Log what was answered, and how the call ended; return the last entry of the answer.

        partial: thinking and text of an answer of which nothing else is usable. Raises
        InvalidEvent where the request is not the one that waits, LogError.
        """
        entry = None
        for item in items:
            heard = self._append(item)
            heard.likeness = item.likeness
            entry = heard.ids[-1]
        finish = finish or Finish(stop_reason="error" if error else "interrupted")
        self.session.append(
            ev.LlmResponse(
                agent_id=self.agent_id,
                request=request_id,
                entry=entry,
                stop_reason=finish.stop_reason,
                model=finish.model,
                usage=finish.usage,
                cost_usd=finish.cost_usd,
                latency_s=latency_s,
                error=error or None,
                partial=partial_of(*partial),
            )
        )
        self.open = None
        return entry

    def bring(
        self, items: Sequence[Item], *, reason: str = "rewritten", summary: int | None = None
    ) -> None:
        """Make these items the agent's context, without a request. As `ask`."""
        self._arrange(items, reason, summary)

    def hear(self, item: Item) -> LoggedItem:
        """Add an item to the end of the context, without a request. As `ask`."""
        return self._append(item)

    def _arrange(self, items: Sequence[Item], reason: str, summary: int | None) -> None:
        """Make these items the agent's context."""
        common = shared(items, self.row)
        for item, heard in zip(items[:common], self.row, strict=False):
            heard.likeness = ""
            self._rename(heard, item.key)
        rest, size = items[common:], self.count
        found = places(items, self.row, common, self.known)
        is_more = common == len(self.row) and all(place.is_new for place in found)
        new = {at: self._append(rest[at]) for at, place in enumerate(found) if place.is_new}
        if is_more:
            return
        segments = SegmentBuilder([])
        segments.keep(0, self._before[common][0])
        arranged: list[LoggedItem] = []
        for at, place in enumerate(found):
            heard = new.get(at) or place.returns or self.row[place.index or 0]
            arranged.append(heard)
            self._rename(heard, rest[at].key)
            if place.returns is not None:
                segments.name(heard.ids)
            elif place.is_new:
                segments.keep(size, size + heard.size)
                size += heard.size
            else:
                start = self._before[place.index or 0][0]
                segments.keep(start, start + heard.size)
        # Nothing stands between here and the append that could fail: row and log stay one.
        target = self.row[:common] + arranged
        sums_up = target[summary].ids[0] if summary is not None else None
        self.session.append(
            ev.TranscriptEdited(
                agent_id=self.agent_id, segments=segments.made, summary=sums_up, reason=reason
            )
        )
        del self.row[common:], self._before[common + 1 :]
        for heard in arranged:
            heard.likeness = ""
            self._place(heard)

    def _dressed(self, items: Sequence[Item]) -> dict[str, Form]:
        """Return the forms that are new with this request, and hold them for logged."""
        forms: dict[str, Form] = {}
        for at, (item, heard) in enumerate(zip(items, self.row, strict=True)):
            if item.dress == heard.dress:
                continue
            form = item.form(self._entries(at))
            if not _equal(form, heard.form):
                forms[heard.ids[0]] = heard.form = form
            if not heard.is_joined:
                forms |= dict.fromkeys(heard.ids[1:], JOINED)
                heard.is_joined = True
            heard.dress = item.dress
        return forms

    def _entries(self, index: int) -> Sequence[ChatMessage]:
        start, heard = self._before[index][0], self.row[index]
        return self.session.context(self.agent_id)[start : start + heard.size]

    def _append(self, item: Item) -> LoggedItem:
        """Log a new item at the end of the context."""
        ids: list[MessageId] = []
        hashes: list[str] = []
        first = item.messages[0]
        for message in item.messages:
            cause = self.told_by if message.role == "user" else None
            entry = entry_of(self.agent_id, self._loggable(message), cause=cause)
            ids.append(self.session.append(entry))
            logged = self.session.context(self.agent_id)[-1]
            hashes.append(message_hash(logged))
            self._learn_calls(logged)
        heard = LoggedItem(item.key, tuple(ids), tuple(hashes), first.role)
        self._remember(heard)
        self._place(heard)
        return heard

    def _place(self, heard: LoggedItem) -> None:
        """Note that an item is at the end of the context."""
        count, context_hash = self._before[-1]
        for hash_ in heard.hashes:
            context_hash = extend_context_hash_with(context_hash, hash_)
        self.row.append(heard)
        self._before.append((count + heard.size, context_hash))

    def _remember(self, heard: LoggedItem) -> None:
        """Note that it was heard; once for each, since many may say the same."""
        self.known.setdefault(heard.key, []).append(heard)

    def _rename(self, heard: LoggedItem, key: str) -> None:
        """Know an answer by the key of its client's copy, too."""
        if heard.key != key:
            heard.key = key
            self._remember(heard)

    def _loggable(self, message: Message) -> Message:
        """Return a message as the log takes it: a result names its call and its tool."""
        if message.role == "tool":
            id_ = message.tool_call_id or UNNAMED
            name = message.name or self._called.get(id_) or UNNAMED
            message = Message("tool", message.content, None, id_, name, message.is_error)
        try:
            message_hash(message)
        except ValueError:  # places of calls that are not there, and such: kept as they came
            part = UnknownPart("message", canonical.to_json_line(message).decode())
            message = Message(
                message.role, [part], tool_call_id=message.tool_call_id, name=message.name
            )
        return message

    def _learn_calls(self, message: ChatMessage) -> None:
        for call in message.tool_calls or ():
            self._called[call.id] = call.function.name

    def _tools_id(self, tools: Sequence[Mapping[str, Any]]) -> MessageId | None:
        """Return the event that holds these schemas, written where no earlier one does."""
        if not tools:
            return None
        raw = canonical.to_json_line(tools)
        if raw in self._tools:
            return self._tools[raw]
        tools_hash = canonical.hash_value(canonical.TOOLS, tools)
        id_ = self.session.state.tools.get(tools_hash)
        if id_ is None:
            schemas = [dict(schema) for schema in tools]
            id_ = self.session.append(ev.ToolsDefined(tools=schemas, tools_hash=tools_hash))
        self._tools = {raw: id_}
        return id_


def _equal(one: Form, other: Form) -> bool:
    """Whether two forms are one, `1` and `1.0` and `true` being three."""
    if one is None or other is None:
        return one is other
    return canonical.to_canonical_bytes(one) == canonical.to_canonical_bytes(other)


def items_of(
    entries: Sequence[ev.TranscriptEntry], forms: Mapping[MessageId, Form]
) -> list[list[ev.TranscriptEntry]]:
    """Return entries as items: each with those that are joined to it."""
    found: list[list[ev.TranscriptEntry]] = []
    for entry in entries:
        if found and forms.get(entry.message_id) == JOINED:
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _from_log(
    entries: Sequence[ev.TranscriptEntry],
    forms: Mapping[MessageId, Form],
    known: Known,
    there_are: dict[tuple[MessageId, ...], LoggedItem],
    *,
    is_answer: bool,
) -> LoggedItem:
    """Return entries as they were heard: one for all agents that share them, as their forms are."""
    ids = tuple(entry.message_id for entry in entries)
    heard = there_are.get(ids)
    if heard is None:
        form = forms.get(entries[0].message_id)
        key, likeness = known(entries, form)
        hashes = tuple(message_hash(entry) for entry in entries)
        heard = LoggedItem(key, ids, hashes, entries[0].role, form, likeness=likeness)
        heard.is_joined = not is_answer
        there_are[ids] = heard
    if not is_answer:  # somebody sent it back
        heard.is_joined, heard.likeness = True, ""
    return heard


def _open_request(session: Session, agent_id: AgentId) -> MessageId | None:
    request = session.state.requests.get(agent_id)
    return None if request is None else request.message_id
