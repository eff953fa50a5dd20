"""Whereabouts: which agents live, where each stands from the one that the user talks with.

A path leads from there: `critic`, `editor/critic`. It is what `talk_with` takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from harken.chat.commands.base import CommandContext, Completes
from harken.core.ids import AgentId
from harken.errors import NameNotFound
from harken.session.session import Session

Who: TypeAlias = Literal["everybody", "subagents", "hooks", "others"]


def paths(session: Session) -> dict[AgentId, str]:
    """Return all living agents with the path that leads there, the nearest first.

    The path of the agent that the user talks with is empty.
    """
    start = session.state.primary or session.state.root
    found: dict[AgentId, str] = {} if start is None else {start: ""}
    waiting = list(found)
    for agent_id in waiting:  # grows
        state, above = session.agents[agent_id], found[agent_id]
        for below in (*state.hooks, *state.subagents):
            if below not in found:
                found[below] = f"{above}/{_name(session, below)}".removeprefix("/")
                waiting.append(below)
    return found


def find_agent(talk: CommandContext, named: str) -> AgentId:
    """Return the living agent that a path, a name or an id means.

    Nothing means the one that the user talks with, whose own name may begin a path. Raises
    NameNotFound, which names the paths where several have the name.
    """
    session, there = talk.session, paths(talk.session)
    if not named:
        return talk.primary.agent_id
    below = named.removeprefix(f"{talk.primary.name}/")
    for wanted in (named, below):
        for agent_id, path in there.items():
            if wanted in (agent_id, path):
                return agent_id
    called = {id_: path for id_, path in there.items() if _name(session, id_) == named}
    if not called:
        names = dict.fromkeys(_name(session, one) for one in there)
        raise NameNotFound("agent", named, names)
    if len(called) > 1:
        several = [path or named for path in called.values()]
        raise NameNotFound("single agent named", named, several)
    return next(iter(called))


def names_of(who: Who) -> Completes:
    """Return what completes the name of an agent, and nothing after it."""

    def completes(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
        return () if before else agent_names(talk, who)

    return completes


def agent_names(talk: CommandContext, who: Who) -> list[str]:
    """Return the names of agents: below or above the one that the user talks with, or all."""
    session = talk.session
    state = session.agents.get(session.state.primary or AgentId(""))
    if who in ("subagents", "hooks") and state is not None:
        ids = state.subagents if who == "subagents" else state.hooks
        return [_name(session, one) for one in ids]
    there = paths(session)
    if who == "others":  # whom one can talk with
        return [path for one, path in there.items() if path and session.agents[one].language_model]
    return [path or _name(session, one) for one, path in there.items()]


def _name(session: Session, agent_id: AgentId) -> str:
    return session.agents[agent_id].name or agent_id
