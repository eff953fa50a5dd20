"""Sessions with later hooks on existing agents are replayed equally."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Conversation, LocalWorld, load_session, tool
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.experiments.replay.player import ReplayExtras
from tests.agent_kit import Stage, call, calls, play, quick, run, stage
from tests.unit.agents.cutting import cut_after
from tests.unit.agents.hooking import Judging, send, watch
from tests.unit.experiments.replay.test_check import checked, same

KID = calls(call("task", "t", name="kid", instructions="k"))


def acting(folder: Path, **lines: Any) -> Stage:
    model = play(**lines)
    runtime = AgentRuntime(
        model=model,
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([send]),
        library=AgentLibrary(kinds={"test-judge": Judging}),
    )
    return stage(folder, model, runtime=runtime)


def test_later_hook_is_replayed(tmp_path: Path) -> None:
    ask = calls(call("discuss", "d", prompt="Send."))
    one = acting(
        tmp_path,
        main=[KID, "Done.", ask, "Done."],
        kid=[calls(call("send", "s", text="x")), "Sent."],
        smart=["OK"] * 9,
    )
    one.ask("Go.")
    watch(one)
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.", points=["response"]).install(one.root, "smart")
    one.ask("On.")
    one.session.close()
    assert same(one.log).agents == 6


def test_hook_created_by_a_hook_is_replayed(tmp_path: Path) -> None:
    made = calls(call("hook", "h", name="new", instructions="Watch.", points=["response"]))
    one = acting(tmp_path, main=[KID, "Done."], maker=[made, "OK"], new=["OK"] * 9)
    assert isinstance(one.root, ToolAgent)
    maker = new_hook(one.root, "Make.", tools=["hook"], points=["response"])
    maker.install(one.root, "maker")
    one.ask("Go.")
    assert [hook.name for hook in one.agent("kid").hooks] == ["maker", "new"]
    one.session.close()
    assert same(one.log).agents == 6


@pytest.mark.parametrize("tools", [[], ["send"]])
def test_hook_that_takes_over_is_replayed(tmp_path: Path, tools: list[str]) -> None:
    made = call("hook", "h", name="h", instructions="x", tools=tools, points=["response"])
    one = acting(tmp_path, main=[calls(made), "Done."], h=[calls(call("meta", "m")), "Mine."])
    watch(one)
    assert run(Conversation(one.root).say("Go.")) == "Mine."
    one.session.close()
    same(one.log)


@tool(idempotent=True)
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def test_truncated_and_resumed_session_with_hooks_is_replayed(tmp_path: Path) -> None:
    own = call("hook", "h", name="own", instructions="x", tools=["look"], points=["response"])
    again = calls(call("discuss", "d"))
    main = [KID, calls(own), calls(call("look", "l", at="a")), again, again, "Done.", *["-"] * 9]
    parts: dict[str, Any] = {"main": main, "kid": ["Hm.", *["-"] * 9], "own": ["OK"] * 9}
    runtime = AgentRuntime(
        model=play(**parts),
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([send, look]),
        library=AgentLibrary(kinds={"test-judge": Judging}),
    )
    one = stage(tmp_path, play(**parts), runtime=runtime)
    watch(one)
    begun = len(one.rows())
    one.ask("Go.")
    one.session.close()
    [said] = [at for at, row in enumerate(one.rows()) if row.get("content") == "Done."][:1]
    for kept in range(begun + 1, said + 1):  # later nobody knows that hooks had more to say
        root, session = load_session(cut_after(one.log, kept), runtime=runtime, options=quick())
        if root.has_open_calls:
            run(root.response())
        run(root.response("More."))
        session.close()
        done = checked(session.path, ReplayExtras(tools=[look]))
        assert done.difference is None, (kept, done.difference, done.miss_text)
