"""Random sessions of agents with hooks, and hooks that have hooks: each follows from one number.

What all models say is in `hooked_voices`. A hook in code has dice, too, which fall by what it is
asked.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from harken import (
    AgentRuntime,
    Comment,
    Conversation,
    Deny,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Rewrite,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, unload_agent
from harken.agents.hooks.options import HookOptions
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.core.event_types.spec import AgentSpec, HookPoint
from harken.core.verdict import Verdict
from harken.errors import ModelError
from tests.agent_kit import Stage, fast_options, run
from tests.property.hooked_voices import FILE, NAMES, Voices, arguments, dice
from tests.unit.agents.crash_kit import cut_after

GUARD = "guard"
"""The hook in code that the user puts above the first agent, before all: it never quits."""
COMMANDS = ("task", "hook", "terminate", "dump", "restore", "endo", "clone", "talk_with")

POINTS: tuple[list[HookPoint] | None, ...] = (
    None,
    ["input"],
    ["action", "response"],
    ["response"],
    ["result", "input"],
)


@tool
def send(text: str = "") -> str:
    """Send."""
    return f"sent {text}"


@tool(idempotent=True)
def look(text: str = "") -> str:
    """Look."""
    return f"saw {text}"


@tool(idempotent=True, reads_only=True)
async def peek(text: str = "") -> str:
    """Peek."""
    await asyncio.sleep(0)
    return f"peeked at {text}"


JUDGED: list[HookQuestion] = []
"""The questions that hooks in code judged in this process, in order."""


class Seeded(HookOptions, frozen=True):
    """Which dice a hook has."""

    seed: int = 0


@register_agent_class("test-counting")
class Counting(Hook):
    """A hook in code that counts what it was asked, and says, does or breaks what dice want."""

    Options = Seeded
    options: Seeded

    def begin(self) -> None:
        self.asked = 0

    async def judge(self, question: HookQuestion) -> Verdict:
        self.asked += 1
        JUDGED.append(question)
        random = dice(self.options.seed, self.name, question.point, question.text, self.asked % 7)
        chance = random.random()
        if random.random() < (0.05 if chance < 0.75 else 0.3) and self.name != GUARD:
            await self.quit()
        if chance < 0.55:
            return Ok()
        if chance < 0.75:
            return Comment(f"number {self.asked} of {self.name}")
        match question.point:
            case "response":
                return Deny("think again") if chance < 0.88 else Rewrite(f"{question.text}, really")
            case "action":
                return Deny("not now") if chance < 0.86 else _other(question, random)
        if chance > 0.97:
            raise RuntimeError("broken")
        return Ok()

    def dump_state(self) -> Any:
        return {"asked": self.asked}

    def load_saved_state(self, saved: Any) -> None:
        self.asked = saved["asked"]


def _other(question: HookQuestion, random: Random) -> Verdict:
    """Return an action with somebody else."""
    assert question.call is not None
    values, name = json.loads(question.text), random.choice(NAMES)
    match question.call.function.name:
        case "task" | "terminate" | "clone" | "hook" | "talk_with":
            return Rewrite(json.dumps({**values, "name": name}))
        case "endo":
            return Rewrite(json.dumps({**values, "subagent": name}))
        case "discuss":
            return Rewrite(json.dumps({"prompt": "Another thing.", "speakers": [name]}))
    return Ok()


@dataclass
class Course:
    """How a session of this number goes."""

    seed: int
    in_memory: int | None
    """So few agents with their transcripts."""
    window: int | None
    fails: bool
    """Whether the model fails now and then."""
    breaks_off: bool
    """Whether the user does."""

    @classmethod
    def of(cls, seed: int) -> Course:
        window = 1000 if seed % 7 == 3 else None
        return cls(seed, 2 if seed % 3 == 0 else None, window, seed % 5 == 2, seed % 5 == 4)

    def load(self, log: Path, patience: int = 60) -> Stage:
        voices = Voices(self.seed, patience, fails=self.fails)
        runtime = AgentRuntime(
            model=voices.model(self.window),
            world=LocalWorld([send, look, peek], folder=log.parent),
            policy=ActionPolicy(actions=ACTIONS),
            library=AgentLibrary(kinds={Counting._kind: Counting}),
        )
        options = replace(fast_options(), in_memory=self.in_memory)
        root, session = load_session(
            log, runtime=runtime, name="main", system_prompt="You.", options=options
        )
        return Stage(root, session, runtime)

    def played(self, folder: Path) -> tuple[Stage, int]:
        """Play a session; return it, and how many lines its log had before anybody spoke."""
        stage = self.load(folder / "s.jsonl", patience=120)
        random = dice("course", self.seed)
        self._put_hooks(stage, random)
        begin = len(stage.log.read_bytes().splitlines())
        talk = Conversation(stage.root)
        for turn in range(4):
            chance = random.random()
            if chance < 0.25:
                self._command(talk, random)
            elif chance < 0.35:
                unload_agent(stage.session, random.choice(list(stage.session.agents)))
            self.say(talk, f"Go {turn} {random.randrange(100)}.", random)
        return stage, begin

    def _put_hooks(self, stage: Stage, random: Random) -> None:
        def counting(name: str, above: Agent) -> None:
            options = Seeded(seed=self.seed)
            Counting(stage.session, runtime=stage.runtime, options=options).install(above, name)

        counting(GUARD, stage.root)
        if random.random() < 0.7:
            assert isinstance(stage.root, SmartAgent)
            points: list[HookPoint] | None = random.choice(POINTS)
            tools = random.choice(([], ["look"], ["look", "task", "hook"]))
            spec = AgentSpec(keeps=random.choice(("notes", "all")))
            smart = new_hook(stage.root, "You watch.", points=points, tools=tools, spec=spec)
            smart.install(stage.root, "smart")
            if random.random() < 0.8:
                counting("above", smart)
        if random.random() < 0.5:
            counting("second", stage.root)

    def _command(self, talk: Conversation, random: Random) -> None:
        """Let the user do what agents do."""
        action = random.choice(COMMANDS)
        values = arguments(action, random)
        for name in ("prompt", "tools", "points"):
            values.pop(name, None)
        if action == "talk_with":
            values["name"] = random.choice((*NAMES, "smart", "H1", "main"))
        action_input = ACTIONS[action].check(values)
        run(
            run_user_command(
                talk.primary,
                f"/{action}",
                lambda agent, cause: RUN[action](agent, cause, action_input),
            )
        )

    def say(self, talk: Conversation, text: str | None, random: Random) -> None:
        """Say something; what fails or is broken off goes on."""
        for _ in range(30):
            after = random.randrange(400) if self.breaks_off and random.random() < 0.3 else None
            try:
                run(_limited(talk, text, after))
            except (ModelError, asyncio.CancelledError):
                assert self.fails or self.breaks_off
                text = None
            else:
                return
        raise AssertionError("a turn never ends")

    def cut(self, log: Path, index: int) -> Stage:
        """Resume a log that ends after so many lines, in a folder of its own."""
        shorter = cut_after(log, index)
        if (log.parent / FILE).exists():
            shutil.copy(log.parent / FILE, shorter.parent)
        return self.load(shorter)

    def go_on(self, stage: Stage, index: int) -> None:
        """Let a resumed session end what was open, and say one thing more."""
        talk, random = Conversation(stage.root), dice("on", self.seed, index)
        for _ in range(3):
            if has_open_calls(talk.primary):
                self.say(talk, None, random)
        self.say(talk, "More.", random)


async def _limited(talk: Conversation, text: str | None, after: int | None) -> None:
    """Say something, and break it off after so many steps."""
    saying = asyncio.ensure_future(talk.say(text))
    for _ in range(after or 0):
        await asyncio.sleep(0)
    if after is not None:
        saying.cancel()
    await saying
