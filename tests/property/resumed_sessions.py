"""Random sessions that are cut after a group of events and resumed, compared event for event.

A session follows from a number: the answers of its models and hooks depend only on what they read,
never on ids. So the log of a resumed session equals that of the uncut one, but for ids, times and
the requests that the cut left without a response.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from harken import (
    AgentRuntime,
    Budget,
    Conversation,
    LocalWorld,
    load_session,
    register_agent_class,
)
from harken.agents import texts
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.hooks.options import HookOptions
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.moves import MOVES
from harken.core.event_types.spec import HookPoint
from harken.core.messages import Message, text_of
from harken.core.verdict import HookQuestion, Verdict
from harken.llm.base import ModelRequest
from harken.session.log.checksum import has_more
from harken.session.verify import verify
from tests.agent_kit import Stage, call, call_message, fast_options, run
from tests.property.hooked_sessions import Counting, Seeded, look, peek, send
from tests.property.hooked_voices import IDLE, NAMES, Voices, arguments, dice
from tests.session_kit import read_lines

TURNS = 3
MAX_DEPTH = 6
"""Limits scripts in which each subagent creates another one like itself."""
PROMPT = "Hi."
"""The prompt of a `task`."""
EXCLUDED = frozenset({"read_log", "dump", "export", "compact"})
"""Actions whose results hold ids, times or paths."""
CREATED = re.compile(re.escape(texts.TASK_RESULT).replace(r"\{\}", r"(\w+)"))
ORDERS: tuple[dict[str, Any], ...] = (
    {},
    {"rounds": 2},
    {"rounds": 3, "until": "judge:Cat"},
    {"rounds": 2, "order": "moderator:Cat"},
)
"""Orders of discussions in a script with moves."""
STEPS = {"meta": 0.3, "task": 0.6, "hook": 0.15, "endo": 0.5, "talk_with": 0.3}
"""How likely a participant takes a step, if it may, in a script with moves."""
MAX_STEPS = 5
"""A participant with more answers takes no steps."""


@dataclass
class ShortVoices(Voices):
    """Models that make one call a message, or as many as three.

    Calls that run at once do not move agents: a move ends the turn of the calls that have not
    begun, and which calls have begun is a matter of scheduling. For the same reason hooks keep no
    notes, and do not count.
    """

    is_parallel: bool = False
    has_moves: bool = False

    async def answer(self, request: ModelRequest) -> str | Message:
        """Answer; an agent that a `task` asked asks no agent in this way: each session ends."""
        if self.has_moves and (step := self._step(request)) is not None:
            return step
        message = await super().answer(request)
        is_asked = any(text_of(message.content) == PROMPT for message in request.messages)
        if self.is_parallel and is_asked and isinstance(message, Message):
            made = [
                (made, json.loads(made.function.arguments)) for made in message.tool_calls or ()
            ]
            message = call_message(
                *[
                    call(
                        each.function.name, each.id, **_without_prompt(each.function.name, members)
                    )
                    for each, members in made
                ]
            )
        return message

    def _step(self, request: ModelRequest) -> Message | None:
        """Return the next step of a discussion in which participants give their places away."""
        contents = [text_of(message.content) for message in request.messages]
        answer_count = sum(message.role == "assistant" for message in request.messages)
        random = dice("step", self.seed, request.agent, answer_count, contents[-3:])
        offered = {tool["name"] for tool in request.tools}
        names = [name for content in contents for name in CREATED.findall(content)]
        members: dict[str, Any] = {}
        if request.agent == "main":
            if answer_count < len(NAMES):
                action, members = "task", {"name": NAMES[answer_count], "instructions": "You."}
            elif answer_count < 2 * MAX_STEPS and names and random.random() < 0.6:
                speakers = random.sample(
                    sorted({*names}), min(len({*names}), random.choice((1, 2)))
                )
                action, members = "discuss", {"prompt": "Talk.", "speakers": speakers}
                members |= random.choice(ORDERS)
            else:
                return None
        elif answer_count > MAX_STEPS or request.agent == "smart":
            return None
        else:
            unneeded = {"task"} if names else {"endo", "talk_with"}
            chances = {step: STEPS[step] for step in STEPS if step in offered - unneeded}
            action = next((step for step in chances if random.random() < chances[step]), "")
            if not action:
                return None
            members = arguments(action, random)
            if action in ("endo", "talk_with"):
                members["subagent" if action == "endo" else "name"] = names[-1]
        return call_message(call(action, f"s{answer_count}", **members))

    def _message(
        self, random: Random, chance: float, tools: list[str], answer_count: int
    ) -> Message | None:
        excluded = EXCLUDED | {*MOVES, "quit", "keep_note"} if self.is_parallel else EXCLUDED
        offered = [tool for tool in tools if tool not in excluded]
        if self.has_moves or not offered or answer_count > IDLE or random.random() > chance:
            return None
        count = random.choice((1, 2, 3)) if self.is_parallel else 1
        names = [random.choice(sorted(offered)) for _ in range(count)]
        return call_message(
            *[
                call(tool, f"c{answer_count}_{index}", **arguments(tool, random))
                for index, tool in enumerate(names)
            ]
        )


def _without_prompt(action: str, members: dict[str, Any]) -> dict[str, Any]:
    if action == "task":
        return {name: value for name, value in members.items() if name != "prompt"}
    return members


@dataclass
class Script:
    """A session that follows from a number."""

    seed: int
    is_parallel: bool = False
    has_moves: bool = False
    """Whether participants of discussions give their places away."""

    def open(self, log: Path) -> Stage:
        """Open or resume the session of a log."""
        voices = ShortVoices(
            self.seed, 10**9, is_parallel=self.is_parallel, has_moves=self.has_moves
        )
        actions = {name: tool for name, tool in ACTIONS.items() if name not in EXCLUDED}
        runtime = AgentRuntime(
            model=voices.model(),
            world=LocalWorld([send, look, peek], folder=log.parent),
            policy=ActionPolicy(actions=actions),
            library=AgentLibrary(kinds={kind._kind: kind for kind in (Steady, Calm)}),
        )
        prompt = None if log.exists() else "You."
        root, session = load_session(
            log,
            runtime=runtime,
            name="main",
            system_prompt=prompt,
            budget=None if log.exists() else Budget(depth=MAX_DEPTH),
            options=fast_options(),
        )
        return Stage(root, session, runtime)

    def play(self, folder: Path) -> tuple[Path, int]:
        """Run the session uncut. Return its log, and the lines before the first input."""
        stage = self.open(folder / "s.jsonl")
        with stage.session:
            self._install_hooks(stage)
            begin = len(stage.log.read_bytes().splitlines())
            self.go_on(stage)
        return stage.log, begin

    def go_on(self, stage: Stage) -> None:
        """Continue the session to its end: what is open, then the inputs that are not logged."""
        conversation = Conversation(stage.root)
        texts = {line.get("content") for line in read_lines(stage.log)}
        for _ in range(10):
            if not has_open_calls(conversation.primary):
                break
            run(conversation.say())
        for turn in range(TURNS):
            text = f"Go {turn}."
            if text not in texts:
                run(conversation.say(text))

    def _install_hooks(self, stage: Stage) -> None:
        random = dice("script", self.seed)

        def counting(name: str, above: Agent) -> None:
            options: HookOptions = Seeded(seed=self.seed)
            kind = Calm if self.is_parallel else Steady
            kind(stage.session, runtime=stage.runtime, options=options).install(above, name)

        counting("guard", stage.root)
        if random.random() < 0.7:
            assert isinstance(stage.root, SmartAgent)
            choices: tuple[list[HookPoint] | None, ...] = (
                None,
                ["input"],
                ["action", "response"],
                ["response"],
            )
            points = random.choice(choices)
            smart = new_hook(stage.root, "You watch.", points=points, tools=["look"])
            smart.install(stage.root, "smart")
            if random.random() < 0.6:
                counting("above", smart)


@register_agent_class("test-steady")
class Steady(Counting):
    """A hook of code that makes no calls: a call of code is not run again by a resume."""

    async def quit(self) -> None:
        """Stay."""


@register_agent_class("test-calm")
class Calm(Steady):
    """A hook of code that judges the same in the same way, in whatever order it is asked."""

    async def judge(self, question: HookQuestion) -> Verdict:
        self.asked = 0
        return await super().judge(question)

    def dump_state(self) -> None:
        """Save nothing."""


def cuts(log: Path, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield the log up to the end of each group after its first lines, with the line count."""
    lines = log.read_bytes().splitlines(keepends=True)
    events = read_lines(log)
    for number in range(begin + 1, len(lines)):
        if not has_more(lines[number - 1]) and not _has_started_call(events[:number]):
            yield number, b"".join(lines[:number])


