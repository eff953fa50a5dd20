"""`Checkpointer`: what the agents of a session understood goes into a store while they work.

One idea: the log says how far the store has it. After each commit a `context_committed` names it;
what stands in an agent's context after that is pending, whoever asks, also after a crash. So a
checkpoint costs what is new, and a commit that the log does not know is merely a branch.

Each agent has its own chain. A subagent's begins with a snapshot of what it was told, whose parent
is the commit at which it was spawned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeAlias

from harken.agents.compaction_text import summary_in
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint_all
from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.arguments import check_arguments
from harken.core.commits import Checkpoint, CommitId
from harken.core.events import ContextCommitted, TranscriptEdited
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage, text_of
from harken.errors import StoreError
from harken.session.session import Session
from harken.session.state import AgentState
from harken.store.base import Store

Tell: TypeAlias = Callable[[str], None]
"""Told, on one line, what a person should know."""


@check_arguments
@dataclass(slots=True, kw_only=True, eq=False)
class Checkpointer:
    """Commits what is pending. A Runtime may hold one for all its agents."""

    store: Store
    principal: str = ""
    """Who runs the agents; those below the first have a name of their own after it. Empty: the
    session's id."""
    machine: str = ""
    ticket_id: str = ""
    thread_id: str = ""
    every: int | None = 1
    """A commit at each turn, or at every so many of them; None: at significant events only, which
    are spawns, compactions, the end of the session, and when somebody asks."""
    results: bool = False
    """Whether the results of a turn have a commit of their own, before the model reads them."""
    sockets: ContextSocketServer | None = None
    """Where programs that agents run learn which commit their agent is at; None: nowhere."""
    _refused: StoreError | None = field(default=None, init=False)
    """Why the store did not take the last commit; None: it did."""

    def __post_init__(self) -> None:
        """Refuse a frequency that is none."""
        if self.every is not None and self.every < 1:
            raise ValueError(f"a checkpoint is taken every 1 or more turns, not {self.every}")

    def keep(self, session: Session, agent_id: str, trigger: Checkpoint, tell: Tell) -> None:
        """Take a checkpoint, where one is due at such an event.

        The log is the truth, so a store that refuses stops nobody. That is told once; what was
        pending still is, and the next checkpoint tries again. Raises LogWriteError.
        """
        if not self._is_due(session, agent_id, trigger):
            return
        before = self._refused
        try:
            self.take(session, agent_id, trigger)
        except StoreError as error:
            self._refused = error
            if before is None:
                tell(f"commits are not being kept: {error} (the log has everything)")
        else:
            if before is not None and self._refused is None:
                tell("commits are being kept again")

    def _is_due(self, session: Session, agent_id: str, trigger: Checkpoint) -> bool:
        if trigger == "tool_call":
            return self.results and self.every is not None
        if trigger != "turn_boundary" or self.every == 1:
            return True
        if self.every is None:
            return False
        new = pending(session.agent(agent_id), session.context(agent_id))
        return sum(message.role == "assistant" for message in new) >= self.every

    def take(
        self, session: Session, agent_id: str, trigger: Checkpoint, summary: str = ""
    ) -> CommitId | None:
        """Commit what is pending, if anything is; return the agent's last commit (None: no commit).

        The store has it before the log says so. Raises StoreError, LogWriteError; the session can
        go on after the first, and what was pending still is.
        """
        state = session.agent(agent_id)
        context = session.context(agent_id)
        drafts = _drafts(state, context, trigger)
        if not drafts:
            return None if state.commit_id is None else CommitId(state.commit_id)
        origin = self._origin(session, state)
        drafts = [replace(draft, origin=origin) for draft in drafts]
        if summary:
            drafts[-1] = replace(drafts[-1], summary=summary)
        made = checkpoint_all(self.store, drafts)
        self._refused = None
        parent = made[-2] if len(made) > 1 else drafts[0].parent
        event = ContextCommitted(
            agent_id=state.id,
            ctx=made[-1],
            parent_ctx=parent,
            checkpoint=drafts[-1].trigger,
            upto=_upto(state, context),
        )
        session.append(event)
        return made[-1]

    def finish(self, session: Session, tell: Tell) -> None:
        """Commit what is pending of all living agents: at the end, or after a crash. As `keep`."""
        for state in list(session.agents.values()):
            if session.state.is_live(state.id):
                self.keep(session, state.id, "session_end", tell)

    def variables(self, session: Session, agent_id: AgentId) -> dict[str, str]:
        """Return what programs that an agent runs get in their environment. Raises OSError."""
        if self.sockets is None:
            return {}
        return {VARIABLE: str(self.sockets.path((session.path, agent_id)))}

    def settle(self, session: Session, agent_id: AgentId) -> None:
        """Let the programs that an agent runs from now on see its last commit, and no later one."""
        if self.sockets is None:
            return
        self.sockets.settle((session.path, agent_id), session.agents[agent_id].commit_id or "")
        for one in self.sockets.agents:
            if one[0] == session.path and not session.state.is_live(one[1]):
                self.sockets.forget(one)  # so that a long session does not run out of files

    def _origin(self, session: Session, state: AgentState) -> CommitOrigin:
        session_id = session.state.session_id or session.path.stem
        principal = self.principal or session_id
        if state.id != session.state.root:
            principal = f"{principal}/{state.name or state.id}"
        template = state.spec.get("template")
        return CommitOrigin(
            template=str(template.get("name", "")) if isinstance(template, dict) else "",
            principal=principal,
            machine=self.machine,
            session_id=session_id,
            ticket_id=self.ticket_id,
            thread_id=self.thread_id,
        )


