"""The guards among the hooks of an agent, and the order in which hooks are asked.

Some hooks exist because the watched agent wanted them: the agent created the hook (`hook`), a file
that the agent restored named it, or the hook stood above before a subagent took its place (`endo`).
The standing of a hook says so (`made`: `agent`, `file`, `moved`). Three rules follow from that, and
all of them are decided here:

1. **Order.** A self-made hook is asked before the guards (`Standing.is_guard`). The guards judge
   the text after its rewrites, so no agent can undo with its own hook what a guard insists on.
2. **Budget.** It counts as below the agent (`iter_below`), like a subagent. No agent gets room for
   more agents by installing them above itself.
3. **Being guarded.** A hook that was made so is watched as the agent is (`Standing.is_made`). It
   gets copies of the other hooks at its birth, if it may act; when a guard is installed later; and
   when it takes the agent's place. What it creates is self-made, too.

The invariant: an agent that may act and comes from a watched agent is judged by a copy of each
guard. A hook that stands there only because of a move (`moved`) was above before. Rules 1 and 2
apply to it, rule 3 does not, since it was never created by the watched agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harken.core.ids import AgentId
from harken.session.state import AgentState


def iter_below(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Iterator[AgentState]:
    """Yield all agents that count as below an agent."""
    pending, seen_ids = [agent], {agent.id}
    for state in pending:  # the loop extends it
        hook_ids = (id_ for id_ in state.hooks if not agents[id_].spec.standing.is_guard)
        for id_ in (*state.subagents, *hook_ids):
            if id_ not in seen_ids:  # a foreign log may contain a cycle of parents
                seen_ids.add(id_)
                pending.append(agents[id_])
    yield from pending[1:]


def order_hooks(agents: Mapping[AgentId, AgentState], agent: AgentState) -> list[AgentId]:
    """Return the ids of the hooks of an agent in the order in which they are asked."""
    return sorted(agent.hooks, key=lambda id_: agents[id_].spec.standing.is_guard)


def guarded_agents(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Sequence[AgentId]:
    """Return the agents directly at an agent that are watched as it is: those that may act.

    Of self-made hooks this includes only hooks that may act. A hook without tools besides those of
    every hook gets its guards when it takes the agent's place.
    """
    specs = {id_: agents[id_].spec for id_ in agent.hooks}
    hook_ids = [id_ for id_, spec in specs.items() if spec.standing.is_made and spec.may_act]
    return [*agent.subagents, *hook_ids]
