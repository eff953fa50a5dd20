"""Tools that add, fail and dawdle, and a stage where they are called."""

import asyncio
from pathlib import Path

from harken import tool
from harken.core.messages import ToolCall
from tests.agent_kit import Stage, call_message, check_log, open_stage, script_model


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> str:
    """Fail."""
    raise RuntimeError(why)


@tool(timeout_s=0.02)
async def dawdle() -> str:
    """Take too long."""
    await asyncio.sleep(30)
    return "never"


TOOLS = (add, fail, dawdle)


def acting(folder: Path, *made: ToolCall) -> Stage:
    """Return a stage whose root made these calls in one message, then answered."""
    one = open_stage(folder, script_model(main=[call_message(*made), "Done."]), tools=TOOLS)
    assert one.ask("Act.") == "Done."
    check_log(one.log)
    return one
