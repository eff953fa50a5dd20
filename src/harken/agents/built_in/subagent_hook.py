"""What hooks know that say how many subagents an agent may have: who is, and who is being made.

Calls of one message are judged one after the other and run at the same time. So a call that was
let through counts from then on, be its subagent there yet or not.

A hook that lets an agent have one subagent at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import MAKING
from harken.agents.hooks.hook import Hook
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.ids import AgentId
from harken.core.verdict import Deny, HookPoint, HookQuestion, Ok, Verdict
from harken.session.state import AgentState


class BirthHook(Hook):
    """A hook that judges nothing but the making of subagents."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})

    def begin(self) -> None:
        """Nobody is being made."""
        self._let_through: dict[str, str] = {}
        """Call -> the name of who is made; forgotten when the call has its result."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether a subagent is to be made."""
        return question.call is not None and question.call.function.name in MAKING

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny where a limit is reached; else note that one more is being made."""
        watched = self.watched
        if watched is None or not self.should_ask(question):
            return Ok()
        name = name_made(question)
        reason = self.why_not(watched, name)
        if reason is not None:
            return Deny(reason)
        self._let_through[question.subject] = name
        return Ok()

    def why_not(self, watched: Agent, name: str) -> str | None:
        """Return why a subagent with this name may not be made; None where it may."""
        raise NotImplementedError

    def being_made(self, watched: Agent) -> int:
        """Return how many were let through that are neither there nor have failed yet."""
        there = watched.subagent_ids
        open_ = {call.reference for call in watched.state.open_calls.values()}
        under_way = self._let_through.items()
        self._let_through = {
            call: name for call, name in under_way if call in open_ and name not in there
        }
        return len(self._let_through)


def name_made(question: HookQuestion) -> str:
    """Return the name of the subagent that a call is to make, as far as it says one."""
    arguments = parse_arguments_or_empty(question.text)
    given = arguments.get("as_name") or arguments.get("name")
    return given if isinstance(given, str) else ""


def live_below(hook: Hook, agent_id: AgentId) -> Iterator[AgentState]:
    """Yield the subagents that live below an agent, at any depth."""
    agents = hook.session.agents
    waiting = list(agents[agent_id].subagents)
    for one in waiting:  # grows
        waiting += agents[one].subagents
        yield agents[one]


@register_agent_class("single-minded")
class SingleMinded(BirthHook):
    """Denies a second subagent while there is one; who needs another ends the first."""

    def why_not(self, watched: Agent, name: str) -> str | None:
        """Name the one that is there."""
        there = list(watched.subagent_ids)
        if there:
            one = there[0]
            return f"one subagent at a time: there is {one!r}; discuss with it, or terminate it"
        if self.being_made(watched):
            return "one subagent at a time: one is being made by another call"
        return None
