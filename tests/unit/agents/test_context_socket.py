"""Programs that an agent runs learn at which commit it is, each of its own agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, ToolContext, tool
from harken.agents.checkpointer import Checkpointer
from harken.agents.runtime import Observers
from harken.context.socket_client import VARIABLE, current_context
from harken.context.socket_server import ContextSocketServer
from harken.store.memory import MemoryStore
from harken.world.shell.shell import Shell
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    open_stage,
    script_model,
)

ASK = (
    f"{sys.executable} -c 'from harken.context.socket_client import *; import os; "
    f'print("<" + current_context(os.environ.get(VARIABLE, "")) + ">")\''
)
"""A program that asks."""


@pytest.fixture
def sockets() -> Iterator[ContextSocketServer]:
    made = ContextSocketServer()
    yield made
    made.close()


def begin(
    folder: Path, model: ScriptModel, sockets: ContextSocketServer | None, **how: Any
) -> Stage:
    """Begin a session whose agents can run programs."""
    store = how.pop("store", None) or MemoryStore()
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", VARIABLE: "stale"}
    shell = Shell(folder, folder / "outputs", environment=environment)
    checkpoints = (
        None if how.pop("off", False) else Checkpointer(store=store, sockets=sockets, **how)
    )
    runtime = AgentRuntime(
        model=model, world=LocalWorld([shell.tool, peek]), checkpoints=checkpoints
    )
    return open_stage(folder, model, runtime=runtime)


@tool
async def peek(caller: ToolContext) -> str:
    """Ask from within."""
    path = caller.environment({}).get(VARIABLE)
    return current_context(path) if path else "no socket"


def seen(scene: Stage, *ids: str, agent: str = "main") -> list[str]:
    """What programs said, between their brackets."""
    texts = [str(scene.result(id_, agent)["content"]) for id_ in ids]
    return [text.partition("<")[2].partition(">")[0] for text in texts]


@pytest.mark.req("S2-40", "S2-41")
def test_a_program_sees_the_commit_of_the_turn_that_called_it_also_without_a_text(
    tmp_path: Path, sockets: ContextSocketServer
) -> None:
    model = script_model(
        main=[
            call_message(call("bash", command=ASK)),
            call_message(call("bash", "c2", command=ASK)),
            ".",
        ]
    )
    scene = begin(tmp_path, model, sockets)
    scene.ask("go")
    commits = [row["ctx"] for row in scene.select_lines(event_type="context_committed")]
    assert seen(scene, "c1", "c2") == commits[:2]
    assert len(set(commits)) == 3


@pytest.mark.req("S2-41")
def test_all_calls_of_a_message_see_the_same_whatever_is_committed_meanwhile(
    tmp_path: Path, sockets: ContextSocketServer
) -> None:
    task = call("task", "c2", name="helper", prompt="do it")
    made = call_message(
        call("bash", command=ASK), task, call("peek", "c3"), call("bash", "c4", command=ASK)
    )
    scene = begin(tmp_path, script_model(main=[made, "."], helper=["ok"]), sockets, results=True)
    scene.ask("go")
    boundary = scene.select_lines(event_type="context_committed")[0]["ctx"]
    assert seen(scene, "c1", "c4") == [boundary] * 2
    assert scene.result("c3")["content"] == boundary


@pytest.mark.req("S2-41")
def test_subagents_that_work_side_by_side_see_each_their_own(
    tmp_path: Path, sockets: ContextSocketServer
) -> None:
    both = [call("task", f"c{n}", name=name, prompt="go") for n, name in enumerate(("Ann", "Bob"))]
    asks: list[ScriptedAnswer] = [call_message(call("bash", command=ASK)), "done"]
    scene = begin(
        tmp_path, script_model(main=[call_message(*both), "."], Ann=asks, Bob=asks), sockets
    )
    scene.ask("go")
    for name in ("Ann", "Bob"):
        commits = scene.select_lines(event_type="context_committed", agent_id=scene.id_of(name))
        assert seen(scene, "c1", agent=name) == [commits[0]["ctx"]]


def test_who_is_gone_has_no_socket(tmp_path: Path, sockets: ContextSocketServer) -> None:
    ask, end = call("bash", command=ASK), call("terminate", "c2", name="Ann")
    model = script_model(
        main=[
            call_message(call("task", name="Ann", prompt="go")),
            call_message(end),
            call_message(call("peek", "c3")),
            ".",
        ],
        Ann=[call_message(ask), "done"],
    )
    scene = begin(tmp_path, model, sockets)
    scene.ask("go")
    assert [agent for _, agent in sockets.agents] == [scene.root.agent_id]


@pytest.mark.req("S2-40")
@pytest.mark.parametrize("how", ["no checkpoints", "no sockets"])
def test_without_commits_there_is_no_variable_and_a_stale_one_is_not_passed_on(
    tmp_path: Path, how: str
) -> None:
    model = script_model(
        main=[
            call_message(call("bash", command=f"echo ${{{VARIABLE}-none}}"), call("peek", "c2")),
            ".",
        ]
    )
    scene = begin(tmp_path, model, None, off=how == "no checkpoints")
    scene.ask("go")
    assert scene.result()["content"].endswith("\nnone\n")
    assert scene.result("c2")["content"] == "no socket"


@pytest.mark.req("S2-41")
def test_with_fewer_checkpoints_it_is_the_last_commit_and_empty_before_the_first(
    tmp_path: Path, sockets: ContextSocketServer
) -> None:
    asks = [call_message(call("peek", f"c{n}")) for n in range(4)]
    scene = begin(tmp_path, script_model(main=[*asks, "."]), sockets, turns_per_commit=2)
    scene.ask("go")
    first, second, *_ = (row["ctx"] for row in scene.select_lines(event_type="context_committed"))
    answers = [scene.result(f"c{n}")["content"] for n in range(4)]
    assert answers == ["", first, first, second]


class NoSockets(ContextSocketServer):
    """As on a system where none can be made."""

    def path(self, agent: Any) -> Path:
        raise OSError("no room")


def test_that_no_socket_can_be_made_is_told_and_the_program_runs(tmp_path: Path) -> None:
    told: list[str] = []
    model = script_model(main=[call_message(call("peek")), "."])
    checkpoints = Checkpointer(store=MemoryStore(), sockets=NoSockets())
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([peek]),
        checkpoints=checkpoints,
        observers=Observers(on_notice=told.append),
    )
    scene = open_stage(tmp_path, model, runtime=runtime)
    scene.ask("go")
    assert scene.result()["content"] == "no socket"
    assert told == ["programs cannot query the commit of their agent: no room"]
