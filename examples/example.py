"""What all use cases share: a model by one flag, agents and hooks from files, a log."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harken import AgentRuntime, Budget, Conversation, Templates, World, load_session
from harken.agents.action_schemas import ACTIONS
from harken.agents.tree.hook_file import HookFiles
from harken.llm.base import Model
from harken.llm.providers import BUILT_IN
from harken.llm.resolve import caching_resolver


@dataclass(frozen=True)
class Example:
    """A folder with `run.py`, `agents/*.md`, and `script.yaml`: what a model would say."""

    folder: Path
    log: Path
    model: Model

    @classmethod
    def of(cls, folder: Path, log: Path, model: str | None = None) -> Example:
        """Use this model, with its key from the environment; None: the script."""
        keys = {n: os.environ.get(one.key_env or "", "") for n, one in BUILT_IN.items()}
        providers = {n: replace(one, api_key=keys[n]) for n, one in BUILT_IN.items()}
        models = caching_resolver(providers=providers)
        script = os.path.relpath(folder / "script.yaml")  # short: it stands in the log, often
        return cls(folder, log, models(model or f"scripted:{script}"))

    @asynccontextmanager
    async def open(
        self, name: str, *, world: World | None = None, hooks: Sequence[str] = (), **more: Any
    ) -> AsyncIterator[Conversation]:
        """Begin a session with the agent that `agents/NAME.md` describes, under these hooks.

        `more` goes to the `AgentRuntime`.
        """
        templates = Templates([self.folder / "agents"])
        files = HookFiles([self.folder / "hooks"])
        runtime = AgentRuntime(
            model=self.model,
            world=world or World(),
            templates=templates,
            hooks=files,
            actions=ACTIONS,
            **more,
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
