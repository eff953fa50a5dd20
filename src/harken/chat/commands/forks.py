"""`/fork`, `/undo`: continue in another session, which has all agents of this one.

A log is never changed by these: a branch of it is continued. Only a message that was loaded from a
commit, as in a chat that continues an imported conversation, is in no log: it is undone with a new
session, which starts from the commit before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harken.agents.agent import Agent, check_free
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.unanswered_input import NO_ANSWER_PREFIXES
from harken.chat.commands.base import CommandContext, NextSession, slash
from harken.context.position import find_position, get_or_create_commit
from harken.core.commits import CommitId
from harken.core.events import AgentCreated, AgentMoved, Event, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage, text_of
from harken.errors import ConfigError
from harken.session.branch import branch, disarm_triggers, find_free_name
from harken.session.session import Session, SessionOptions
from harken.store.base import Store
from harken.terminal.text import one_line
from harken.views.viewer import SessionViewer


@slash("fork", "continue in a new session from here; this one is kept", group="session")
def _fork(talk: CommandContext, _: str) -> None:
    check_free(talk.primary)
    if not _has_messages(talk.session):
        raise ConfigError("no messages yet")
    talk.go_on(_branch(talk, None, note=f"A fork of {talk.session.path.stem}."))


@slash(
    "undo",
    "undo your last message; files do not change",
    group="session",
)
def _undo(talk: CommandContext, _: str) -> None:
    check_free(talk.primary)
    last, primary = _find_last_received(SessionViewer(talk.session.path).events)
    if last is None:
        talk.go_on(_undo_loaded(talk))
        return
    agents = talk.session.agents
    is_other = primary is not None and primary != talk.primary.agent_id
    suffix = f" You talk to {agents[primary].name} again." if is_other and primary else ""
    text = text_of(last.content)
    note = _undo_note(talk, text, suffix)
    talk.go_on(_branch(talk, last, note=note, draft=text))


def _branch(
    talk: CommandContext, before: TranscriptEntry | None, *, note: str, draft: str = ""
) -> NextSession:
    """Branch the session of the chat at its end, or before a message. Its triggers are disarmed."""
    session, folder = talk.session, talk.session.path.parent
    disarmed: list[str] = []
    fork = branch(
        session.path,
        folder / f"{find_free_name(folder, session.path.stem, 'fork')}.jsonl",
        None if before is None else before.message_id,
        before=before is not None,
        change=lambda created: disarmed.extend(disarm_triggers(created)),
        options=SessionOptions(resolver=session.options.resolver, redact=session.options.redact),
    )
    triggers = f" Disarmed there: {', '.join(disarmed)}." if disarmed else ""
    return NextSession(log=fork.path, note=note + triggers, draft=draft)


def _undo_note(talk: CommandContext, text: str, suffix: str = "") -> str:
    return (
        f"Undone: {one_line(text, 40)!r}, which is now in the input.{suffix} The previous session "
        f"is {talk.session.path.stem}; changes of files are not undone."
    )


def _has_messages(session: Session) -> bool:
    return any(
        message.role != "system"
        for agent_id in session.agents
        for message in session.context(agent_id)
    )


def _find_last_received(
    events: Iterable[Event],
) -> tuple[TranscriptEntry | None, AgentId | None]:
    """Return the user's last message to the primary agent of that time, and that agent.

    Messages in the context of a restored agent are not counted: they are not from this session.
    """
    primary, last = None, None
    for event in events:
        match event:
            case AgentCreated() if primary is None:
                primary = event.agent_id
            case AgentMoved(replaces=before) if before is not None and before == primary:
                primary = event.agent_id
            case TranscriptEntry() if event.agent_id == primary and _is_user_message(event):
                last = event
            case _:
                pass
    return last, None if last is None else last.agent_id


def _is_user_message(message: ChatMessage) -> bool:
    """Whether the user wrote this message. For messages of a commit this is a guess.

    The summary of a compaction has the role `user`, too, but nobody wrote it.
    """
    if message.role != "user":
        return False
    if isinstance(message, TranscriptEntry):
        return message.purpose is None and message.substance is None
    return not text_of(message.content).startswith(NO_ANSWER_PREFIXES)


def _undo_loaded(talk: CommandContext) -> NextSession:
    """Return a new session before the user's last message in the commit that was loaded.

    Raises ConfigError if there is no such message, AgentBusy, StoreError.
    """
    agent = talk.primary
    context = talk.session.context(agent.agent_id)
    indexes = [index for index, message in enumerate(context) if _is_user_message(message)]
    if not indexes:
        raise ConfigError("nothing to undo: no message since the context started")
    undone = context[indexes[-1] :]
    store, ctx = commit_conversation(agent)
    text = text_of(undone[0].content)
    is_beginning = all(message.role == "system" for message in context[: indexes[-1]])
    before = None if is_beginning else _commit_before(store, ctx, undone)
    return NextSession(ctx=before, draft=text, note=_undo_note(talk, text))


def commit_conversation(agent: Agent) -> tuple[Store, CommitId]:
    """Commit the context of an agent. Return the store and the commit.

    Raises AgentBusy, StoreError, and ConfigError if there is no store or the context is empty.
    """
    check_free(agent)
    if agent.runtime.checkpoints is None:
        raise ConfigError("this chat has no store, so there is no commit to continue from")
    ctx = checkpoint_agent(agent)
    if ctx is None:
        raise ConfigError("no messages yet")
    return agent.runtime.checkpoints.store, ctx


def _commit_before(store: Store, ctx: CommitId, undone: Sequence[ChatMessage]) -> CommitId:
    """Return the commit that ends before these messages, the last ones of a conversation."""
    first = find_position(store, ctx).number - len(undone) + 1
    position = find_position(store, ctx, str(first))
    if position.entries[-1].message.content != undone[0].content:
        raise ConfigError("the context was edited since the last message: /undo is not possible")
    return get_or_create_commit(store, find_position(store, ctx, str(first - 1)))
