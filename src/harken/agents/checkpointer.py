"""`Checkpointer`: commits the contexts of a session's agents to a store while they work.

The log records how far the store has each context. After each commit a `context_committed` event
names it; the messages after that position are pending, also after a crash. So a checkpoint costs
only the new messages, and a commit that the log does not name is merely a branch.

Each agent has its own chain of commits. A subagent's chain begins with a snapshot of its
instructions, whose parent is the commit at which it was spawned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeAlias

from harken.agents.compaction_text import parse_summary_message
from harken.context.checkpoint import CommitDraft, CommitIdentity, CommitOrigin, checkpoint_all
from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.arguments import check_arguments
from harken.core.commits import Checkpoint, CommitId
from harken.core.events import ContextCommitted, TranscriptEdited, TranscriptEntry
from harken.core.ids import AgentId, MessageId, parse_id_number, reference_number
from harken.core.messages import ChatMessage, text_of
from harken.errors import StoreError
from harken.session.session import Session
from harken.session.state import AgentState
from harken.store.base import Store

Tell: TypeAlias = Callable[[str], None]
"""Called with a single-line notice for the user."""


@check_arguments
@dataclass(slots=True, kw_only=True, eq=False)
class Checkpointer:
    """Commits pending messages. An AgentRuntime may hold a checkpointer for all its agents."""

    store: Store
    identity: CommitIdentity = field(default_factory=CommitIdentity)
    """The principal that runs the agents, and their task."""
    turns_per_commit: int | None = 1
    """The number of turns per commit. None: only at significant events, which are spawns,
    compactions, the end of the session, and explicit requests."""
    results: bool = False
    """Whether the tool results of a turn are committed separately, before the model reads them."""
    sockets: ContextSocketServer | None = None
    """The sockets on which programs run by agents can query their agent's commit, or None."""
    _last_error: StoreError | None = field(default=None, init=False)
    """The error of the last commit, or None if it succeeded."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid frequency."""
        if self.turns_per_commit is not None and self.turns_per_commit < 1:
            raise ValueError(
                f"a checkpoint is taken every 1 or more turns, not {self.turns_per_commit}"
            )

    def checkpoint_if_due(
        self, session: Session, agent_id: str, trigger: Checkpoint, tell: Tell
    ) -> None:
        """Take a checkpoint if the trigger requires one.

        The log is the source of truth, so a store error does not stop the agent. It is reported
        once; the messages stay pending and the next checkpoint retries. Raises LogWriteError.
        """
        if not self._is_due(session, agent_id, trigger):
            return
        previous_error = self._last_error
        try:
            self.commit_pending(session, agent_id, trigger)
        except StoreError as error:
            self._last_error = error
            if previous_error is None:
                tell(f"commits are not being kept: {error} (the log has everything)")
        else:
            if previous_error is not None and self._last_error is None:
                tell("commits are being kept again")

    def _is_due(self, session: Session, agent_id: str, trigger: Checkpoint) -> bool:
        if trigger == "tool_call":
            return self.results and self.turns_per_commit is not None
        if trigger != "turn_boundary" or self.turns_per_commit == 1:
            return True
        if self.turns_per_commit is None:
            return False
        new = pending_messages(session.agent(agent_id), session.context(agent_id))
        return sum(message.role == "assistant" for message in new) >= self.turns_per_commit

    def commit_pending(
        self, session: Session, agent_id: str, trigger: Checkpoint, summary: str = ""
    ) -> CommitId | None:
        """Commit the pending messages. Return the agent's last commit, or None without a commit.

        The store has the commit before the log names it. Raises StoreError, LogWriteError; after a
        StoreError the session can continue, with the messages still pending.
        """
        state = session.agent(agent_id)
        context = session.context(agent_id)
        drafts = _create_drafts(state, context, trigger)
        if not drafts:
            return None if state.commit_id is None else CommitId(state.commit_id)
        origin = self._origin(session, state)
        drafts = [replace(draft, origin=origin) for draft in drafts]
        if summary:
            drafts[-1] = replace(drafts[-1], summary=summary)
        commit_ids = checkpoint_all(self.store, drafts)
        self._last_error = None
        parent = commit_ids[-2] if len(commit_ids) > 1 else drafts[0].parent
        event = ContextCommitted(
            agent_id=state.id,
            ctx=commit_ids[-1],
            parent_ctx=parent,
            checkpoint=drafts[-1].trigger,
            upto=_last_covered_id(state, context),
        )
        session.append(event)
        return commit_ids[-1]

    def finish(self, session: Session, tell: Tell) -> None:
        """Commit the pending messages of all live agents: at the end, or after a crash.

        Raises as `checkpoint_if_due`.
        """
        for state in list(session.agents.values()):
            if session.state.is_live(state.id):
                self.checkpoint_if_due(session, state.id, "session_end", tell)

    def variables(self, session: Session, agent_id: AgentId) -> dict[str, str]:
        """Return environment variables for programs that an agent runs. Raises OSError."""
        if self.sockets is None:
            return {}
        return {VARIABLE: str(self.sockets.path((session.path, agent_id)))}

    def publish(self, session: Session, agent_id: AgentId) -> None:
        """Show an agent's last commit, and no later one, to programs that it runs from now on."""
        if self.sockets is None:
            return
        self.sockets.settle((session.path, agent_id), session.agents[agent_id].commit_id or "")
        for key in self.sockets.agents:
            if key[0] == session.path and not session.state.is_live(key[1]):
                self.sockets.forget(key)  # limits open files in a long session

    def _origin(self, session: Session, state: AgentState) -> CommitOrigin:
        session_id = session.state.session_id or session.path.stem
        agent = "" if state.id == session.state.root else state.name or state.id
        template = state.spec.template
        name = "" if template is None else template.name
        return self.identity.origin(session_id, agent, template=name)


