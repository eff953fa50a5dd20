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
        texts = [text_of(one.content) for one in request.messages]
        said = sum(one.role == "assistant" for one in request.messages)
        own = dice(self.seed, request.agent, said, [text[:200] for text in texts[-3:]])
        for _ in range(own.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)  # others come before it
        self.patience -= 1
        # A call that is tried again reads the same: what fails follows from how often one asked.
        if self.fails and dice(self.seed, self.patience).random() < 0.05:
            raise ModelError("no connection")
        if request.agent == "compaction":
            return "Summary."
        offered = [one["name"] for one in request.tools]
        at = asked_at(request)
        if at is None or "quit" not in offered:
            made = self._message(own, ACTS[said % 4], offered, said)
            return made or f"Answer {said}."
        since = sum(one.role == "assistant" for one in request.messages[at:])
        wanted = ["keep_note", "read_log", "look", "peek", "hook", "task"] * 3
        wanted = [one for one in [*wanted, "quit", "meta", "endo"] if one in offered]
        made = self._message(own, HOOK_ACTS[min(since, 3)], wanted, said)
        return made or _judgement(own, texts[at], said)

    def _message(self, own: Random, chance: float, tools: list[str], said: int) -> Message | None:
        """Return a message with one to three calls, or none."""
        if not tools or said > IDLE or self.patience < 0 or own.random() > chance:
            return None
        some = [own.choice(sorted(tools)) for _ in range(own.choice((1, 1, 2, 3)))]
        return call_message(
            *[call(one, f"c{said}_{at}", **arguments(one, own)) for at, one in enumerate(some)]
        )


def asked_at(request: ModelRequest) -> int | None:
    """Return where the last question to a hook stands in what it reads."""
    found = [
        at
        for at, one in enumerate(request.messages)
        if one.role == "user" and QUESTION.match(text_of(one.content))
    ]
    return found[-1] if found else None


def _judgement(own: Random, question: str, said: int) -> str:
    found = QUESTION.match(question)
    point = found and found[1]
    some = ["OK"] * 10 + [f"COMMENT: smart {said}"] * 4 + ["DENY: smart no"] * 3 + ["Hm."]
    if point == "action":
        some += ['REWRITE: {"text": "rewritten"}']
    if point == "response":
        some += ["REWRITE: a smart rewrite"] * 3
    return own.choice(some)


def arguments(action: str, own: Random) -> dict[str, Any]:
    """Return what somebody gives an action or a tool."""
    name, other = own.choice(NAMES), own.choice(NAMES)
    match action:
        case "send" | "look" | "peek" | "keep_note":
            return {"text": str(own.randrange(9))}
        case "task":
            return {"name": name, "instructions": "You."} | _maybe(own, prompt="Hi.")
        case "discuss":
            return {"prompt": "Talk."} | _maybe(own, speakers=[name, other])
        case "hook":
            tools = own.choice(([], ["look"], ["look", "task", "hook"]))
            points = own.sample(("input", "action", "result", "response"), 2)
            made = {"name": own.choice(("H1", "H2")), "instructions": "Watch."}
            return made | _maybe(own, tools=tools) | _maybe(own, points=points)
        case "endo":
            return {"subagent": name} | _maybe(own, prompt="Now you.")
        case "terminate" | "talk_with":
            return {"name": name}
        case "clone":
            return {"name": name, "as_name": other}
        case "dump":
            return {"path": FILE}
        case "restore":
            return {"path": FILE, "name": name}
    return {}


def _maybe(own: Random, **given: Any) -> dict[str, Any]:
    return given if own.random() < 0.6 else {}
