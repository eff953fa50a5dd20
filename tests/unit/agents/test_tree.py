"""The tree: its depth, its ends, and what its members may use."""

from pathlib import Path
from typing import Any

import pytest

from harken import tool
from harken.core.messages import ToolCall
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    request_texts,
    script_model,
)
from tests.unit.agents.tree_kit import among, people, talk


@pytest.mark.req("S4-17", "S0-20")
def test_a_terminated_agent_takes_its_subtree_along(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", name="Ann", prompt="Get help.")),
            call_message(call("terminate", "c2", name="Ann")),
            call_message(talk("c3", prompt="Hi?", speakers=["Ann"])),
            "Gone.",
        ],
        Ann=[call_message(call("task", name="Bob", prompt="Help.")), "Bob helps."],
        Bob=["I help."],
    )
    one = open_stage(tmp_path, model)
    assert one.ask("Go.") == "Gone."
    assert one.result("c2")["content"] == "Terminated subagent: Ann"
    assert "subagent 'Ann' not found; no subagents exist" in one.result("c3")["content"]
    [moved] = one.select_lines(event_type="agent_moved")
    assert moved["place"] == "gone"
    assert (
        moved["cause"] == one.select_lines(role="assistant", agent_id="agent_001")[1]["message_id"]
    )
    state = one.session.state
    for name in ("Ann", "Bob"):
        assert not state.is_live(state.agents[one.id_of(name)].id)  # type: ignore[index]
        assert one.id_of(name) not in one.session.live
    assert one.user_messages("Bob") == ["Help."]
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


@pytest.mark.req("S4-14", "S4-17")
def test_only_ones_own_subagents_can_be_terminated_or_talked_with(tmp_path: Path) -> None:
    model = script_model(
        main=[people("Ann", "Bob"), call_message(talk(prompt="Go.", speakers=["Ann"])), "Done."],
        Ann=[
            call_message(call("terminate", "x", name="Bob")),
            call_message(talk("y", speakers=["main"])),
            "No.",
        ],
    )
    one = open_stage(tmp_path, model)
    one.ask("Go.")
    assert "subagent 'Bob' not found" in one.result("x", "Ann")["content"]
    assert "subagent 'main' not found" in one.result("y", "Ann")["content"]
    assert list(one.root.subagents) == ["Ann", "Bob"]


@pytest.mark.req("S4-20", "S1-07")
def test_a_tree_may_be_as_deep_as_it_likes_and_logs_into_one_session(tmp_path: Path) -> None:
    depth = 200

    def deeper(request: Any) -> Any:
        level = 0 if request.agent == "main" else int(request.agent)
        if any(m.role == "tool" for m in request.messages):
            return f"{request_texts(request)[-1]} {level}"
        if level == depth:
            return "bottom"
        return call_message(call("task", name=str(level + 1), prompt="Deeper."))

    names = ["main", *map(str, range(1, depth + 1))]
    one = open_stage(tmp_path, ScriptModel({name: [deeper] * 2 for name in names}))
    answer = one.ask("Deeper.")
    assert answer == " ".join(["bottom", *map(str, range(depth - 1, -1, -1))])
    assert len(one.session.agents) == depth + 1
    above = one.session.agents
    assert all(above[a].parent == b for a, b in zip(list(above)[1:], list(above), strict=False))
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


@pytest.mark.req("S4-20")
def test_siblings_hear_each_other_only_in_a_discussion(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Alone.", speakers=["Jack"]),
        talk("c2", prompt="Alone too.", speakers=["Jill"]),
    )
    assert one.user_messages("Jack") == ["Alone."]
    assert one.user_messages("Jill") == ["Alone too."]


@pytest.mark.req("S4-20")
def test_a_grandchilds_words_reach_nobody_but_its_parent(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Talk.", speakers=["Jack", "Jill"]),
        Jack=[call_message(call("task", name="Inner", prompt="What now?")), "Hello."],
        Inner=["Say hello, secretly."],
    )
    assert one.result("c1", "Jack")["content"] == "Say hello, secretly."
    assert [r["agent_id"] for r in one.select_lines() if "secretly" in str(r.get("content"))] == [
        one.id_of("Inner"),
        one.id_of("Jack"),
    ]


@tool
def read() -> str:
    """Read."""
    return "text"


@tool
def write() -> str:
    """Write."""
    raise AssertionError("it must not run")


def limited(folder: Path, *steps: ToolCall, tools: list[str] | None, **parts: Any) -> Stage:
    made = call("task", "c0", name="Ann", prompt="Go.", **({"tools": tools} if tools else {}))
    model = script_model(
        main=[call_message(made), "Done."],
        Ann=[*(call_message(s) for s in steps), "Tried."],
        **parts,
    )
    one = open_stage(folder, model, tools=[read, write])
    assert one.ask("Go.") == "Done."
    return one


@pytest.mark.req("S4-05")
def test_a_subagent_may_be_given_some_tools_only(tmp_path: Path) -> None:
    one = limited(tmp_path, call("read"), call("write", "c2"), tools=["read"])
    assert one.result("c1", "Ann")["content"] == "text"
    refused = one.result("c2", "Ann")
    assert refused["content"] == "Error: Ann may not use a tool 'write'; it may use: read"
    assert [t["name"] for t in one.runtime.model.requests_of("Ann")[0].tools] == ["read"]  # type: ignore[union-attr]


@pytest.mark.req("S4-05")
def test_a_forbidden_action_is_not_run_either(tmp_path: Path) -> None:
    one = limited(tmp_path, call("task", name="Bob"), tools=["read"])
    assert "may not use a tool 'task'" in one.result("c1", "Ann")["content"]
    assert len(one.session.agents) == 2


@pytest.mark.req("S4-05")
def test_nobody_can_pass_on_a_tool_that_he_has_not(tmp_path: Path) -> None:
    wants = call("task", name="Bob", tools=["read", "write"])
    one = limited(tmp_path, wants, tools=["read", "task"])
    assert "you have no tool 'write' to pass on; your tools: " in one.result("c1", "Ann")["content"]


@pytest.mark.req("S4-05")
def test_by_default_a_subagent_has_its_parents_tools(tmp_path: Path) -> None:
    one = limited(
        tmp_path,
        call("task", name="Bob", prompt="Write."),
        tools=["task"],
        Bob=[call_message(call("write")), "I may not."],
    )
    assert "may not use a tool 'write'" in one.result("c1", "Bob")["content"]


@pytest.mark.req("S4-05", "S0-31")
def test_what_an_agent_may_use_survives_a_resume(tmp_path: Path) -> None:
    one = limited(tmp_path, tools=["read"])
    ann = one.resume().agent("Ann")
    assert list(ann.tools) == ["read"]  # type: ignore[attr-defined]


@pytest.mark.req("S4-05")
def test_an_empty_list_of_tools_is_none_at_all(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path,
        script_model(
            main=[call_message(call("task", name="Ann", prompt="Go.", tools=[])), "Done."],
            Ann=["Hi."],
        ),
        tools=[read],
    )
    one.ask("Go.")
    assert one.runtime.model.requests_of("Ann")[0].tools == []  # type: ignore[union-attr]
