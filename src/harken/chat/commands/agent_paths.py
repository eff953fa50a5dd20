"""The living agents and their paths, relative to the agent that the user talks with.

Examples of paths: `critic`, `editor/critic`. `talk_with` accepts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from harken.chat.commands.base import CommandContext, Completes
from harken.core.ids import AgentId
from harken.errors import AmbiguousName, NameNotFound
from harken.session.session import Session

Who: TypeAlias = Literal["everybody", "subagents", "hooks", "others"]


def map_agent_paths(session: Session) -> dict[AgentId, str]:
    """Return the paths of all living agents, the nearest first.

    The path of the agent that the user talks with is empty.
    """
    start = session.state.primary or session.state.root
    paths_by_id: dict[AgentId, str] = {} if start is None else {start: ""}
    waiting = list(paths_by_id)
    for agent_id in waiting:  # the loop appends the agents below
        state, above = session.agents[agent_id], paths_by_id[agent_id]
        for below in (*state.hooks, *state.subagents):
            if below not in paths_by_id:
                paths_by_id[below] = f"{above}/{_name(session, below)}".removeprefix("/")
                waiting.append(below)
    return paths_by_id


def find_agent(talk: CommandContext, ref: str) -> AgentId:
    """Return the living agent that matches a path, a name or an id.

    An empty text is the agent that the user talks with; its name may begin a path. Raises
    NameNotFound, and AmbiguousName, which lists the paths or ids.
    """
    session, paths_by_id = talk.session, map_agent_paths(talk.session)
    if not ref:
        return talk.primary.agent_id
    below = ref.removeprefix(f"{talk.primary.name}/")
    for wanted_path in (ref, below):
        matches = [id_ for id_, path in paths_by_id.items() if wanted_path in (id_, path)]
        if len(matches) > 1:  # a hook and a subagent, or a name with a slash
            raise AmbiguousName("agent", ref, matches)
        if matches:
            return matches[0]
    by_name = {id_: path for id_, path in paths_by_id.items() if _name(session, id_) == ref}
    if not by_name:
        names = dict.fromkeys(_name(session, id_) for id_ in paths_by_id)
        raise NameNotFound("agent", ref, names)
    if len(by_name) > 1:
        several = [path or ref for path in by_name.values()]
        raise AmbiguousName("agent", ref, several)
    return next(iter(by_name))


def build_agent_completer(scope: Who) -> Completes:
    """Return a completer for the name of an agent, as the first word only."""

    def completes(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
        return () if before else list_agent_names(talk, scope)

    return completes


def list_agent_names(talk: CommandContext, scope: Who) -> list[str]:
    """Return the names of subagents or hooks of the agent that the user talks with, or of all."""
    session = talk.session
    state = session.agents.get(session.state.primary or AgentId(""))
    if scope in ("subagents", "hooks") and state is not None:
        ids = state.subagents if scope == "subagents" else state.hooks
        return [_name(session, id_) for id_ in ids]
    paths_by_id = map_agent_paths(session)
    if scope == "others":  # agents that the user can talk with
        return [
            path for id_, path in paths_by_id.items() if path and session.agents[id_].language_model
        ]
    return [path or _name(session, id_) for id_, path in paths_by_id.items()]


def _name(session: Session, agent_id: AgentId) -> str:
    return session.agents[agent_id].name or agent_id
