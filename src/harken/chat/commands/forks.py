"""`/fork`, `/undo`, `/export`: continue the stored conversation in another session.

A log is never changed by these: a new session starts from a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.agent_classes import registered_name
from harken.agents.built_in.changed_files import ChangedFiles
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.unanswered_input import NO_ANSWER_PREFIXES
from harken.chat.commands.base import CommandContext, NextSession, slash
from harken.context.position import find_position, get_or_create_commit
from harken.core.commits import CommitId
from harken.core.events import AgentCreated, AgentMoved, Event, TranscriptEntry
from harken.core.messages import ChatMessage, text_of
from harken.errors import ConfigError
from harken.store.base import Store
from harken.terminal.text import one_line
from harken.views.viewer import SessionViewer


@slash("fork", "continue in a new session from here; this one is kept", group="session")
def _fork(talk: CommandContext, _: str) -> None:
    agent = talk.primary
    ctx = commit_conversation(agent)[1]
    talk.go_on(
        NextSession(
            ctx=ctx,
            note=f"A fork of {talk.session.path.stem}.{_remaining_note(talk, agent)}",
        )
    )


@slash(
    "undo",
    "undo your last message; files do not change",
    group="session",
)
def _undo(talk: CommandContext, _: str) -> None:
    agent, index = _find_last_user_message(talk)
    check_free(talk.primary)
    context = talk.session.context(agent.agent_id)
    store, ctx = commit_conversation(agent)
    text = text_of(context[index].content)
    suffix = "" if agent.agent_id == talk.primary.agent_id else f" You talk to {agent.name} again."
    note = (
        f"Undone: {one_line(text, 40)!r}, which is now in the input.{suffix} The "
        f"previous session is {talk.session.path.stem}; changes of files are not "
        "undone." + _remaining_note(talk, agent)
    )
    before = None if _is_beginning(context[:index]) else _commit_before(store, ctx, context[index:])
    talk.go_on(NextSession(ctx=before, draft=text, note=note, agent_id=agent.agent_id))


def _find_last_user_message(talk: CommandContext) -> tuple[Agent, int]:
    """Return the agent that received the user's last message, and its index in that context.

    Another agent may have the place now. Raises ConfigError if there is no message, if a compaction
    has replaced it, or if the agent that received it is gone.
    """
    last = _find_last_received(SessionViewer(talk.session.path).events)
    agent = talk.primary
    if last is not None and last.agent_id is not None:
        if talk.session.agents[last.agent_id].place == "gone":
            name = talk.session.agents[last.agent_id].name or last.agent_id
            raise ConfigError(
                f"{name}, the agent of your last message, is terminated: /undo is not possible"
            )
        agent = get_agent(agent, last.agent_id)
    context = talk.session.context(agent.agent_id)
    indexes = [index for index, message in enumerate(context) if _is_user_message(message)]
    id_ = None if last is None else last.message_id
    if last is not None:
        indexes = [index for index in indexes if getattr(context[index], "message_id", None) == id_]
    if not indexes:
        raise ConfigError("nothing to undo: no message since the context started")
    return agent, indexes[-1]


def _find_last_received(events: Iterable[Event]) -> TranscriptEntry | None:
    """Return the user's last message to the primary agent of that time.

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
    return last


def _is_user_message(message: ChatMessage) -> bool:
    """Whether the user wrote this message. For messages of a commit this is a guess.

    The summary of a compaction has the role `user`, too, but nobody wrote it.
    """
    if message.role != "user":
        return False
    if isinstance(message, TranscriptEntry):
        return message.purpose is None and message.substance is None
    return not text_of(message.content).startswith(NO_ANSWER_PREFIXES)


def _is_beginning(context: Sequence[ChatMessage]) -> bool:
    return all(message.role == "system" for message in context)


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


def _remaining_note(talk: CommandContext, agent: Agent) -> str:
    """Return a note about the agents that stay in the old session.

    Built-in hooks are not counted: the new session has its own and reports them.
    """
    rows = SessionViewer(talk.session.path).watches()
    configured = {row.hook for row in rows if row.how == "begun"}
    hooks = [
        hook.name
        for hook in agent.hooks
        if hook.agent_id not in configured and hook.state.spec.kind != registered_name(ChangedFiles)
    ]
    others = [] if agent.agent_id == talk.primary.agent_id else [talk.primary.name]
    names = dict.fromkeys([*agent.subagents, *hooks, *others])
    return f" Not in the new session: {', '.join(names)}." if names else ""
