"""Starting: an agent of a new session begins with a context, which a commit holds.

One idea: what a context has in common with commits that are there, from its beginning on, is not
stored again: the new commit goes on from the last of them. Where it has nothing in common, it is a
snapshot, whose parent still says where it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harken.agents.base import Agent
from harken.agents.initial import message_dict, whole
from harken.agents.load import start_from
from harken.context.checkpoint import Draft, Origin, checkpoint
from harken.context.content import entries_in
from harken.context.materialize import picked
from harken.core.commits import CommitId
from harken.core.events import Segment, TranscriptEdited
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage, message_from, message_hash
from harken.errors import UnknownName
from harken.session.session import Session, entry_of
from harken.store.base import Store, Stored


def begin_with(
    agent: Agent,
    messages: Sequence[ChatMessage],
    *,
    store: Store | None,
    tip: str | None,
    origin: Origin,
    time: str,
) -> None:
    """Let an agent that was just born begin with a context.

    `tip`: the commit that is nearest to it; `time`: of the context, RFC 3339. Without a store the
    messages stand in the log. Raises StoreError.
    """
    if not messages:
        return
    if store is None:
        _write_down(agent.session, agent.agent_id, messages)
        return
    start_from(agent, commit_of(store, messages, tip=tip, origin=origin, time=time))


def commit_of(
    store: Store, messages: Sequence[ChatMessage], *, tip: str | None, origin: Origin, time: str
) -> CommitId:
    """Return a commit that stands for a context; the same for the same. Raises StoreError."""
    before = _picked(store, tip)
    parent, shared = _shared(store, before, messages)
    if shared == len(messages) and parent is not None:
        return parent
    draft = Draft(messages=messages[shared:], parent=parent, origin=origin, created_at=time)
    if parent is None and before:
        draft = replace(draft, parent=before[-1].id, type="snapshot")
    return checkpoint(store, draft)


def _picked(store: Store, tip: str | None) -> list[Stored]:
    """Return the commits of a conversation, oldest first; none where the store has it not."""
    try:
        return [] if tip is None else picked(store, CommitId(tip))
    except UnknownName:
        return []


def _shared(
    store: Store, before: Sequence[Stored], messages: Sequence[ChatMessage]
) -> tuple[CommitId | None, int]:
    """Return the last of these commits with which a context begins, and how much of it that is."""
    parent, at = None, 0
    for one in before:
        held = [_key(entry.message) for entry in entries_in(store, [one])]
        if held != [_key(message) for message in messages[at : at + len(held)]]:
            break
        parent, at = one.id, at + len(held)
    return parent, at


def _key(message: ChatMessage) -> tuple[Any, ...]:
    """Return what makes a message the same here: also the ids by which results name their calls."""
    ids = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), ids, message.tool_call_id


def _write_down(session: Session, agent_id: AgentId, messages: Sequence[ChatMessage]) -> None:
    """Let the messages enter the agent's transcript, as what it had read before anything new."""
    taken = whole([message_dict(message) for message in messages])
    ids = [session.append(entry_of(agent_id, message_from(message))) for message in taken]
    edit = TranscriptEdited(
        agent_id=agent_id, segments=[Segment(entries=ids)], reason="context_loaded"
    )
    session.append(edit)