def _has_started_call(events: list[dict[str, Any]]) -> bool:
    """Whether a tool that is not idempotent had begun to act, and its call has no result."""
    references: dict[tuple[str, str], str] = {}
    started: set[str] = set()
    for event in events:
        calls = event.get("tool_calls") or ()
        for made in calls:
            suffix = "" if len(calls) == 1 else f".{made['id']}"
            references[event["agent_id"], made["id"]] = event["message_id"] + suffix
        if event["event_type"] == "action_started":
            started.add(event["call"])
        elif event.get("role") == "tool":
            started.discard(references.get((event["agent_id"], event["tool_call_id"]), ""))
    return bool(started)


LINKS = (
    "tools",
    "cause",
    "substance",
    "subject",
    "said",
    "answer",
    "piece",
    "discussion",
    "entry",
    "call",
    "request",
    "segments",
)
VOLATILE = ("message_id", "time", "session_id", "context", "latency_s", "sum", "more", "prompt")


def comparable(log: Path, *, by_agent: bool = False) -> list[dict[str, Any]]:
    """Return the events of a log without ids and times: links are positions in this list.

    Left out: requests that have no complete response, with what closed them. by_agent: return the
    events of one agent after those of another, since agents that run at once may take turns in any
    order; links are positions among the events of their agent. Hooks are left out then: they may be
    asked in another order. What they decide shows in the agents that they watch.
    """
    lines = list(read_lines(log))
    failed = {
        line["request"]
        for line in lines
        if line["event_type"] == "llm_response" and line.get("stop_reason") in FAILED
    }
    kept = [
        line
        for line in lines
        if line["message_id"] not in failed and line.get("request") not in failed
    ]
    names = _agent_names(lines) if by_agent else {}
    kept = _by_agent(kept, names) if by_agent else kept
    hooks = _hook_names(kept, names)
    counts: Counter[str] = Counter()
    positions: dict[str, str] = {}
    for line in kept:
        owner = names.get(line.get("agent_id", ""), "")
        positions[line["message_id"]] = f"{owner}{counts[owner]}"
        counts[owner] += not (by_agent and owner.startswith(hooks))

    def place(link: Any) -> Any:
        if isinstance(link, list):
            return [place(item) for item in link]
        if isinstance(link, dict):
            return {name: place(value) for name, value in link.items()}
        if not isinstance(link, str):
            return link
        id_, dot, rest = link.partition(".")
        return f"{positions.get(id_, id_)}{dot}{rest}"

    def rename(value: Any) -> Any:
        if isinstance(value, list):
            return [rename(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    events = [
        {
            name: place(value) if name in LINKS else rename(value)
            for name, value in line.items()
            if name not in VOLATILE
        }
        for line in kept
        if line["event_type"] not in ("session_started", "tools_defined")
    ]
    if by_agent:
        return [event for event in events if not str(event.get("agent_id", "")).startswith(hooks)]
    return events


def _hook_names(lines: list[dict[str, Any]], names: dict[str, str]) -> tuple[str, ...]:
    """Return the names of the hooks; names of agents below them begin with these."""
    births = [line for line in lines if line.get("relation") == "hook"]
    return tuple(names.get(line["agent_id"], "") for line in births)


def _by_agent(lines: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """Return the events by agent, and what a message's calls did in the order of these calls."""
    ranks: list[tuple[str, int, int]] = []
    indexes: dict[tuple[str, str], int] = {}
    discussions: dict[str, str] = {}
    last_message: Counter[str] = Counter()
    for number, line in enumerate(lines):
        agent = line.get("agent_id", "")
        for index, call_ in enumerate(line.get("tool_calls") or ()):
            indexes[agent, call_["id"]] = index
        index = indexes.get((agent, _call_id(line, discussions)), -1)
        if line["event_type"] == "discussion_opened":
            discussions[line["message_id"]] = line["cause"]
        if index < 0:
            last_message[agent] = number
        ranks.append((names.get(agent, ""), last_message[agent], index))
    return [lines[number] for number in sorted(range(len(lines)), key=lambda n: ranks[n])]


def _call_id(line: dict[str, Any], discussions: dict[str, str]) -> str:
    """Return the id of the call, one of several in its message, that an event belongs to, or ""."""
    if line.get("tool_call_id"):
        return str(line["tool_call_id"])
    reference = line.get("call") or discussions.get(line.get("discussion", ""))
    return str(reference or line.get("cause") or "").partition(".")[2]


def _agent_names(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Return for each agent a name that does not depend on the order of births."""
    names: dict[str, str] = {}
    used: Counter[str] = Counter()
    owners = {line["message_id"]: line.get("agent_id", "") for line in lines}
    for line in lines:
        if line["event_type"] == "agent_created":
            causes = line.get("cause") or ""
            cause = causes[0] if isinstance(causes, list) else causes
            above = line.get("parent") or owners.get(cause.partition(".")[0])
            name = f"{names.get(above or '', '')}/{line.get('name') or 'unnamed'}"
            used[name] += 1
            names[line["agent_id"]] = f"{name}#{used[name]}"
    return names


FAILED = ("error", "cancelled", "interrupted")


def first_difference(
    uncut: list[dict[str, Any]], resumed: list[dict[str, Any]]
) -> tuple[Any, Any] | None:
    """Return the first events that differ, or None if the logs are equal."""
    for expected, actual in zip(uncut, resumed, strict=False):
        if expected != actual:
            return expected, actual
    if len(uncut) != len(resumed):
        longer = max(uncut, resumed, key=len)
        rest = longer[min(len(uncut), len(resumed))]
        return (rest, None) if longer is uncut else (None, rest)
    return None


def summarize(event: dict[str, Any] | None) -> str:
    if event is None:
        return "nothing"
    return " ".join(
        str(event[name])[:40]
        for name in ("event_type", "agent_id", "role", "purpose", "closed", "verdict", "content")
        if event.get(name) is not None
    )


def write_prefix(_: Path, cut: Path, content: bytes) -> None:
    """Write the first lines of a log as a crash leaves them."""
    cut.write_bytes(content)


def differences(
    script: Script,
    folder: Path,
    *,
    every: int = 1,
    write: Callable[[Path, Path, bytes], object] = write_prefix,
) -> Iterator[tuple[int, str | None]]:
    """Cut a session after groups of events. Yield each line count, and how the resume differs.

    every: cut after one group of so many. write: writes the session that is resumed, from the log
    and its first lines.
    """
    (folder / "uncut").mkdir(parents=True)
    log, begin = script.play(folder / "uncut")
    expected = comparable(log, by_agent=script.is_parallel)
    for number, content in islice(cuts(log, begin), 0, None, every):
        cut = folder / f"cut-{number}" / "s.jsonl"
        cut.parent.mkdir()
        write(log, cut, content)
        stage = script.open(cut)
        with stage.session:
            script.go_on(stage)
        assert verify(cut) == []
        difference = first_difference(expected, comparable(cut, by_agent=script.is_parallel))
        yield number, difference and " instead of ".join(map(summarize, reversed(difference)))
        shutil.rmtree(cut.parent)
