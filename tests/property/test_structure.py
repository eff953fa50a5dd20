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
from harken.agents.agent import Agent, get_agent, unload_agent
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.moves import MOVES
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
from tests.property.tree_model import InvalidAction, Node, Tree
from tests.unit.agents.hook_kit import unguarded

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
        questions = [
            match[1]
            for m in request.messages
            if m.role == "user" and (match := re.match(r"\[(\w+)\] Agent ", text_of(m.content)))
        ]
        agents = self.session.agents.values()
        live = [agent for agent in agents if agent.name == request.agent and agent.place != "gone"]
        is_hook = any(agent.place == "hook" for agent in live)
        lines = self.script.get(request.agent)
        due = self.at if self.at and self.at[0] == request.agent else None
        if lines and (due is None or (questions and questions[-1] == due[1])):
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
            library=AgentLibrary(kinds={Guard._kind: Guard}),
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
        node = self._somebody(lambda child: child.place != "hook")
        if node is None:
            return
        message, expected = self._message(node, 1 + self.dice(3))
        self.model.script[node.name] = [message]
        before, actor = self.tree.primary, self._agent(node.name).agent_id
        self._go(node)
        self._check_results(actor, expected)
        if self.tree.primary is not before and len(expected) == 1:
            prompted = '"prompt"' in message.tool_calls[0].function.arguments  # type: ignore[index]
            answers = self.tree.primary if prompted else node
            assert self.speaker.name == answers.name

    def moves_as_hook(self) -> None:
        """A hook acts when it is asked about an agent that makes a subagent."""
        node = self._somebody(lambda child: child.place == "hook" and not child.silent)
        watched, point = None if node is None else node.above, self.one_of(POINTS)
        if node is None or watched is None or watched.is_code or not self._is_known(watched):
            return
        action = self.one_of(("meta", "meta", "quit", "endo", "task"))
        if point in ("result", "response"):
            name = self.one_of(NAMES)
            message = call_message(call("task", f"h{self.number}", name=name, instructions="You."))
            self.model.script[watched.name] = [message]
            self._do(watched, "task", {"name": name})
        elif point == "action":
            message = call_message(
                call("task", f"h{self.number}", name="Never", instructions="You.")
            )
            self.model.script[watched.name] = [message]
        arguments = self._arguments(node, action)
        is_done = self._do(node, action, arguments)
        if point == "action" and not (is_done and action == "meta"):
            self._do(watched, "task", {"name": "Never"})
        self.model.script[node.name] = [call_message(self._call(action, "c0", arguments))]
        self.model.at = node.name, point
        actor = self._agent(node.name).agent_id
        self._go(watched)
        self._check_results(actor, [is_done])

    def guard_comes(self) -> None:
        """The user puts a guard of code above whom he talks with."""
        self.number += 1
        self._guard(f"guard{self.number}")
        self._expect()

    def _guard(self, name: str) -> None:
        primary = get_agent(self.root, self.session.state.primary or "")
        message = Guard(self.session, runtime=self.runtime).install(primary, name)
        self.tree.guard(self.tree.primary, name)
        if primary is self.root:
            self.guards.append(message.agent_id)

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
        fit = [
            node for node in everybody if fits(node) and not node.is_code and self._is_known(node)
        ]
        return self.one_of(fit) if fit else None

    def _is_known(self, node: Node) -> bool:
        return [each.name for each in self.tree.primary.everybody()].count(node.name) == 1

    def _message(self, node: Node, count: int) -> tuple[Message, list[bool]]:
        """Return a message with so many calls, and which of them are done."""
        message: list[ToolCall] = []
        expected: list[bool] = []
        has_moved = False
        for index in range(count):
            moved = ["task", "discuss", "terminate", "quit", "meta"]
            possible = OFFERED if node.place in ("primary", "subagent") else moved
            action = self.one_of(possible)
            arguments = self._arguments(node, action)
            message.append(self._call(action, f"c{index}", arguments))
            expected.append(not has_moved and self._do(node, action, arguments))
            has_moved |= action in MOVES and expected[-1]  # calls after a move are not run
        return call_message(*message), expected

    def _do(self, node: Node, action: str, arguments: dict[str, Any]) -> bool:
        try:
            self.tree.do(node, action, arguments)
        except InvalidAction:
            return False
        return True

    def _call(self, action: str, id_: str, arguments: dict[str, Any]) -> ToolCall:
        members: dict[str, Any] = {}
        if action in ("task", "hook"):
            members["instructions"] = "You."
        return call(action, f"{id_}_{self.number}", **arguments, **members)

    def _arguments(self, node: Node, action: str) -> dict[str, Any]:
        below = [sub.name for sub in node.subs] + ["Nobody"] * (not self.dice(5))
        sub_name = self.one_of(below) if below else "Nobody"
        names = [self.one_of(below) for _ in range(self.dice(3))] if below else []
        name = self.one_of(NAMES)
        maybe: dict[str, Any] = {}
        match action:
            case "task":
                maybe = {} if self.dice(3) else {"prompt": "Hi."}
                return {"name": name, **maybe}
            case "hook":
                return {"name": f"{name}s", "tools": OFFERED if self.dice(4) else []}
            case "terminate":
                return {"name": sub_name}
            case "discuss" | "introduce":
                maybe |= {"speakers": names} if names else {}
                maybe |= {"listeners": [sub_name]} if not self.dice(4) else {}
                return maybe | ({"prompt": "Talk."} if action == "discuss" else {})
            case "endo":
                return {"subagent": sub_name, **({} if self.dice(2) else {"prompt": "Now you."})}
            case "talk_with":
                return {"name": self._path(node)}
            case "clone":
                maybe |= {} if self.dice(2) else {"into": sub_name}
                return {"name": sub_name, "as_name": name, **maybe}
            case "dump":
                maybe |= {} if self.dice(2) else {"name": sub_name}
                return {"path": f"{self.dice(2)}.json", **maybe}
            case "export":
                return {"path": f"{self.dice(9)}.md"}
            case "restore":
                maybe |= {} if self.dice(2) else {"name": name}
                return {"path": f"{self.dice(2)}.json", **maybe}
        return {}

    def _path(self, node: Node) -> str:
        way = []
        for _ in range(1 + self.dice(2)):
            below = [*node.subs, *node.hooks]
            if not below:
                break
            node = self.one_of(below)
            way.append(node.name)
        return "/".join(way) or "Nobody"

    def _go(self, node: Node) -> None:
        """Let an agent hear something; then all is as the model has it."""
        agent = self._agent(node.name)
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
        ids = [agent.id for agent in agents if agent.name == name and live(agent.id)]
        [id_] = ids
        return get_agent(self.root, id_)

    def _check_results(self, actor: str, expected: list[bool]) -> None:
        results = select_lines(self.session.path, role="tool", agent_id=actor) if expected else []
        for index, is_done in enumerate(expected):
            [result] = [row for row in results if row["tool_call_id"] == f"c{index}_{self.number}"]
            assert result.get("is_error", False) is not is_done, result["content"]
        self.number += 1
        self.model.script, self.model.at = {}, None

    def _expect(self) -> None:
        expected = self.tree.primary.shape()
        assert shape_of(self.session) == expected
        assert [unguarded(self.session, guard) for guard in self.guards[:1]] == [[]]
        assert not any(agent.open_calls for agent in self.session.agents.values())
        self.trails.append((self.session.state.next_message, [*self.tree.trail, expected]))
        self.tree.trail = [expected]

    def close(self) -> None:
        self.session.close()
        check_log(self.session.path, finished=False)  # a subagent may owe its answer still

    def cut(self, position: int) -> None:
        """Resume the log up to an event: the tree has a shape that it had, and goes on."""
        raw = (self.folder / "s.jsonl").read_bytes().splitlines(keepends=True)
        position = self.trails[0][0] + position % (len(raw) - self.trails[0][0] + 1)
        log = self.folder / "cut.jsonl"
        log.write_bytes(b"".join(raw[:position]))
        self._load(log)
        expected = next(shapes for events, shapes in self.trails if events >= position)
        assert shape_of(self.session) in expected
        before = full_state(self.session)
        self.session.close()
        self._load(log)
        assert full_state(self.session) == before
        run(Conversation(self.root).say("On."))
        assert shape_of(self.session) in expected
        self.close()


