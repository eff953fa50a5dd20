"""Who stands where, after anything that agents do: against a plain model of the tree.

Random agents do random things, several in one message, and hooks move when they are asked. After
each step the tree, the interlocutors, who is primary and which calls failed are as the model has
them. The session is closed and resumed between steps; at the end its log is cut after any event,
and what a resume makes of the rest is a shape that the tree had, with all its guards.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken import (
    AgentRuntime,
    Conversation,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    load_session,
    register_agent_class,
)
from harken.agents.action_schemas import ACTIONS, HOOK_ACTIONS
from harken.agents.agent import Agent, unload_agent
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.core.ids import AgentId
from harken.core.messages import Message, ToolCall, text_of
from harken.llm.base import ModelRequest
from harken.session.session import Session
from tests.agent_kit import (
    ScriptModel,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    run,
    select_lines,
)
from tests.property.tree_model import Node, Tree, Wrong
from tests.unit.agents.hooking import unguarded

Dice: TypeAlias = Callable[[int], int]
NAMES = ("Ann", "Ben", "Joe", "Kim")
OFFERED = sorted(ACTIONS.keys() - HOOK_ACTIONS)
POINTS = ("input", "action", "result", "response")


@register_agent_class("test-guard")
class Guard(Hook):
    """A hook in code, without an opinion."""

    def judge(self, question: HookQuestion) -> Ok:
        return Ok()


class Directed(ScriptModel):
    """A model for everybody: says what the script has for an agent, else what is due."""

    session: Session
    script: dict[str, list[Message]]
    at: tuple[str, str] | None
    """Which scripted hook acts, and where it is asked then; None: nobody does."""

    def _answer(self, request: ModelRequest) -> Any:
        asked = [
            found[1]
            for m in request.messages
            if m.role == "user" and (found := re.match(r"\[(\w+)\] Agent ", text_of(m.content)))
        ]
        agents = self.session.agents.values()
        live = [one for one in agents if one.name == request.agent and one.place != "gone"]
        is_hook = any(one.place == "hook" for one in live)
        lines = self.script.get(request.agent)
        at = self.at if self.at and self.at[0] == request.agent else None
        if lines and (at is None or (asked and asked[-1] == at[1])):
            return lines.pop(0)
        return "OK" if is_hook else "Said."


@dataclass
class Run:
    """A session, the model of its tree, and dice."""

    folder: Path
    dice: Dice = lambda _: 0
    number: int = 0
    model: Directed = field(default_factory=lambda: Directed({}))
    trails: list[tuple[int, list[Any]]] = field(default_factory=list)
    """For each step, how many events there were before it, and all shapes during it."""
    guards: list[AgentId] = field(default_factory=list)
    """Those that the user put above the first agent while it was primary: nobody evades them."""

    def __post_init__(self) -> None:
        self.runtime = AgentRuntime(
            model=self.model,
            policy=ActionPolicy(actions=ACTIONS),
            world=LocalWorld(folder=self.folder),
            library=AgentLibrary(kinds={Guard.kind: Guard}),
        )
        self._load(self.folder / "s.jsonl")
        self.tree = Tree(Node("main", "primary"))
        self._guard("guard")
        self._expect()

    def _load(self, log: Path) -> None:
        self.root, self.session = load_session(
            log, runtime=self.runtime, name="main", system_prompt="You.", options=fast_options()
        )
        self.model.session, self.model.script, self.model.at = self.session, {}, None

    def one_of(self, choices: Any) -> Any:
        return choices[self.dice(len(choices))]

    def acts(self) -> None:
        """Somebody does one to three things in one message."""
        who = self._somebody(lambda one: one.place != "hook")
        if who is None:
            return
        made, expected = self._message(who, 1 + self.dice(3))
        self.model.script[who.name] = [made]
        before, actor = self.tree.primary, self._agent(who.name).agent_id
        self._go(who)
        self._check_results(actor, expected)
        if self.tree.primary is not before and len(expected) == 1:
            prompted = '"prompt"' in made.tool_calls[0].function.arguments  # type: ignore[index]
            answers = self.tree.primary if prompted else who
            assert self.speaker.name == answers.name

    def moves_as_hook(self) -> None:
        """A hook acts when it is asked about an agent that makes a subagent."""
        who = self._somebody(lambda one: one.place == "hook" and not one.silent)
        watched, at = None if who is None else who.above, self.one_of(POINTS)
        if who is None or watched is None or watched.is_code or not self._is_known(watched):
            return
        action = self.one_of(("meta", "meta", "quit", "endo", "task"))
        if at in ("result", "response"):
            name = self.one_of(NAMES)
            made = call_message(call("task", f"h{self.number}", name=name, instructions="You."))
            self.model.script[watched.name] = [made]
            self._do(watched, "task", {"name": name})
        elif at == "action":
            made = call_message(call("task", f"h{self.number}", name="Never", instructions="You."))
            self.model.script[watched.name] = [made]
        arguments = self._arguments(who, action)
        is_done = self._do(who, action, arguments)
        if at == "action" and not (is_done and action == "meta"):
            self._do(watched, "task", {"name": "Never"})
        self.model.script[who.name] = [call_message(self._call(action, "c0", arguments))]
        self.model.at = who.name, at
        actor = self._agent(who.name).agent_id
        self._go(watched)
        self._check_results(actor, [is_done])

    def guard_comes(self) -> None:
        """The user puts a guard of code above whom he talks with."""
        self.number += 1
        self._guard(f"guard{self.number}")
        self._expect()

    def _guard(self, name: str) -> None:
        primary = self.root.agent_by_id(self.session.state.primary or "")
        made = Guard(self.session, runtime=self.runtime).install(primary, name)
        self.tree.guard(self.tree.primary, name)
        if primary is self.root:
            self.guards.append(made.agent_id)

    def resume(self) -> None:
        before = full_state(self.session)
        self.session.close()
        self._load(self.session.path)
        assert full_state(self.session) == before

    def forget(self) -> None:
        """Drop somebody from memory."""
        agents = list(self.session.agents)
        unload_agent(self.session, self.one_of(agents))

    def _somebody(self, fits: Callable[[Node], bool]) -> Node | None:
        """Anybody who fits and is the only one of that name."""
        everybody = self.tree.primary.everybody()
        fit = [one for one in everybody if fits(one) and not one.is_code and self._is_known(one)]
        return self.one_of(fit) if fit else None

    def _is_known(self, one: Node) -> bool:
        return [each.name for each in self.tree.primary.everybody()].count(one.name) == 1

    def _message(self, who: Node, count: int) -> tuple[Message, list[bool]]:
        """Return a message with so many calls, and which of them are done."""
        made: list[ToolCall] = []
        expected: list[bool] = []
        for at in range(count):
            moved = ["task", "discuss", "terminate", "quit", "meta"]
            possible = OFFERED if who.place in ("primary", "subagent") else moved
            action = self.one_of(possible)
            arguments = self._arguments(who, action)
            made.append(self._call(action, f"c{at}", arguments))
            expected.append(self._do(who, action, arguments))
        return call_message(*made), expected

    def _do(self, who: Node, action: str, arguments: dict[str, Any]) -> bool:
        try:
            self.tree.do(who, action, arguments)
        except Wrong:
            return False
        return True

    def _call(self, action: str, id_: str, arguments: dict[str, Any]) -> ToolCall:
        more: dict[str, Any] = {}
        if action in ("task", "hook"):
            more["instructions"] = "You."
        return call(action, f"{id_}_{self.number}", **arguments, **more)

    def _arguments(self, who: Node, action: str) -> dict[str, Any]:
        below = [one.name for one in who.subs] + ["Nobody"] * (not self.dice(5))
        there = self.one_of(below) if below else "Nobody"
        some = [self.one_of(below) for _ in range(self.dice(3))] if below else []
        name = self.one_of(NAMES)
        maybe: dict[str, Any] = {}
        match action:
            case "task":
                maybe = {} if self.dice(3) else {"prompt": "Hi."}
                return {"name": name, **maybe}
            case "hook":
                return {"name": f"{name}s", "tools": OFFERED if self.dice(4) else []}
            case "terminate":
                return {"name": there}
            case "discuss" | "introduce":
                maybe |= {"speakers": some} if some else {}
                maybe |= {"listeners": [there]} if not self.dice(4) else {}
                return maybe | ({"prompt": "Talk."} if action == "discuss" else {})
            case "endo":
                return {"subagent": there, **({} if self.dice(2) else {"prompt": "Now you."})}
            case "talk_with":
                return {"name": self._path(who)}
            case "clone":
                maybe |= {} if self.dice(2) else {"into": there}
                return {"name": there, "as_name": name, **maybe}
            case "dump":
                maybe |= {} if self.dice(2) else {"name": there}
                return {"path": f"{self.dice(2)}.json", **maybe}
            case "restore":
                maybe |= {} if self.dice(2) else {"name": name}
                return {"path": f"{self.dice(2)}.json", **maybe}
        return {}

    def _path(self, who: Node) -> str:
        way = []
        for _ in range(1 + self.dice(2)):
            below = [*who.subs, *who.hooks]
            if not below:
                break
            who = self.one_of(below)
            way.append(who.name)
        return "/".join(way) or "Nobody"

    def _go(self, who: Node) -> None:
        """Let an agent hear something; then all is as the model has it."""
        agent = self._agent(who.name)
        if agent.state.place == "primary":
            talk = Conversation(self.root)
            run(talk.say("Go."))
            self.speaker = talk.speaker
        else:
            run(agent.response("Go."))
        self._expect()

    def _agent(self, name: str) -> Agent:
        live = self.session.state.is_live
        agents = self.session.agents.values()
        ids = [one.id for one in agents if one.name == name and live(one.id)]
        [id_] = ids
        return self.root.agent_by_id(id_)

    def _check_results(self, actor: str, expected: list[bool]) -> None:
        found = select_lines(self.session.path, role="tool", agent_id=actor) if expected else []
        for at, is_done in enumerate(expected):
            [result] = [row for row in found if row["tool_call_id"] == f"c{at}_{self.number}"]
            assert result.get("is_error", False) is not is_done, result["content"]
        self.number += 1
        self.model.script, self.model.at = {}, None

    def _expect(self) -> None:
        expected = self.tree.primary.shape()
        assert shape_of(self.session) == expected
        assert [unguarded(self.session, guard) for guard in self.guards[:1]] == [[]]
        assert not any(one.open_calls for one in self.session.agents.values())
        self.trails.append((self.session.state.next_message, [*self.tree.trail, expected]))
        self.tree.trail = [expected]

    def close(self) -> None:
        self.session.close()
        check_log(self.session.path)

    def cut(self, at: int) -> None:
        """Resume the log up to an event: the tree has a shape that it had, and goes on."""
        raw = (self.folder / "s.jsonl").read_bytes().splitlines(keepends=True)
        at = self.trails[0][0] + at % (len(raw) - self.trails[0][0] + 1)
        log = self.folder / "cut.jsonl"
        log.write_bytes(b"".join(raw[:at]))
        self._load(log)
        seen = next(shapes for events, shapes in self.trails if events >= at)
        assert shape_of(self.session) in seen
        before = full_state(self.session)
        self.session.close()
        self._load(log)
        assert full_state(self.session) == before
        run(Conversation(self.root).say("On."))
        assert shape_of(self.session) in seen
        self.close()


def shape_of(session: Session) -> Any:
    """Return the tree as its model says it."""
    agents = session.agents

    def shape(id_: str) -> Any:
        one = agents[AgentId(id_)]
        below = [shape(each) for each in one.subagents], [shape(each) for each in one.hooks]
        talk = [agents[e].name for e in one.speakers], [agents[e].name for e in one.listeners]
        assert one.place in ("primary", "subagent", "hook")
        return (one.name, one.place, *below, *talk)

    return shape(session.state.primary or "")


STEPS = [
    *[Run.acts] * 6,
    *[Run.moves_as_hook] * 3,
    Run.guard_comes,
    Run.resume,
    Run.forget,
]
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=6, max_size=14)


def played(folder: str, chosen: list[tuple[Callable[[Run], None], int]]) -> Run:
    """Return a run that has taken these steps, and is closed."""
    one = Run(Path(folder))
    for step, seed in chosen:
        one.dice = Random(seed).randrange
        step(one)
    one.resume()
    one.close()
    return one


@pytest.mark.req("S4-38", "S4-39", "S4-29", "S0-20")
@settings(max_examples=25, deadline=None)
@given(steps, st.integers(0, 10_000))
def test_everybody_stands_where_the_requirements_say(chosen: Any, at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played(folder, chosen).cut(at)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(steps, st.lists(st.integers(0, 10_000), min_size=5, max_size=5))
def test_everybody_stands_there_in_many_sessions(chosen: Any, cuts: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = played(folder, chosen)
        for at in cuts:
            one.cut(at)
