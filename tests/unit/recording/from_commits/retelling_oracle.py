"""The model calls of commits, computed from the commits alone, and compared with retold events.

`describe` returns the events of a session without their ids, so that two ways to log the same
conversation can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harken.context.commit_content import entries_or_note, read_contents
from harken.context.materialize import is_spawn
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.ids import AgentId, MessageId, reference_message_id
from harken.core.messages import ChatMessage, extend_context_hash, message_hash
from harken.formats.base import ConversationEntry
from harken.recording.from_commits.branches import AgentBranch, BranchTip, collect_branches
from harken.session.fold import current_messages, fold
from harken.session.state import SessionState
from harken.store.base import Store, StoredCommit

Call = tuple[str, str, str]
"""A model call: its agent, the rolling hash of its context, and the hash of its answer."""


def check_requests(store: Store, ends: Sequence[BranchTip], events: Sequence[ev.Event]) -> None:
    """Check that the events have the model calls of the commits, each with its context."""
    assert Counter(_iter_logged_calls(events)) == Counter(_CommitCalls.of(store, ends).calls())


def _iter_logged_calls(events: Sequence[ev.Event]) -> Iterator[Call]:
    """Yield the calls of events, each with the context that the fold rebuilds."""
    state, names = SessionState(), dict[AgentId | None, str]()
    contexts: dict[AgentId | None, str] = {}
    answers: dict[AgentId | None, str] = {}
    for event in events:
        if isinstance(event, ev.AgentCreated):
            names[event.agent_id] = event.name or ""
        elif isinstance(event, ev.LlmRequest):
            messages = current_messages(state.agents[event.agent_id or AgentId("")])
            contexts[event.agent_id], hash_ = event.context_hash, hash_messages(messages)
            assert (event.count, event.context_hash) == (len(messages), hash_)
        elif isinstance(event, ev.TranscriptEntry):
            answers[event.agent_id] = message_hash(event)
        elif isinstance(event, ev.LlmResponse):
            yield (
                names[event.agent_id],
                contexts.pop(event.agent_id),
                answers[event.agent_id],
            )
        fold(state, event)


@dataclass
class _CommitCalls:
    """The model calls of the commits of a session."""

    lanes: list[AgentBranch]
    entries: dict[CommitId, list[ConversationEntry]] = field(default_factory=dict)
    contexts: dict[CommitId, list[ConversationEntry]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, ends: Sequence[BranchTip]) -> _CommitCalls:
        commits = cls(collect_branches(store, ends))
        stored_commits = commits.stored()
        for content in read_contents(store, stored_commits):
            commits.entries.setdefault(content.stored.id, []).extend(entries_or_note(content))
        by_id = {stored.id: stored.commit for stored in stored_commits}
        for ctx in by_id:
            missing = [ctx]
            while missing[-1] not in commits.contexts:
                commit = by_id[missing[-1]]
                if commit.type != "delta" or commit.parent is None:
                    commits.contexts[missing[-1]] = commits.entries.get(missing[-1], [])
                elif commit.parent in commits.contexts:
                    own = commits.entries.get(missing[-1], [])
                    commits.contexts[missing[-1]] = [*commits.contexts[commit.parent], *own]
                else:
                    missing.append(commit.parent)
                    continue
                missing = missing[:-1] or missing
        return commits

    def stored(self) -> list[StoredCommit]:
        return [stored for lane in self.lanes for stored in lane.commits]

    def calls(self) -> Iterator[Call]:
        """Yield the calls: a context that is repeated or inherited has none of its own."""
        last = {
            _response_id(entry): entry
            for stored in sorted(self.stored(), key=lambda stored: stored.commit.type == "delta")
            if stored.commit.type == "delta" or is_spawn(stored)
            for entry in self.entries.get(stored.id, ())
        }
        for lane in self.lanes:
            for stored in lane.commits:
                if stored.commit.type != "delta" and not is_spawn(stored):
                    continue
                context = self.contexts[stored.id]
                own_start = len(context) - len(self.entries.get(stored.id, ()))
                if stored is lane.commits[0] and is_spawn(stored):
                    own_start = self._count_inherited(context, lane.origin)
                hash_ = ""
                for index, entry in enumerate(context):
                    response_id = _response_id(entry)
                    is_last = not response_id or last[response_id] is entry
                    if index >= own_start and is_last and _is_answer(entry):
                        yield lane.agent or "main", hash_, message_hash(entry.message)
                    hash_ = extend_context_hash(hash_, entry.message)

    def _count_inherited(
        self, context: Sequence[ConversationEntry], origin: CommitId | None
    ) -> int:
        above = self.contexts.get(origin, []) if origin else []
        for count, (entry, other) in enumerate(zip(context, above, strict=False)):
            if (entry.time, model_input(entry.message)) != (other.time, model_input(other.message)):
                return count
        return min(len(context), len(above))


def _is_answer(entry: ConversationEntry) -> bool:
    return entry.message.role == "assistant" and (entry.source or {}).get("kind") != "client"


def _response_id(entry: ConversationEntry) -> str:
    source = entry.source or {}
    return str(source.get("id") or "") if source.get("kind") == "response" else ""


def hash_messages(messages: Sequence[ChatMessage]) -> str:
    """Return the rolling hash of a context."""
    rolling = ""
    for message in messages:
        rolling = extend_context_hash(rolling, message)
    return rolling


def model_input(message: ChatMessage) -> object:
    """Return the model input of a message. Only logs have the tool name of each result."""
    calls = [call.id for call in message.tool_calls or ()]
    return message_hash(message), message.tool_call_id, calls


def describe(events: Sequence[ev.Event]) -> dict[str, list[str]]:
    """Return the rows of events by kind, with messages in place of ids.

    Only entries count that are in the context of a request or of a commit.
    """
    by_id = {event.message_id: event for event in events}
    rows: dict[str, list[str]] = {}
    state, read = SessionState(), set[MessageId]()
    entries: list[ev.TranscriptEntry] = []

    def add(kind: str, event: ev.KnownEvent, *values: object) -> None:
        row = [f"{event.agent_id} {event.time}", *map(str, values)]
        rows.setdefault(kind, []).append(" | ".join(row))

    def name(reference: ev.Cause) -> str:
        return _describe_reference(reference, by_id)

    for event in events:
        fold(state, event)
        match event:
            case ev.LlmRequest():
                read |= _read_ids(state, event)
                add("request", event, event.count, event.context_hash, event.model)
                add("request", event, event.evidence, event.missing, event.parameters)
            case ev.LlmResponse():
                outcome = event.stop_reason, event.model, event.usage, event.error
                add("response", event, name(event.entry), *outcome)
            case ev.ContextCommitted():
                read |= _read_ids(state, event)
                upto = name(event.upto) if event.upto in read else "entry that no context has"
                add("commit", event, event.ctx, event.parent_ctx, event.checkpoint, upto)
            case ev.AgentCreated():
                members = event.relation, event.language_model, event.spec
                add("agent", event, event.name, *members, name(event.cause))
            case ev.PieceOfText():
                add("piece", event, event.content, name(event.cause))
            case ev.AgentConfigured():
                add("agent", event, event.language_model)
            case ev.TranscriptEdited() if event.reason == "compaction":
                reads = current_messages(state.agents[event.agent_id or AgentId("")])
                add("compaction", event, hash_messages(reads), name(event.summary))
            case ev.TranscriptEntry():
                entries.append(event)
            case _:
                pass
    for entry in entries:
        if entry.message_id in read:
            names = name(entry.substance), name(entry.cause)
            add("entry", entry, entry.role, message_hash(entry), *names)
    return rows


def digest(rows: Sequence[str]) -> str:
    """Return the number of rows and a short hash of them."""
    data = json.dumps(rows).encode("utf-8", "surrogatepass")
    return f"{len(rows)} {hashlib.sha256(data).hexdigest()[:16]}"


def _read_ids(state: SessionState, event: ev.Event) -> set[MessageId]:
    messages = current_messages(state.agents[event.agent_id or AgentId("")])
    return {entry.message_id for entry in messages if isinstance(entry, ev.TranscriptEntry)}


def _describe_reference(reference: ev.Cause, by_id: dict[MessageId, ev.Event]) -> str:
    if reference is None or isinstance(reference, list):
        return str(reference)
    event, call = by_id[reference_message_id(reference)], reference.partition(".")[2]
    if isinstance(event, ev.TranscriptEntry):
        ids = [call.id for call in event.tool_calls or ()]
        index = ids.index(call) if call else 0
        return f"{event.agent_id} {message_hash(event)} {index}"
    text = event.content if isinstance(event, ev.PieceOfText) else ""
    return f"{ev.event_type(event)} of {event.agent_id} {text}"