def shape_of(session: Session) -> Any:
    """Return the tree as its model says it."""
    agents = session.agents

    def shape(id_: str) -> Any:
        agent = agents[AgentId(id_)]
        below = [shape(each) for each in agent.subagents], [shape(each) for each in agent.hooks]
        talk = [agents[e].name for e in agent.speakers], [agents[e].name for e in agent.listeners]
        assert agent.place in ("primary", "subagent", "hook")
        return (agent.name, agent.place, *below, *talk)

    return shape(session.state.primary or "")


STEPS = [
    *[Run.acts] * 6,
    *[Run.moves_as_hook] * 3,
    Run.guard_comes,
    Run.resume,
    Run.forget,
]
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=6, max_size=14)


def played(folder: str, steps: list[tuple[Callable[[Run], None], int]]) -> Run:
    """Return a run that has taken these steps, and is closed."""
    run = Run(Path(folder))
    for step, seed in steps:
        run.dice = Random(seed).randrange
        step(run)
    run.resume()
    run.close()
    return run


@pytest.mark.req("S4-38", "S4-39", "S4-29", "S0-20")
@settings(max_examples=25, deadline=None)
@given(steps, st.integers(0, 10_000))
def test_agent_tree_equals_the_model(steps: Any, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played(folder, steps).cut(cut)


@pytest.mark.full
@settings(max_examples=500, deadline=None)
@given(steps, st.lists(st.integers(0, 10_000), min_size=5, max_size=5))
def test_agent_tree_equals_the_model_in_many_sessions(steps: Any, cuts: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = played(folder, steps)
        for cut in cuts:
            run.cut(cut)
