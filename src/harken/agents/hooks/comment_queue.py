"""Comments of hooks on their way into the transcript of the agent that they watch.

A comment is appended as soon as every call of the agent has its result. Until then it is kept in
memory, and it can be read from the log again: it is due until an entry of the agent names it as the
cause.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from harken.agents.agent import Agent
from harken.agents.hooks.hook import CombinedVerdict, comment_entry
from harken.agents.hooks.verdict_log import undelivered_comments
from harken.core.ids import reference_number
from harken.core.verdict import Comment, SpokenVerdict
from harken.session.state import AgentState

_comments: WeakKeyDictionary[Agent, list[SpokenVerdict]] = WeakKeyDictionary()
"""The undelivered comments of an agent. Without an entry they must be read from the log."""


def note_comments(agent: Agent, judgement: CombinedVerdict) -> None:
    """Keep comments until the agent may receive them."""
    if agent in _comments:
        _comments[agent] += judgement.comments


def forget_comments(agent: Agent) -> None:
    """Read comments from the log next time: a broken-off turn may have lost some."""
    _comments.pop(agent, None)


def deliver_comments(agent: Agent) -> None:
    """Append the kept comments to the transcript, as soon as every call has its result."""
    if agent.state.open_calls:
        return
    comments = _comments[agent] if agent in _comments else _read_undelivered(agent)
    _comments[agent] = []
    for opinion in comments:
        if isinstance(opinion.verdict, Comment):
            agent.session.append(comment_entry(agent, opinion, opinion.verdict.text))


def _read_undelivered(agent: Agent) -> list[SpokenVerdict]:
    """Return the undelivered comments of an agent's hooks in the log, oldest first.

    Hooks that left after their comment are included: their last comment still counts.
    """
    comments = [
        comment for hook in _watchers(agent) for comment in undelivered_comments(agent, hook)
    ]
    return sorted(comments, key=lambda opinion: reference_number(opinion.message_id))


def _watchers(agent: Agent) -> list[AgentState]:
    """Return an agent's hooks, and former hooks that are still in memory; see `load_session`."""
    session = agent.session
    former = (session.agents[id_] for id_ in agent.state.former_hooks)
    loaded = [state for state in former if state.transcript is not None]
    return [*map(session.agent, agent.state.hooks), *loaded]
