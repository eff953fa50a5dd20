"""Discussions of A, B and C, led by main, with a judge and a moderator who know their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken import AgentRuntime, FunctionModel, LocalWorld, load_session
from harken.core.messages import Message, text_of
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from harken.world.user import UserQuestion
from tests.agent_kit import Stage, call, call_message, fast_options, open_stage

NAMES = ("A", "B", "C", "Judge", "Chair")
Respond = Callable[[str, int, ModelRequest], str]
"""Returns what an agent answers: by its name, and the number of its answers so far."""


def respond(name: str, turn: int, request: ModelRequest) -> str:
    """The judge ends it after its second question, the chair lets C, A and B speak in turn.

    The others say how many messages they have read, so that an answer shows what they heard.
    """
    if name == "Judge":
        return ["Go on, please.\nCONTINUE: not yet", "DONE: A won."][min(turn, 1)]
    if name == "Chair":
        return "CAB"[turn % 3]
    word = " AGREED" if name == "B" and turn == 1 else ""
    return f"I am {name}, {len(request.messages)} read{word}"


@dataclass
class Person:
    """A user who says how often they were asked, and how much they were told."""

    questions: list[UserQuestion] = field(default_factory=list)

    async def ask(self, asked: UserQuestion) -> str:
        self.questions.append(asked)
        said = asked.question.count("\n\n")
        return f"I was told {said} things, last {asked.question.rpartition('[')[2][:8]!r}"

    async def approve(self, wanted: Any) -> Any:
        raise AssertionError("nothing needs approval")


def playing_model(
    arguments: dict[str, Any], respond: Respond = respond, failing: int | None = None
) -> FunctionModel:
    """Return a model of all agents. failing: the number of the participants' call that fails."""
    calls = [0]

    def answer(request: ModelRequest) -> Message:
        turn = sum(message.role == "assistant" for message in request.messages)
        if request.agent == "main":
            made = (call("task", f"t{n}", name=n, instructions=f"You are {n}.") for n in NAMES)
            steps = [
                call_message(*made),
                call_message(call("discuss", "d", prompt="Talk.", **arguments)),
                Message("assistant", "End."),
            ]
            return steps[turn]
        calls[0] += 1
        if calls[0] == failing:
            raise ModelError("overloaded", why="overloaded", status=503)
        return Message("assistant", respond(request.agent, turn, request))

    return FunctionModel(answer, "m")


def open_discussion(
    folder: Path, arguments: dict[str, Any], *, failing: int | None = None, **more: Any
) -> Stage:
    """Open the session of a discussion, with a user."""
    model = playing_model(arguments, failing=failing, **more)
    runtime = AgentRuntime(model=model, world=LocalWorld([], user=Person()))
    return open_stage(folder, model, runtime=runtime)


def resume_discussion(log: Path, arguments: dict[str, Any], **more: Any) -> Stage:
    """Resume a log of a discussion with a new model and a new user."""
    model = playing_model(arguments, **more)
    runtime = AgentRuntime(model=model, world=LocalWorld([], user=Person()))
    root, session = load_session(log, runtime=runtime, options=fast_options())
    return Stage(root, session, runtime)


def results(stage: Stage) -> list[tuple[str, str]]:
    """Return the results of all calls: tool and text."""
    return [(row["name"], row["content"]) for row in stage.select_lines(role="tool")]


def steps(stage: Stage) -> list[tuple[str, Any, Any]]:
    """Return the steps of the discussion: type, who, and what was decided."""
    return [
        (
            row["event_type"],
            row.get("speaker"),
            (row.get("verdict"), row.get("text"), row.get("ends"), row.get("stopped")),
        )
        for row in stage.select_lines()
        if row["event_type"] in ("discussion_spoken", "discussion_chosen", "discussion_judged")
    ]


def heard(stage: Stage) -> dict[str, list[str]]:
    """Return what each participant has read and said."""
    return {
        name: [f"{m.role}: {text_of(m.content)}" for m in agent.session.context(agent.agent_id)]
        for name, agent in stage.root.subagents.items()
    }
