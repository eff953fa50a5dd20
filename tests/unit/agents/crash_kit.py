"""Logs that end in the middle, as a crash leaves them, and sessions that go on from there."""

from pathlib import Path
from typing import Any

from harken import AgentRuntime, LocalWorld, Tool, load_session
from tests.agent_kit import Stage, fast_options


def cut_after(log: Path, count: int) -> Path:
    """Write the first `count` lines of a log into a file of their own: as a crash leaves it."""
    (log.parent / f"cut{count}").mkdir()
    cut = log.parent / f"cut{count}" / "s.jsonl"
    cut.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:count]))
    return cut


def resume(log: Path, model: Any, *tools: Tool, **more: Any) -> Stage:
    runtime = AgentRuntime(model=model, world=LocalWorld(tools))
    root, session = load_session(log, runtime=runtime, options=fast_options(), **more)
    return Stage(root, session, runtime)
