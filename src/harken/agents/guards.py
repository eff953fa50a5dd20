"""`self_made`: the member of a hook's spec that says it is no guard against the agent it watches.

Some hooks exist because the watched agent wanted them: the agent created the hook (`hook`), a file
that the agent restored named it, or the hook stood above before a subagent took its place (`endo`).
Three rules follow from that, and all of them are decided here:

1. **Order.** A self-made hook is asked before the guards (`is_guard`). The guards judge the text
   after its rewrites, so no agent can undo with its own hook what a guard insists on.
2. **Budget.** It counts as below the agent (`below`), like a subagent. No agent gets room for more
   agents by installing them above itself.
3. **Being guarded.** A hook that was made so is watched as the agent is (`is_made`). It gets copies
   of the other hooks at its birth, if it may act; when a guard is installed later; and when it
   takes the agent's place. What it creates is self-made, too.

The invariant: an agent that may act and comes from a watched agent is judged by a copy of each
guard. A hook that stands there only because of a move (`MOVED`) was above before. Rules 1 and 2
apply to it, rule 3 does not, since it was never created by the watched agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from harken.core.ids import AgentId
from harken.session.state import AgentState

SELF_MADE = "self_made"
"""The member of the spec."""
SELF_MADE_BY_AGENT: Literal[True] = True
"""The watched agent created this hook, or a file did."""
SELF_MADE_BY_MOVE: Literal["moved"] = "moved"
"""The hook was above the watched agent before, and watches it since that agent took its place."""


def is_made(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec was created by the agent that it watches, or by a file."""
    return bool(spec.get(SELF_MADE)) and spec[SELF_MADE] != SELF_MADE_BY_MOVE


def is_guard(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec is independent of the watched agent. It is asked last."""
    return not spec.get(SELF_MADE)


def is_born_as_hook(spec: Mapping[str, Any]) -> bool:
    """Whether this is the spec of a smart agent that was created as a hook.

    If such a hook takes the watched agent's place and gives it back, it is a guard, or not, as
    before.
    """
    return "keeps" in spec


def iter_below(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Iterator[AgentState]:
    """Yield all agents that count as below an agent."""
    pending, seen_ids = [agent], {agent.id}
    for state in pending:  # the loop extends it
        hook_ids = (id_ for id_ in state.hooks if not is_guard(agents[id_].spec))
        for id_ in (*state.subagents, *hook_ids):
            if id_ not in seen_ids:  # a foreign log may contain a cycle of parents
                seen_ids.add(id_)
                pending.append(agents[id_])
    yield from pending[1:]


def order_hooks(agents: Mapping[AgentId, AgentState], agent: AgentState) -> list[AgentId]:
    """Return the ids of the hooks of an agent in the order in which they are asked."""
    return sorted(agent.hooks, key=lambda id_: is_guard(agents[id_].spec))


def guarded_agents(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Sequence[AgentId]:
    """Return the agents directly at an agent that are watched as it is: those that may act.

    Of self-made hooks this includes only hooks that may act. A hook without tools besides those of
    every hook gets its guards when it takes the agent's place.
    """
    hook_ids = [
        id_ for id_ in agent.hooks if is_made(agents[id_].spec) and may_act(agents[id_].spec)
    ]
    return [*agent.subagents, *hook_ids]


def may_act(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec may use more than what every hook has."""
    return spec.get("kind") == "smart" and (spec.get("tools") != [] or bool(spec.get("mcp")))
