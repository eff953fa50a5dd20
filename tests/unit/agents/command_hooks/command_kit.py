"""A stage whose root is watched by commands, and what these were told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harken import AgentRuntime, LocalWorld, SessionViewer
from harken.agents.command_hooks.config import read_hooks
from harken.agents.command_hooks.hook import NAME, CommandHook, Commands
from harken.agents.runtime import Observers
from harken.world.local import local_tools
from harken.world.user import User
from tests.agent_kit import ScriptedAnswer, Stage, open_stage, script_model


def command(text: str, **more: Any) -> dict[str, Any]:
    """Return a hook that runs a line in a shell."""
    return {"type": "command", "command": text, **more}


def on(event: str, text: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    """Return a section of settings with one command at one event."""
    return {event: [{"matcher": matcher, "hooks": [command(text, **more)]}]}


def commanded(
    tmp_path: Path,
    section: Mapping[str, Any],
    *,
    user: User | None = None,
    notices: list[str] | None = None,
    **parts: Sequence[ScriptedAnswer],
) -> Stage:
    """Return a stage whose agents work in `tmp_path / "desk"`, watched by these commands."""
    work = tmp_path / "desk"
    work.mkdir(exist_ok=True)
    world = LocalWorld(local_tools(work, outputs=tmp_path / "out"), folder=work, user=user)
    (tmp_path / "out").mkdir(exist_ok=True)
    told = [] if notices is None else notices
    runtime = AgentRuntime(
        model=script_model(**parts), world=world, observers=Observers(on_notice=told.append)
    )
    one = open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]
    hooks = read_hooks(section, "settings.json")
    assert not hooks.notes, hooks.notes
    hook = CommandHook(one.session, runtime=runtime, options=Commands(hooks.entries))
    hook.install(one.root, NAME)
    return one


def keeper(tmp_path: Path) -> str:
    """Return a command that keeps what it is told; `told` returns it."""
    return f"{{ cat; echo; }} >> {tmp_path / 'told.jsonl'}; env > {tmp_path / 'environment'}"


def told(tmp_path: Path) -> list[dict[str, Any]]:
    """Return what commands were told, in order."""
    file = tmp_path / "told.jsonl"
    lines = file.read_text().splitlines() if file.exists() else ()
    return [json.loads(line) for line in lines if line]


def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of the last command that kept what it was told."""
    lines = (tmp_path / "environment").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def said(one: Stage, name: str = NAME) -> list[str]:
    """Return the verdicts of a hook as texts, and its notes."""
    entries = SessionViewer(one.log).get_transcript(one.id_of(name))
    return [entry["content"] for entry in entries if entry["role"] in ("assistant", "system")]
