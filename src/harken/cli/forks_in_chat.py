"""`/fork`, `/undo`, `/export`: the conversation as the store has it goes on elsewhere.

A session is never taken back: its log stays as it is, and a new session begins with a commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents.base import Agent
from harken.agents.hooks.changed_files import ChangedFiles
from harken.agents.user_command import TOLD
from harken.cli.commands import Onward, Talk, printed, slash, words_of
from harken.cli.terminal import one_line
from harken.context.moment import commit_at, moment
from harken.core.commits import CommitId
from harken.core.events import TranscriptEntry
from harken.core.messages import ChatMessage, text_of
from harken.errors import ConfigError
from harken.store.base import Store

_NOT_SAID = ("[hook ", TOLD.partition(":")[0])
"""How what hooks said and the user did begins, in what an agent heard."""


@slash("fork", "go on in a new session, from here; this one stays as it is", group="session")
def _fork(talk: Talk, _: str) -> None:
    agent = talk.primary
    ctx = _committed(agent)[1]
    talk.go_on(Onward(ctx=ctx, note=f"A fork of {talk.session.path.stem}.{_left_behind(agent)}"))


@slash(
    "undo",
    "go on from before the last exchange; files stay as they are",
    group="session",
)
def _undo(talk: Talk, _: str) -> None:
    agent = talk.primary
    context = talk.session.context(agent.agent_id)
    said = [at for at, message in enumerate(context) if _is_said(message)]
    if not said:
        raise ConfigError("there is nothing to undo: nothing was said since the context began")
    store, ctx = _committed(agent)
    at, text = said[-1], text_of(context[said[-1]].content)
    note = (
        f"Before {one_line(text, 40)!r}, which stands in the input. The session until then is "
        f"{talk.session.path.stem}; what was done to files is not undone.{_left_behind(agent)}"
    )
    before = None if _is_beginning(context[:at]) else _before(store, ctx, context[at:])
    talk.go_on(Onward(ctx=before, draft=text, note=note))


def _is_said(message: ChatMessage) -> bool:
    """Whether the user said this to the agent: of what came from a commit, as far as one can see.

    The summary of a compaction is heard by the agent, too, and nobody said it.
    """
    if message.role != "user":
        return False
    if isinstance(message, TranscriptEntry):
        return message.cause is None and message.substance is None
    return not text_of(message.content).startswith(_NOT_SAID)


def _is_beginning(context: Sequence[ChatMessage]) -> bool:
    return all(message.role == "system" for message in context)


def _committed(agent: Agent) -> tuple[Store, CommitId]:
    """Commit what the agent has understood; return the store and the commit.

    Raises AgentBusy, StoreError, and ConfigError where there is no store, or nothing was said.
    """
    agent.check_free()
    if agent.runtime.checkpoints is None:
        raise ConfigError("there is no store in this chat, so there is nothing to go on from")
    ctx = agent.checkpoint()
    if ctx is None:
        raise ConfigError("nothing was said yet")
    return agent.runtime.checkpoints.store, ctx


def _before(store: Store, ctx: CommitId, undone: Sequence[ChatMessage]) -> CommitId:
    """Return the commit that ends before these messages, the last ones of a conversation."""
    first = moment(store, ctx).number - len(undone) + 1
    found = moment(store, ctx, str(first))
    if found.entries[-1].message.content != undone[0].content:
        raise ConfigError(
            "the context was changed since: /undo cannot take the last exchange apart"
        )
    return commit_at(store, moment(store, ctx, str(first - 1)))


def _left_behind(agent: Agent) -> str:
    """Say who stays in the old session."""
    hooks = [hook.name for hook in agent.hooks if hook.kind != ChangedFiles.kind]
    names = [*agent.subagent_ids, *hooks]
    return f" Not with you: {', '.join(names)}." if names else ""


@slash(
    "export",
    "the conversation in a format, as in `harken export`",
    "[--format NAME] [-o FILE]",
    group="session",
)
def _export(talk: Talk, rest: str) -> None:
    from harken.cli.export import LIST, command

    words = words_of(talk, "/export", rest)
    if words is None:
        return
    listing = LIST in words
    ctx = [] if listing else [_committed(talk.primary)[1]]
    talk.say(printed(command, "/export", [*ctx, *words]))