def _drafts(
    state: AgentState, context: Sequence[ChatMessage], trigger: Checkpoint
) -> list[CommitDraft]:
    """Return what has to be committed, each the parent of the next; nothing where nothing is."""
    new = pending(state, context)
    fresh = new if state.uncommitted_edit is None else [*context, *(state.transcript or ())]
    untouched = state.uncommitted_edit is None or state.commit_id is None
    if untouched and all(message.role == "system" for message in fresh):
        return []
    drafts: list[CommitDraft] = []
    was_below = (
        state.parent is not None or state.spawn_commit_id is not None
    )  # it may have moved since
    spawned = state.commit_id is None and was_below
    if state.uncommitted_edit is not None:
        drafts = _of_edit(
            state, state.uncommitted_edit, context[: len(context) - len(new)], trigger
        )
    elif spawned:
        heard = list(takewhile(lambda message: message.role != "assistant", new))
        drafts = [CommitDraft(messages=heard, created_at=_time(heard[-1] if heard else new[0]))]
        new = new[len(heard) :]
    if spawned:
        drafts[0] = replace(drafts[0], type="snapshot", trigger="spawn")
    if new:
        drafts.append(CommitDraft(messages=new, trigger=trigger))
    parent = state.spawn_commit_id if state.commit_id is None else state.commit_id
    return [replace(drafts[0], parent=None if parent is None else CommitId(parent)), *drafts[1:]]


def _of_edit(
    state: AgentState, edit: TranscriptEdited, whole: Sequence[ChatMessage], trigger: Checkpoint
) -> list[CommitDraft]:
    """Return what was pending when the context was edited, then the context as it was edited.

    So the full conversation stays in the history, though the agent reads on with less.
    """
    if state.commit_id is None and edit.reason == "init_prompt":
        return [CommitDraft(messages=whole, trigger=trigger, created_at=edit.time)]
    of_edit = _number(edit)
    own = _after(state.transcript or (), state.committed_upto)
    before = [one for one in own if _number(one) < of_edit and _id(one) != edit.summary]
    summaries = [text_of(one.content) for one in whole if edit.summary and _id(one) == edit.summary]
    stands = CommitDraft(
        messages=whole,
        type="compaction" if edit.summary else "snapshot",
        trigger="compaction" if edit.summary else trigger,
        created_at=edit.time,
        summary=summary_in("".join(summaries)),
    )
    return [CommitDraft(messages=before, trigger=stands.trigger), stands] if before else [stands]


def pending(state: AgentState, context: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return what was added to a context since the last commit, or edit, oldest first."""
    return _after(
        context,
        state.committed_upto
        if state.uncommitted_edit is None
        else state.uncommitted_edit.message_id,
    )


def _after(messages: Sequence[ChatMessage], id_: MessageId | None) -> list[ChatMessage]:
    """Return the entries at the end that came after an event; None: all entries there.

    What was loaded from a commit is no entry of this session.
    """
    since = -1 if id_ is None else parse_id_number(id_, "msg_") or 0
    newer = takewhile(lambda message: _number(message) > since, reversed(messages))
    return list(newer)[::-1]


def _upto(state: AgentState, context: Sequence[ChatMessage]) -> MessageId | None:
    """Return the newest entry that a commit of this context covers.

    After an edit that may be another agent's; before it, entries stand in their order.
    """
    covered = [
        *(state.transcript or ())[-1:],
        *(context if state.uncommitted_edit is not None else ()),
    ]
    return max(((_number(one), _id(one)) for one in covered), default=(-1, None))[1]


def _number(message: object) -> int:
    """Return the number of an entry or event; -1 for a message that is none of this session."""
    id_ = _id(message)
    return -1 if id_ is None else parse_id_number(id_, "msg_") or 0


def _id(message: object) -> MessageId | None:
    return getattr(message, "message_id", None)


def _time(message: ChatMessage) -> str | None:
    return getattr(message, "time", None)
