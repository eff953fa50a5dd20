"""What models say in random sessions: agents act and answer, hooks judge; all follows from dice.

Dice are thrown anew from what a model reads: so it says the same to the same, be it after a resume.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from random import Random
from typing import Any

from harken import FunctionModel
from harken.agents.texts import JUDGE_REQUEST, MODERATOR_REQUEST, prefix_of
from harken.core.messages import Message, text_of
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from tests.agent_kit import call, call_message

NAMES = ("Ann", "Ben", "Cat")
FILE = "d.json"
QUESTION = re.compile(r"\[(input|action|result|response)\] Agent ")
ACTS = (0.75, 0.4, 0.2, 0.05)
"""How likely an agent acts, by its answers so far, modulo four."""
HOOK_ACTS = (0.3, 0.15, 0.05, 0.0)
"""How likely a hook acts, by its answers since it was asked."""
IDLE = 25
"""An agent that has answered so often acts no more."""


def dice(*parts: object) -> Random:
    """Return dice that fall the same each time."""
    return Random(repr(parts))


@dataclass
class Voices:
    """What all models say: agents act and answer, hooks judge, and now and then one fails."""

    seed: int
    patience: int = 120
    """After so many answers nobody acts any more: every session ends."""
    fails: bool = False

    def model(self, window: int | None = None) -> FunctionModel:
        """Return it as a model. window: how many tokens it reads."""
        model = FunctionModel(self.answer, "voices")
        model.context_window = window  # type: ignore[attr-defined]
        return model

    async def answer(self, request: ModelRequest) -> str | Message:
        texts = [text_of(message.content) for message in request.messages]
        answer_count = sum(message.role == "assistant" for message in request.messages)
        random = dice(self.seed, request.agent, answer_count, [text[:200] for text in texts[-3:]])
        for _ in range(random.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)  # others come before it
        self.patience -= 1
        # A call that is tried again reads the same: what fails follows from how often one asked.
        if self.fails and dice(self.seed, self.patience).random() < 0.05:
            raise ModelError("no connection")
        if request.agent == "compaction":
            return "Summary."
        if texts[-1] == JUDGE_REQUEST:
            return random.choice(("DONE: enough", "CONTINUE: a little more", "Hm."))
        if texts[-1].startswith(prefix_of(MODERATOR_REQUEST)):
            return random.choice((*NAMES, "Hm."))
        offered = [tool["name"] for tool in request.tools]
        question_index = find_question_index(request)
        if question_index is None or "quit" not in offered:
            message = self._message(random, ACTS[answer_count % 4], offered, answer_count)
            return message or f"Answer {answer_count}."
        since = sum(message.role == "assistant" for message in request.messages[question_index:])
        actions = ["keep_note", "read_log", "look", "peek", "hook", "task"] * 3
        actions = [action for action in [*actions, "quit", "meta", "endo"] if action in offered]
        message = self._message(random, HOOK_ACTS[min(since, 3)], actions, answer_count)
        return message or _judgement(random, texts[question_index], answer_count)

    def _message(
        self, random: Random, chance: float, tools: list[str], answer_count: int
    ) -> Message | None:
        """Return a message with one to three calls, or none."""
        if not tools or answer_count > IDLE or self.patience < 0 or random.random() > chance:
            return None
        names = [random.choice(sorted(tools)) for _ in range(random.choice((1, 1, 2, 3)))]
        return call_message(
            *[
                call(tool, f"c{answer_count}_{index}", **arguments(tool, random))
                for index, tool in enumerate(names)
            ]
        )


def find_question_index(request: ModelRequest) -> int | None:
    """Return where the last question to a hook stands in what it reads."""
    indexes = [
        index
        for index, message in enumerate(request.messages)
        if message.role == "user" and QUESTION.match(text_of(message.content))
    ]
    return indexes[-1] if indexes else None


def _judgement(random: Random, question: str, answer_count: int) -> str:
    match = QUESTION.match(question)
    point = match and match[1]
    answers = (
        ["OK"] * 10 + [f"COMMENT: smart {answer_count}"] * 4 + ["DENY: smart no"] * 3 + ["Hm."]
    )
    if point == "action":
        answers += ['REWRITE: {"text": "rewritten"}']
    if point == "response":
        answers += ["REWRITE: a smart rewrite"] * 3
    return random.choice(answers)


def arguments(action: str, random: Random) -> dict[str, Any]:
    """Return what somebody gives an action or a tool."""
    name, second_name = random.choice(NAMES), random.choice(NAMES)
    match action:
        case "send" | "look" | "peek" | "keep_note":
            return {"text": str(random.randrange(9))}
        case "task":
            return {"name": name, "instructions": "You."} | _maybe(random, prompt="Hi.")
        case "discuss":
            message = {"prompt": "Talk."} | _maybe(random, speakers=[name, second_name])
            return message | (_order(random) if random.random() < 0.4 else {})
        case "hook":
            tools = random.choice(([], ["look"], ["look", "task", "hook"]))
            points = random.sample(("input", "action", "result", "response"), 2)
            message = {"name": random.choice(("H1", "H2")), "instructions": "Watch."}
            return message | _maybe(random, tools=tools) | _maybe(random, points=points)
        case "endo":
            return {"subagent": name} | _maybe(random, prompt="Now you.")
        case "terminate" | "talk_with":
            return {"name": name}
        case "clone":
            return {"name": name, "as_name": second_name}
        case "dump":
            return {"path": FILE}
        case "restore":
            return {"path": FILE, "name": name}
    return {}


def _order(random: Random) -> dict[str, Any]:
    """Return an order of a discussion; its judge or its moderator may be a speaker, or nobody."""
    order = random.choice(("random", "random:3", f"moderator:{random.choice(NAMES)}"))
    until = random.choice(("answer 3", f"judge:{random.choice(NAMES)}"))
    return {"rounds": 2} | _maybe(random, order=order) | _maybe(random, until=until)


def _maybe(random: Random, **arguments_: Any) -> dict[str, Any]:
    return arguments_ if random.random() < 0.6 else {}
