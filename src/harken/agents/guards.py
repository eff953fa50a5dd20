"""`self_made`: what a spec says of a hook that is no guard against the agent that it watches.

Some hooks stand where they do because that agent wanted it: it made them (`hook`), a file that it
restored named them, or it was there before and a subagent took its place (`endo`).
Three things follow, and they are decided here and nowhere else:

1. **Order.** It is asked before the guards (`is_guard`): they judge what it makes of the agent's
   words, so nobody undoes with a hook of its own what another insists on.
2. **Budget.** It counts as standing below the agent (`below`), as a subagent does: nobody gets room
   for more agents by putting them above itself.
3. **Being guarded.** One that was made so is watched as the agent is (`is_made`): it gets copies of
   the others when it is born, where it may act; when a guard comes later; and when it takes the
   agent's place. And what it makes is made so, too.

The invariant: whoever acts and comes from a watched agent is asked about by a copy of each guard.
One that only came to stand there by a move (`MOVED`) was above before: 1 and 2 hold for it, 3
does not, since it never was the watched agent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from harken.core.ids import AgentId
from harken.session.state import AgentState

SELF_MADE = "self_made"
"""The member of the spec."""
MADE: Literal[True] = True
"""The agent that it watches made it, or a file did."""
MOVED: Literal["moved"] = "moved"
"""It was above that agent, and watches it since that one has its place."""


def is_made(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec was made by the agent that it watches, or by a file."""
    return bool(spec.get(SELF_MADE)) and spec[SELF_MADE] != MOVED


def is_guard(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec stands there whatever the agent wants: it is asked last."""
    return not spec.get(SELF_MADE)


def is_born_as_hook(spec: Mapping[str, Any]) -> bool:
    """Whether this is the spec of a smart agent that was made to be a hook.

    Where it has taken the place of the agent that it watches, and gives it back, it is what it was:
    a guard, or not.
    """
    return "keeps" in spec


def below(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Iterator[AgentState]:
    """Yield all who count as standing below an agent."""
    waiting, seen = [agent], {agent.id}
    for one in waiting:  # grows
        own = (id_ for id_ in one.hooks if not is_guard(agents[id_].spec))
        for id_ in (*one.subagents, *own):
            if id_ not in seen:  # a foreign log might name a circle
                seen.add(id_)
                waiting.append(agents[id_])
    yield from waiting[1:]


def guarded(agents: Mapping[AgentId, AgentState], agent: AgentState) -> Sequence[AgentId]:
    """Return who stands directly at an agent and is watched as it is: those who may act.

    Of hooks that it made only these: one that may use nothing but what every hook has gets its
    guards when it takes the agent's place.
    """
    own = [id_ for id_ in agent.hooks if is_made(agents[id_].spec) and may_act(agents[id_].spec)]
    return [*agent.subagents, *own]


def may_act(spec: Mapping[str, Any]) -> bool:
    """Whether a hook with this spec may use more than what every hook has."""
    return spec.get("kind") == "smart" and (spec.get("tools") != [] or bool(spec.get("mcp")))
