"""Hooks that limit the subagents of an agent, and the hook `single-minded`.

The calls of a message are judged in sequence and run concurrently. So an allowed call counts at
once, before its subagent exists.

`single-minded` allows an agent a single subagent at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import MAKING
from harken.agents.hooks.hook import Hook
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId
from harken.core.verdict import Deny, HookQuestion, Ok, Verdict
from harken.session.state import AgentState


class BirthHook(Hook):
    """A hook that judges only the creation of subagents."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})

    def begin(self) -> None:
        """Start without any pending creation."""
        self._allowed_calls: dict[str, str] = {}
        """The name of the new subagent by allowed call, until the call has its result."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether the question is about the creation of a subagent."""
        return question.call is not None and question.call.function.name in MAKING

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny if a limit is reached; otherwise record the pending creation."""
        watched = self.watched
        if watched is None or not self.should_ask(question):
            return Ok()
        name = name_made(question)
        reason = self.denial_reason(watched, name)
        if reason is not None:
            return Deny(reason)
        self._allowed_calls[question.subject] = name
        return Ok()

    def denial_reason(self, watched: Agent, name: str) -> str | None:
        """Return the reason to deny a subagent with this name, or None to allow it."""
        raise NotImplementedError

    def count_pending(self, watched: Agent) -> int:
        """Return the number of allowed creations that are still pending."""
        existing = watched.subagents
        open_calls = {call.reference for call in watched.state.open_calls.values()}
        allowed = self._allowed_calls.items()
        self._allowed_calls = {
            call: name for call, name in allowed if call in open_calls and name not in existing
        }
        return len(self._allowed_calls)


def name_made(question: HookQuestion) -> str:
    """Return the name of the subagent that a call creates, or an empty string if unknown."""
    arguments = parse_arguments_or_empty(question.text)
    name = arguments.get("as_name") or arguments.get("name")
    return name if isinstance(name, str) else ""


def live_below(hook: Hook, agent_id: AgentId) -> Iterator[AgentState]:
    """Yield the live subagents below an agent, at any depth."""
    agents = hook.session.agents
    pending = list(agents[agent_id].subagents)
    for id_ in pending:  # the loop extends it
        pending += agents[id_].subagents
        yield agents[id_]


@register_agent_class("single-minded")
class SingleMinded(BirthHook):
    """Denies a second subagent while there is one; who needs another ends the first."""

    def denial_reason(self, watched: Agent, name: str) -> str | None:
        """Name the existing subagent."""
        names = list(watched.subagents)
        if names:
            return texts.SUBAGENT_EXISTS.format(names[0])
        if self.count_pending(watched):
            return texts.SUBAGENT_PENDING
        return None