def _create_drafts(
    state: AgentState, context: Sequence[ChatMessage], trigger: Checkpoint
) -> list[CommitDraft]:
    """Return the drafts to commit, each the parent of the next; empty if nothing is pending."""
    new = pending_messages(state, context)
    relevant = new if state.uncommitted_edit is None else [*context, *(state.transcript or ())]
    untouched = state.uncommitted_edit is None or state.commit_id is None
    if untouched and all(message.role == "system" for message in relevant):
        return []
    drafts: list[CommitDraft] = []
    was_below = (
        state.parent is not None or state.spawn_commit_id is not None
    )  # it may have moved since
    spawned = state.commit_id is None and was_below
    if state.uncommitted_edit is not None:
        drafts = _draft_edit(
            state, state.uncommitted_edit, context[: len(context) - len(new)], trigger
        )
    elif spawned:
        instructions = list(takewhile(lambda message: message.role != "assistant", new))
        drafts = [
            CommitDraft(
                messages=instructions,
                created_at=_message_time(instructions[-1] if instructions else new[0]),
            )
        ]
        new = new[len(instructions) :]
    if spawned:
        drafts[0] = replace(drafts[0], type="snapshot", trigger="spawn")
    if new:
        drafts.append(CommitDraft(messages=new, trigger=trigger))
    parent = state.spawn_commit_id if state.commit_id is None else state.commit_id
    return [replace(drafts[0], parent=None if parent is None else CommitId(parent)), *drafts[1:]]


def _draft_edit(
    state: AgentState,
    edit: TranscriptEdited,
    edited_context: Sequence[ChatMessage],
    trigger: Checkpoint,
) -> list[CommitDraft]:
    """Return the messages pending at an edit of the context, then the edited context.

    So the full conversation stays in the history, although the agent continues with less.
    """
    if state.commit_id is None and edit.reason == "init_prompt":
        return [CommitDraft(messages=edited_context, trigger=trigger, created_at=edit.time)]
    edit_number = _message_number(edit)
    entries = _entries_after(state, state.transcript or (), state.committed_upto)
    pending_entries = [
        message
        for message in entries
        if _message_number(message) < edit_number and _message_id(message) != edit.summary
    ]
    summaries = [
        text_of(message.content)
        for message in edited_context
        if edit.summary and _message_id(message) == edit.summary
    ]
    edit_draft = CommitDraft(
        messages=edited_context,
        type="compaction" if edit.summary else "snapshot",
        trigger="compaction" if edit.summary else trigger,
        created_at=edit.time,
        summary=parse_summary_message("".join(summaries)),
    )
    return (
        [CommitDraft(messages=pending_entries, trigger=edit_draft.trigger), edit_draft]
        if pending_entries
        else [edit_draft]
    )


def pending_messages(state: AgentState, context: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the messages added to a context since the last commit or edit, oldest first."""
    return _entries_after(
        state,
        context,
        state.committed_upto
        if state.uncommitted_edit is None
        else state.uncommitted_edit.message_id,
    )


def _entries_after(
    state: AgentState, messages: Sequence[ChatMessage], id_: MessageId | None
) -> list[ChatMessage]:
    """Return the trailing entries after an event, or all trailing entries if `id_` is None.

    Messages loaded from a commit are not entries of this session.
    """
    newer_ids = _find_newer_ids(state.transcript or (), id_)
    newer_messages = takewhile(
        lambda message: _message_id(message) in newer_ids, reversed(messages)
    )
    return list(newer_messages)[::-1]


def _find_newer_ids(transcript: Sequence[TranscriptEntry], id_: MessageId | None) -> set[MessageId]:
    """Return the ids of the entries of a transcript after an event; `id_` need not be an entry.

    The order of entries decides, since results are in the order of the calls, not of their ids.
    """
    last_number = -1 if id_ is None else parse_id_number(id_, "msg_") or 0
    newer_ids: list[MessageId] = []
    for entry in reversed(transcript):
        if entry.message_id == id_:
            return {*newer_ids}
        if entry.role != "tool" and _message_number(entry) < last_number:
            break
        newer_ids.append(entry.message_id)
    return {newer for newer in newer_ids if reference_number(newer) > last_number}


def _last_covered_id(state: AgentState, context: Sequence[ChatMessage]) -> MessageId | None:
    """Return the id of the newest entry that a commit of this context covers.

    After an edit that entry may belong to another agent; before an edit, entries are in order.
    """
    covered = [
        *(state.transcript or ())[-1:],
        *(context if state.uncommitted_edit is not None else ()),
    ]
    return max(
        ((_message_number(message), _message_id(message)) for message in covered),
        default=(-1, None),
    )[1]


def _message_number(message: object) -> int:
    """Return the number of an entry or event, or -1 for a message from outside of this session."""
    id_ = _message_id(message)
    return -1 if id_ is None else parse_id_number(id_, "msg_") or 0


def _message_id(message: object) -> MessageId | None:
    return getattr(message, "message_id", None)


def _message_time(message: ChatMessage) -> str | None:
    return getattr(message, "time", None)
