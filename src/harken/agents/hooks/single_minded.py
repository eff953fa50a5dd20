"""A hook that lets an agent have one subagent at a time."""

from __future__ import annotations

from harken.agents.base import Agent
from harken.agents.hooks.births import BirthHook
from harken.agents.kinds import register


@register("single-minded")
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
