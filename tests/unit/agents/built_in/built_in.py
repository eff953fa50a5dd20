"""Built-in hooks on a stage: put there by name, and what agents hear from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken import Hook, tool
from harken.agents.hooks.registry import get_hook_class
from harken.world.todo import todo
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    full_state,
    open_stage,
    script_model,
)

DONE: list[str] = []
"""What `change` changed in this test."""


@tool(reads_only=True)
async def look(at: str = "") -> str:
    """Look."""
    return f"seen {at}"


@tool
async def change(what: str = "") -> str:
    """Change something."""
    DONE.append(what)
    return f"changed {what}"


def put(
    one: Stage, kind: str, agent: str = "main", name: str | None = None, /, **options: Any
) -> Hook:
    """Put a built-in hook above an agent."""
    hook = get_hook_class(kind, one.runtime)(one.session, runtime=one.runtime, options=options)
    return hook.install(one.agent(agent), name)


def hooked(
    folder: Path, kind: str, parts: dict[str, list[ScriptedAnswer]], **options: Any
) -> Stage:
    """Return a stage whose root has this hook."""
    one = open_stage(folder, script_model(**parts), tools=[look, change, todo])
    put(one, kind, **options)
    return one


def comments(one: Stage, hook: str, agent: str = "main") -> list[str]:
    """Return what an agent heard from its hook."""
    begins = f"[hook {hook}]: "
    return [
        text.removeprefix(begins) for text in one.user_messages(agent) if text.startswith(begins)
    ]


def asked(one: Stage, hook: str) -> int:
    """Return how often a hook was asked: what it is not concerned with is not logged."""
    return len(one.select_lines(event_type="hook_verdict", agent_id=one.id_of(hook)))


def denials(one: Stage, hook: str, agent: str = "main") -> list[str]:
    """Return why actions of an agent were denied."""
    begins = f"Error: Action blocked by hook '{hook}': "
    rows = one.select_lines(role="tool", agent_id=one.id_of(agent))
    texts = [row["content"] for row in rows if isinstance(row["content"], str)]
    return [text.removeprefix(begins) for text in texts if text.startswith(begins)]


def resumed(one: Stage) -> Stage:
    """Resume a session; check that it is as it was."""
    live = full_state(one.session)
    later = one.resume()
    assert full_state(later.session) == live
    return later


def looks(count: int, start: int = 0) -> list[ScriptedAnswer]:
    """Return so many messages that call `look`."""
    return [call_message(call("look", f"l{n}", at=str(n))) for n in range(start, start + count)]
