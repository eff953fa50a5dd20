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
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.core.verdict import Verdict
from harken.errors import ModelError
from tests.agent_kit import Stage, fast_options, run
from tests.property.hooked_voices import FILE, NAMES, Voices, arguments, dice
from tests.unit.agents.cutting import cut_after

GUARD = "guard"
"""The hook in code that the user puts above the first agent, before all: it never quits."""
COMMANDS = ("task", "hook", "terminate", "dump", "restore", "endo", "clone", "talk_with")


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

    def judge(self, question: HookQuestion) -> Verdict:
        self.asked += 1
        own = dice(self.options.seed, self.name, question.point, question.text, self.asked % 7)
        chance = own.random()
        if own.random() < (0.05 if chance < 0.75 else 0.3) and self.name != GUARD:
            self.quit()
        if chance < 0.55:
            return Ok()
        if chance < 0.75:
            return Comment(f"number {self.asked} of {self.name}")
        match question.point:
            case "response":
                return Deny("think again") if chance < 0.88 else Rewrite(f"{question.text}, really")
            case "action":
                return Deny("not now") if chance < 0.86 else _other(question, own)
        if chance > 0.97:
            raise RuntimeError("broken")
        return Ok()

    def dump_state(self) -> Any:
        return {"asked": self.asked}

    def load_saved_state(self, saved: Any) -> None:
        self.asked = saved["asked"]


def _other(question: HookQuestion, own: Random) -> Verdict:
    """Return an action with somebody else."""
    assert question.call is not None
    given, name = json.loads(question.text), own.choice(NAMES)
    match question.call.function.name:
        case "task" | "terminate" | "clone" | "hook" | "talk_with":
            return Rewrite(json.dumps({**given, "name": name}))
        case "endo":
            return Rewrite(json.dumps({**given, "subagent": name}))
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
            library=AgentLibrary(kinds={Counting.kind: Counting}),
        )
        options = replace(fast_options(), in_memory=self.in_memory)
        root, session = load_session(
            log, runtime=runtime, name="main", system_prompt="You.", options=options
        )
        return Stage(root, session, runtime)

    def played(self, folder: Path) -> tuple[Stage, int]:
        """Play a session; return it, and how many lines its log had before anybody spoke."""
        one = self.load(folder / "s.jsonl", patience=120)
        own = dice("course", self.seed)
        self._put_hooks(one, own)
        begin = len(one.log.read_bytes().splitlines())
        talk = Conversation(one.root)
        for turn in range(4):
            chance = own.random()
            if chance < 0.25:
                self._command(talk, own)
            elif chance < 0.35:
                unload_agent(one.session, own.choice(list(one.session.agents)))
            self.say(talk, f"Go {turn} {own.randrange(100)}.", own)
        return one, begin

    def _put_hooks(self, one: Stage, own: Random) -> None:
        def counting(name: str, above: Agent) -> None:
            options = Seeded(seed=self.seed)
            Counting(one.session, runtime=one.runtime, options=options).install(above, name)

        counting(GUARD, one.root)
        if own.random() < 0.7:
            assert isinstance(one.root, SmartAgent)
            points = own.choice(
                (None, ["input"], ["action", "response"], ["response"], ["result", "input"])
            )
            tools = own.choice(([], ["look"], ["look", "task", "hook"]))
            keeps = {"keeps": own.choice(("notes", "all"))}
            smart = new_hook(one.root, "You watch.", points=points, tools=tools, spec=keeps)
            smart.install(one.root, "smart")
            if own.random() < 0.8:
                counting("above", smart)
        if own.random() < 0.5:
            counting("second", one.root)

    def _command(self, talk: Conversation, own: Random) -> None:
        """Let the user do what agents do."""
        action = own.choice(COMMANDS)
        given = arguments(action, own)
        for name in ("prompt", "tools", "points"):
            given.pop(name, None)
        if action == "talk_with":
            given["name"] = own.choice((*NAMES, "smart", "H1", "main"))
        checked = ACTIONS[action].check(given)
        run(
            run_user_command(
                talk.primary, f"/{action}", lambda who, cause: RUN[action](who, cause, checked)
            )
        )

    def say(self, talk: Conversation, text: str | None, own: Random) -> None:
        """Say something; what fails or is broken off goes on."""
        for _ in range(30):
            after = own.randrange(400) if self.breaks_off and own.random() < 0.3 else None
            try:
                run(_limited(talk, text, after))
            except (ModelError, asyncio.CancelledError):
                assert self.fails or self.breaks_off
                text = None
            else:
                return
        raise AssertionError("a turn never ends")

    def cut(self, log: Path, at: int) -> Stage:
        """Resume a log that ends after so many lines, in a folder of its own."""
        shorter = cut_after(log, at)
        if (log.parent / FILE).exists():
            shutil.copy(log.parent / FILE, shorter.parent)
        return self.load(shorter)

    def go_on(self, one: Stage, at: int) -> None:
        """Let a resumed session end what was open, and say one thing more."""
        talk, own = Conversation(one.root), dice("on", self.seed, at)
        for _ in range(3):
            if talk.primary.has_open_calls:
                self.say(talk, None, own)
        self.say(talk, "More.", own)


async def _limited(talk: Conversation, text: str | None, after: int | None) -> None:
    """Say something, and break it off after so many steps."""
    saying = asyncio.ensure_future(talk.say(text))
    for _ in range(after or 0):
        await asyncio.sleep(0)
    if after is not None:
        saying.cancel()
    await saying
