"""Stages whose agents read and write the files of a folder with model calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken import AgentRuntime, LocalWorld
from harken.core.messages import ToolCall
from harken.llm.base import Model
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.search.engines import Scanner
from harken.world.search.tools import search_tools
from tests.agent_kit import ScriptedAnswer, Stage, call, call_message, open_stage, script_model


def file_world(folder: Path) -> LocalWorld:
    """Return a world with all tools for the files of a folder."""
    root = Root(folder)
    return LocalWorld([*file_tools(root), *search_tools(root, Scanner())], folder=folder)


def file_stage(tmp_path: Path, model: Model | None = None, **parts: list[ScriptedAnswer]) -> Stage:
    """Return a stage whose agents can use the files in `tmp_path / "files"`."""
    folder = tmp_path / "files"
    folder.mkdir(exist_ok=True)
    runtime = AgentRuntime(model=model or script_model(**parts), world=file_world(folder))
    return open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]


def read_call(path: str, id_: str = "c1", **options: Any) -> ToolCall:
    return call("read", id_, path=path, **options)


def write_call(path: str, content: str, id_: str = "c1") -> ToolCall:
    return call("write", id_, path=path, content=content)


def edit_call(path: str, old: str, new: str, id_: str = "c1") -> ToolCall:
    return call("edit", id_, path=path, old_string=old, new_string=new)


def tool_results(stage_: Stage, agent: str = "main") -> list[str]:
    """Return the texts of all results of an agent, in order."""
    rows = stage_.select_lines(role="tool", agent_id=stage_.id_of(agent))
    texts = [row["content"] for row in rows]
    return [text if isinstance(text, str) else text[0]["text"] for text in texts]


__all__ = [
    "call",
    "call_message",
    "edit_call",
    "file_stage",
    "file_world",
    "read_call",
    "tool_results",
    "write_call",
]
