"""The setup shared by all examples: the model, agents and hooks from files, the log."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harken import AgentRuntime, Budget, Conversation, LocalWorld, Templates, load_session
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.hook_file import HookFiles
from harken.llm.base import Model
from harken.llm.providers import BUILT_IN
from harken.llm.resolve import caching_resolver


@dataclass(frozen=True)
class Example:
    """A folder with `run.py`, `agents/*.md`, and the scripted model `script.yaml`."""

    folder: Path
    log: Path
    model: Model

    @classmethod
    def of(cls, folder: Path, log: Path, model: str | None = None) -> Example:
        """Return an example with this model, its key from the environment, or the script."""
        keys = {name: os.environ.get(base.key_env or "", "") for name, base in BUILT_IN.items()}
        providers = {name: replace(base, api_key=keys[name]) for name, base in BUILT_IN.items()}
        models = caching_resolver(providers=providers)
        script = os.path.relpath(folder / "script.yaml")  # A short path, since the log repeats it.
        return cls(folder, log, models(model or f"scripted:{script}"))

    @asynccontextmanager
    async def open(
        self,
        name: str,
        *,
        world: LocalWorld | None = None,
        hooks: Sequence[str] = (),
        **options: Any,
    ) -> AsyncIterator[Conversation]:
        """Start a session with the agent of `agents/NAME.md` and these hooks.

        `options` are passed to the `AgentRuntime`.
        """
        templates = Templates([self.folder / "agents"])
        files = HookFiles([self.folder / "hooks"])
        runtime = AgentRuntime(
            model=self.model,
            world=world or LocalWorld(),
            library=AgentLibrary(templates=templates, hooks=files),
            policy=ActionPolicy(actions=ACTIONS),
            **options,
        )
        template = templates.find(name)
        root, session = load_session(
            self.log,
            runtime=runtime,
            system_prompt=template.instructions,
            name=name,
            budget=Budget(model_calls=100, live_subagents=10),
        )
        with session:
            for hook in hooks:
                files.create(hook, root).install(root, hook)
            yield Conversation(root)
            session.end("example")
