"""One model call of a nested session fails: the session goes on, and ends as if none had failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken import AgentRuntime, FunctionModel, LocalWorld, load_session, tool
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.core.messages import Message
from harken.core.stream import Chunk
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from tests.agent_kit import Stage, call, call_message, check_context, check_log, fast_options
from tests.property.resumed_sessions import comparable, first_difference, summarize

INPUTS = ("Go.", "And now?")
WATCH = call(
    "hook", "m0", name="Watch", instructions="You watch.", points=["action"], tools=["look"]
)
COACH = call("hook", "l0", name="Coach", instructions="You coach.", points=["response"])
ANSWERS: dict[str, list[Message]] = {
    "main": [
        call_message(WATCH),
        call_message(call("task", "m1", name="Lead", instructions="Lead.", prompt="Plan.")),
        call_message(call("task", "m2", name="Critic", instructions="Criticize.")),
        call_message(
            call("discuss", "m3", prompt="Talk.", speakers=["Lead", "Critic"], rounds=2),
        ),
        Message("assistant", "The plan stands."),
        call_message(call("send", "m5", text="plan")),
    ],
    "Lead": [
        call_message(COACH),
        call_message(call("task", "l1", name="Ann", instructions="Plan.", prompt="Hi.")),
        call_message(call("task", "l2", name="Ben", instructions="Plan.")),
        call_message(call("discuss", "l3", prompt="A plan?", speakers=["Ann", "Ben"], rounds=2)),
        Message("assistant", "This is the plan."),
        call_message(call("discuss", "l5", prompt="Another?", speakers=["Ann"])),
    ],
    "Ann": [
        call_message(call("send", "a0", text="Ann")),
        call_message(call("task", "a1", name="Deep", instructions="Think.", prompt="Think.")),
        Message("assistant", "I have thought."),
        call_message(call("discuss", "a3", prompt="More?", speakers=["Deep"])),
    ],
    "Deep": [call_message(call("send", "d0", text="Deep"))],
}
"""The answers of each agent, in order. Later ones are their numbers."""


@dataclass
class Nested:
    """A session of four levels of agents with hooks, in which one model call fails."""

    folder: Path
    failing: int | None = None
    """The number of the call that fails, once."""
    call_count: int = 0
    failures: int = 0
    """How many failures reached the user."""
    effects: list[str] = field(default_factory=list)
    name: str = "play"

    @property
    def log(self) -> Path:
        return self.folder / "s.jsonl"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        check_context(request.messages)
        self.call_count += 1
        if self.call_count == self.failing:
            raise ModelError("overloaded")
        async for chunk in FunctionModel(respond, self.name).stream(request):
            yield chunk

    def open(self) -> Stage:
        """Open or resume the session."""

        @tool
        def send(text: str) -> str:
            """Send."""
            self.effects.append(text)
            return f"sent {text}"

        @tool(idempotent=True)
        def look() -> str:
            """Look."""
            return "nothing new"

        runtime = AgentRuntime(
            model=self, world=LocalWorld([send, look]), policy=ActionPolicy(actions=ACTIONS)
        )
        self.folder.mkdir(exist_ok=True)
        prompt = None if self.log.exists() else "You are main."
        root, session = load_session(
            self.log, runtime=runtime, name="main", system_prompt=prompt, options=fast_options()
        )
        return Stage(root, session, runtime)

    def play(self, *, is_resumed: bool = False) -> list[str]:
        """Play the session. Return the answers to the user.

        is_resumed: after the failure, resume the session from its log.
        """
        stage, answers = self.open(), list[str]()
        for text in INPUTS:
            try:
                answers.append(stage.ask(text))
            except ModelError:
                self.failures += 1
                if is_resumed:
                    stage.session.close()
                    stage = self.open()
                answers.append(stage.ask())
        stage.session.close()
        check_log(stage.log)
        return answers


def respond(request: ModelRequest) -> str | Message:
    """Answer from what the model reads alone: a call that is repeated has the same answer."""
    if request.agent == "Watch" and request.messages[-1].role != "tool":
        return call_message(call("look"))
    if request.agent in ("Watch", "Coach"):
        return "OK" if request.agent == "Watch" else "COMMENT: Go on."
    count = sum(message.role == "assistant" for message in request.messages)
    answers = ANSWERS.get(request.agent, [])
    return answers[count] if count < len(answers) else f"{request.agent} {count}."


def check_failures(folder: Path, is_resumed: Callable[[int], bool], step: int = 1) -> int:
    """Fail a model call, and compare the outcomes. Return the number of calls.

    step: every how many calls one fails, each in a session of its own.
    is_resumed: whether the session in which a call of this number fails is resumed.
    """
    whole = Nested(folder / "whole")
    answers = whole.play()
    assert whole.failures == 0
    expected = comparable(whole.log)
    differences: dict[int, list[str]] = {}
    for failing in range(1, whole.call_count + 1, step):
        session = Nested(folder / str(failing), failing)
        assert session.play(is_resumed=is_resumed(failing)) == answers
        assert (session.failures, session.call_count) == (1, whole.call_count + 1)
        assert session.effects == whole.effects == ["Ann", "Deep", "plan"]
        difference = first_difference(expected, comparable(session.log))
        if difference is not None:
            differences[failing] = [*map(summarize, difference)]
    assert differences == {}
    return whole.call_count


@pytest.mark.req("S4-04", "S4-11", "S4-25")
def test_a_failure_of_any_call_of_a_nested_session_leaves_the_outcome(tmp_path: Path) -> None:
    assert check_failures(tmp_path, lambda failing: failing % 2 == 0, step=3) >= 48


@pytest.mark.full
@pytest.mark.req("S4-04", "S4-11", "S4-25")
@pytest.mark.parametrize("is_resumed", [False, True], ids=["live", "resumed"])
def test_a_failure_of_any_call_leaves_the_outcome_live_and_resumed(
    tmp_path: Path, is_resumed: bool
) -> None:
    assert check_failures(tmp_path, lambda _: is_resumed) >= 48
