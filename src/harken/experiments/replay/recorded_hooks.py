"""The named hooks of a recorded session: as they were listed, and as they were created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.agents.agent import Agent
from harken.agents.hooks.hook import Hook
from harken.agents.smart_agent import SmartAgent
from harken.errors import NameNotFound
from harken.experiments.replay.agent_events import get_kind
from harken.experiments.replay.progress import ReplayProgress
from harken.experiments.replay.recorded_agents import RecordedAgent, RecordedSmartAgent


class RecordedHooks:
    """Creates the hooks that agents of a recorded session installed by name."""

    def __init__(self, script: ReplayProgress) -> None:
        """Create hooks as in the record of this replay."""
        self.hook_list = ""
        """Description of the hooks for models."""
        self._script = script

    def create(self, name: str, watched: Any) -> Agent:
        """Return the next recorded hook of an agent, before its birth. Raises NameNotFound."""
        birth = self._script.next_hook(self._script.agent_key(watched))
        kind = None if birth is None else self._script.kinds.get(get_kind(birth))
        if birth is None or kind is None:
            raise NameNotFound("hook", name, self.names())
        session, runtime = watched.session, watched.runtime
        prompt = self._script.recorded.system_prompt(birth)
        hook: Agent
        if issubclass(kind, SmartAgent):
            hook = kind(session, prompt, runtime=runtime, model=birth.language_model)
        elif issubclass(kind, Hook) and not issubclass(kind, RecordedAgent):
            options = None if birth.spec is None else birth.spec.options
            hook = kind(session, runtime=runtime, options=options)
        else:
            hook = kind(session, prompt, runtime=runtime)
        if isinstance(hook, RecordedAgent | RecordedSmartAgent):
            hook.recorded_spec = birth.spec
        return hook

    def names(self) -> Sequence[str]:
        """Return no names: hooks are found by their order in the record."""
        return []

    def listing(self) -> str:
        """Return the description of the hooks for models."""
        return self.hook_list
