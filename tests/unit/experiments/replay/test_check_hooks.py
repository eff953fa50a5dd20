"""Sessions with later hooks on existing agents are replayed equally."""

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
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import Judging, send, watch
from tests.unit.experiments.replay.test_check import check_log, same

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


def test_later_hook_is_replayed(tmp_path: Path) -> None:
    ask = call_message(call("discuss", "d", prompt="Send."))
    scene = acting(
        tmp_path,
        main=[KID, "Done.", ask, "Done."],
        kid=[call_message(call("send", "s", text="x")), "Sent."],
        smart=["OK"] * 9,
    )
    scene.ask("Go.")
    watch(scene)
    assert isinstance(scene.root, ToolAgent)
    new_hook(scene.root, "Watch.", points=["response"]).install(scene.root, "smart")
    scene.ask("On.")
    scene.session.close()
    assert same(scene.log).agents == 6


def test_hook_created_by_a_hook_is_replayed(tmp_path: Path) -> None:
    hook_calls = call_message(
        call("hook", "h", name="new", instructions="Watch.", points=["response"])
    )
    scene = acting(tmp_path, main=[KID, "Done."], maker=[hook_calls, "OK"], new=["OK"] * 9)
    assert isinstance(scene.root, ToolAgent)
    maker = new_hook(scene.root, "Make.", tools=["hook"], points=["response"])
    maker.install(scene.root, "maker")
    scene.ask("Go.")
    assert [hook.name for hook in scene.agent("kid").hooks] == ["maker", "new"]
    scene.session.close()
    assert same(scene.log).agents == 6


@pytest.mark.parametrize("tools", [[], ["send"]])
def test_hook_that_takes_over_is_replayed(tmp_path: Path, tools: list[str]) -> None:
    hook_call = call("hook", "h", name="h", instructions="x", tools=tools, points=["response"])
    scene = acting(
        tmp_path,
        main=[call_message(hook_call), "Done."],
        h=[call_message(call("meta", "m")), "Mine."],
    )
    watch(scene)
    assert run(Conversation(scene.root).say("Go.")) == "Mine."
    scene.session.close()
    same(scene.log)


@tool(idempotent=True)
def look(place_name: str) -> str:
    """Look."""
    return f"seen {place_name}"


def test_truncated_and_resumed_session_with_hooks_is_replayed(tmp_path: Path) -> None:
    own_hook = call("hook", "h", name="own", instructions="x", tools=["look"], points=["response"])
    discuss_calls = call_message(call("discuss", "d"))
    main = [
        KID,
        call_message(own_hook),
        call_message(call("look", "l", place_name="a")),
        discuss_calls,
        discuss_calls,
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
    scene = open_stage(tmp_path, script_model(**parts), runtime=runtime)
    watch(scene)
    first_length = len(scene.select_lines())
    scene.ask("Go.")
    scene.session.close()
    [answer_index] = [
        row_index
        for row_index, row in enumerate(scene.select_lines())
        if row.get("content") == "Done."
    ][:1]
    for length in range(
        first_length + 1, answer_index + 1
    ):  # a later cut does not show that hooks had more reviews
        root, session = load_session(
            cut_after(scene.log, length), runtime=runtime, options=fast_options()
        )
        if has_open_calls(root):
            run(root.response())
        run(root.response("More."))
        session.close()
        result = check_log(session.path, ReplayExtras(tools=[look]))
        assert result.difference is None, (length, result.difference, result.miss_text)
