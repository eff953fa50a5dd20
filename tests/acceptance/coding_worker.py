"""The coder of `coding.py` in a process of its own, which dies after some events of its log.

    python -m tests.acceptance.coding_worker FOLDER EVENTS [PROTOCOL URL]

FOLDER holds `project/` and the log; EVENTS is how many it logs before it is killed, 0 for never;
with PROTOCOL (`anthropic`, `openai`) its model is a provider at URL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import anthropic  # noqa: F401 - models import it when they are made, which is after the fork
import openai  # noqa: F401

from harken import AgentRuntime, FunctionModel, load_session
from harken.core.events import Event
from harken.llm.anthropic import AnthropicModel
from harken.llm.base import Model
from harken.llm.http_model import ModelEndpoint
from harken.llm.openai import OpenAIModel
from harken.world.local import local_world
from harken.world.permissions.permissions import Permissions
from tests.acceptance.coding import PROMPT, plan


def model(arguments: list[str]) -> Model:
    if not arguments:
        return FunctionModel(plan, "coder")
    protocol, url = arguments
    endpoint = ModelEndpoint(base_url=url, api_key="sk-of-no-account", timeout_s=10)
    kind = AnthropicModel if protocol == "anthropic" else OpenAIModel
    return kind(f"{protocol}/coder", "coder", endpoint=endpoint)


def main(folder: Path, events: int, *options: str) -> None:
    remaining = events

    def count(_: Event) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    world = local_world(
        folder / "project", outputs=folder / "outputs", permissions=Permissions("all")
    )
    runtime = AgentRuntime(model=model([*options]), world=world)
    root, session = load_session(folder / "s.jsonl", runtime=runtime, name="main")
    with session:
        session.add_listener(count)
        has_user_message = any(message["role"] == "user" for message in root.transcript)
        print(asyncio.run(root.response(None if has_user_message else PROMPT)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
