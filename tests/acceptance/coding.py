"""A coding task from end to end: what its agents do, and the small project that they do it in.

The coder and the reviewer are functions of the request alone, as a careful model is: they look
at what stands in their context, and go on from there. So they can be killed anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.core import canonical
from harken.core.messages import ChatMessage, Message, ToolCall, text_of
from harken.llm.base import ModelRequest
from tests.agent_kit import call, call_message

PROMPT = "The tests of this project fail. Mend it, have it reviewed, and tell me what was wrong."
BUGGY = '''"""Money, in cents."""


def split(cents: int, people: int) -> list[int]:
    """Split a bill so that nothing is lost: the first pay what is left over."""
    share = cents // people
    return [share] * people
'''
MENDED = BUGGY.replace(
    "    return [share] * people\n",
    "    rest = cents - share * people\n    return [share + (n < rest) for n in range(people)]\n",
)
TEST = """import unittest

from bill import split


class Split(unittest.TestCase):
    def test_nothing_is_lost(self) -> None:
        for cents in (0, 1, 100, 101, 199):
            with self.subTest(cents=cents):
                self.assertEqual(sum(split(cents, 3)), cents)

    def test_it_is_fair(self) -> None:
        self.assertLessEqual(max(split(101, 3)) - min(split(101, 3)), 1)


if __name__ == "__main__":
    unittest.main()
"""
ANSWER = "split() lost the cents that are left over; now the first people pay them. Reviewed."
RUN_TESTS = f"{sys.executable} -B -m unittest 2>&1 | tail -40"
OLD, NEW = "    return [share] * people\n", MENDED.split("people\n", 1)[1]


def make_project(folder: Path) -> Path:
    """Write the project; return its folder."""
    folder.mkdir(parents=True)
    (folder / "bill.py").write_text(BUGGY)
    (folder / "test_bill.py").write_text(TEST)
    return folder


@dataclass(frozen=True, slots=True)
class CompletedStep:
    """A call with its result."""

    name: str
    arguments: dict[str, Any]
    text: str
    failed: bool


def completed_steps(messages: Sequence[ChatMessage]) -> list[CompletedStep]:
    """Return the calls of a context with their results, in order."""
    calls_by_id: dict[str, ToolCall] = {}
    steps: list[CompletedStep] = []
    for message in messages:
        calls_by_id |= {call.id: call for call in message.tool_calls or ()}
        if message.role == "tool" and message.tool_call_id in calls_by_id:
            function = calls_by_id[message.tool_call_id].function
            arguments = canonical.from_json(function.arguments.encode())
            failed = message.is_error or "interrupted" in text_of(message.content)
            steps.append(CompletedStep(function.name, arguments, text_of(message.content), failed))
    return steps


def plan(request: ModelRequest) -> Message | str:
    """Say what an agent of the task says or does next, from its context alone."""
    steps = completed_steps(request.messages)
    index = sum(message.role == "assistant" for message in request.messages)

    def do(tool: str, **arguments: Any) -> Message:
        return call_message(call(tool, f"c{index}", **arguments))

    return _review(steps, do) if request.agent == "reviewer" else _code(steps, do)


Do = Callable[..., Message]


def _review(steps: list[CompletedStep], do: Do) -> Message | str:
    texts = [step.text for step in steps if step.name == "read" and not step.failed]
    return (
        "GOOD: no cent is lost."
        if texts and "n < rest" in texts[-1]
        else do("read", path="bill.py")
    )


def _code(steps: list[CompletedStep], do: Do) -> Message | str:
    reads = [step for step in steps if step.name == "read" and not step.failed]
    if len({step.arguments["path"] for step in reads}) < 2:
        paths = ("bill.py", "test_bill.py")
        return call_message(
            *(call("read", f"r{len(steps)}{n}", path=p) for n, p in enumerate(paths))
        )
    tests = [step.text for step in steps if step.name == "bash" and not step.failed]
    if not tests:
        return do("bash", command=RUN_TESTS)
    if not _mended(steps):
        if steps[-1].name == "edit":  # it failed, or nobody knows
            return do("read", path="bill.py")
        return do("edit", path="bill.py", old_string=OLD, new_string=NEW)
    if "FAILED" in tests[-1]:
        return do("bash", command=RUN_TESTS)
    return _have_reviewed(steps, do)


def _mended(steps: list[CompletedStep]) -> bool:
    if any(step.name == "edit" and not step.failed for step in steps):
        return True
    return any(step.name == "read" and "n < rest" in step.text for step in steps)


def _have_reviewed(steps: list[CompletedStep], do: Do) -> Message | str:
    talks = [step for step in steps if step.name in ("task", "discuss")]
    if any("GOOD" in step.text for step in talks):
        return ANSWER
    prompt = "Review bill.py: is any cent lost?"
    if talks and "was created" in talks[-1].text and "No subagent" not in talks[-1].text:
        return do("discuss", prompt=prompt, speakers=["reviewer"])
    if talks and talks[-1].name == "discuss":
        return do("discuss", prompt=prompt, speakers=["reviewer"])
    return do("task", name="reviewer", instructions="You review code.", prompt=prompt)
