"""Calls of `task` in one message run concurrently, also after a crash between any two groups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harken import FunctionModel
from harken.agents.open_calls import has_open_calls
from harken.core.messages import Message, text_of
from harken.llm.base import ModelRequest
from harken.session.log.checksum import has_more
from tests.agent_kit import Stage, call, call_message, check_log, open_stage
from tests.unit.agents.crash_kit import cut_after, resume

NAMES = ("A", "B", "C")


def meeting_model(present: int) -> FunctionModel:
    """Return a model whose agents answer when so many of them were asked."""
    asked: set[str] = set()
    all_present = asyncio.Event()

    async def answer(request: ModelRequest) -> Message:
        if request.agent == "main":
            if any(message.role == "tool" for message in request.messages):
                return Message("assistant", "End.")
            made = (call("task", f"t{n}", name=n, instructions="You.", prompt="Hi") for n in NAMES)
            return call_message(*made)
        asked.add(request.agent)
        if len(asked) == present:
            all_present.set()
        await asyncio.wait_for(all_present.wait(), 5)
        return Message("assistant", f"{request.agent} is here")

    return FunctionModel(answer, "m")


def answers(stage: Stage) -> list[str]:
    """Return the results as the main agent reads them."""
    context = stage.session.context(stage.root.agent_id)
    return [text_of(message.content) for message in context if message.role == "tool"]


@pytest.mark.req("S4-19", "S0-32")
def test_tasks_meet_live_and_after_a_resume(tmp_path: Path) -> None:
    one = open_stage(tmp_path, meeting_model(3))
    before = len(one.select_lines())
    assert one.ask("Go.") == "End."
    expected = answers(one)
    assert expected == [f"{name} is here" for name in NAMES]
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    for count in range(before + 1, len(lines) + 1):
        if has_more(lines[count - 1]):
            continue
        cut = cut_after(one.log, count)
        later = resume(cut, meeting_model(3 - _answered(cut)))
        if has_open_calls(later.root):
            assert later.ask() == "End."
        assert answers(later) == expected, count
        later.session.close()
        check_log(later.log)


def _answered(log: Path) -> int:
    """Return the number of subagents whose answers are in a log."""
    return sum(f'"content":"{name} is here"' in log.read_text() for name in NAMES)
