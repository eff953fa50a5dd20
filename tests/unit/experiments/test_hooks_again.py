"""A session in which hooks come later, and reach those who are there, goes the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Conversation, LocalWorld, load_session, tool
from harken.agents.action_schemas import ACTIONS
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.experiments.replay.player import ReplayExtras
from tests.agent_kit import Stage, call, call_message, fast_options, open_stage, run, script_model
from tests.unit.agents.cutting import cut_after
from tests.unit.agents.hooking import Judging, send, watch
from tests.unit.experiments.replay.test_check import checked, same

KID = call_message(call("task", "t", name="kid", instructions="k"))


def acting(folder: Path, **lines: Any) -> Stage:
    model = script_model(**lines)
    runtime = AgentRuntime(
        model=model,
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([send]),
        library=AgentLibrary(kinds={"test-judge": Judging}),
    )
    return open_stage(folder, model, runtime=runtime)


def test_a_hook_that_comes_later(tmp_path: Path) -> None:
    ask = call_message(call("discuss", "d", prompt="Send."))
    one = acting(
        tmp_path,
        main=[KID, "Done.", ask, "Done."],
        kid=[call_message(call("send", "s", text="x")), "Sent."],
        smart=["OK"] * 9,
    )
    one.ask("Go.")
    watch(one)
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.", points=["response"]).install(one.root, "smart")
    one.ask("On.")
    one.session.close()
    assert same(one.log).agents == 6


def test_a_hook_that_a_hook_makes(tmp_path: Path) -> None:
    made = call_message(call("hook", "h", name="new", instructions="Watch.", points=["response"]))
    one = acting(tmp_path, main=[KID, "Done."], maker=[made, "OK"], new=["OK"] * 9)
    assert isinstance(one.root, ToolAgent)
    maker = new_hook(one.root, "Make.", tools=["hook"], points=["response"])
    maker.install(one.root, "maker")
    one.ask("Go.")
    assert [hook.name for hook in one.agent("kid").hooks] == ["maker", "new"]
    one.session.close()
    assert same(one.log).agents == 6


@pytest.mark.parametrize("tools", [[], ["send"]])
def test_a_hook_of_its_own_that_takes_the_place(tmp_path: Path, tools: list[str]) -> None:
    made = call("hook", "h", name="h", instructions="x", tools=tools, points=["response"])
    one = acting(
        tmp_path, main=[call_message(made), "Done."], h=[call_message(call("meta", "m")), "Mine."]
    )
    watch(one)
    assert run(Conversation(one.root).say("Go.")) == "Mine."
    one.session.close()
    same(one.log)


@tool(idempotent=True)
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def test_a_session_with_hooks_that_was_cut_off_anywhere_and_resumed(tmp_path: Path) -> None:
    own = call("hook", "h", name="own", instructions="x", tools=["look"], points=["response"])
    again = call_message(call("discuss", "d"))
    main = [
        KID,
        call_message(own),
        call_message(call("look", "l", at="a")),
        again,
        again,
        "Done.",
        *["-"] * 9,
    ]
    parts: dict[str, Any] = {"main": main, "kid": ["Hm.", *["-"] * 9], "own": ["OK"] * 9}
    runtime = AgentRuntime(
        model=script_model(**parts),
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld([send, look]),
        library=AgentLibrary(kinds={"test-judge": Judging}),
    )
    one = open_stage(tmp_path, script_model(**parts), runtime=runtime)
    watch(one)
    begun = len(one.select_lines())
    one.ask("Go.")
    one.session.close()
    [said] = [at for at, row in enumerate(one.select_lines()) if row.get("content") == "Done."][:1]
    for kept in range(begun + 1, said + 1):  # later nobody knows that hooks had more to say
        root, session = load_session(
            cut_after(one.log, kept), runtime=runtime, options=fast_options()
        )
        if has_open_calls(root):
            run(root.response())
        run(root.response("More."))
        session.close()
        done = checked(session.path, ReplayExtras(tools=[look]))
        assert done.difference is None, (kept, done.difference, done.miss_text)
