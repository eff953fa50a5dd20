"""Budgets end in a text that a person and a model can read, live and after a resume."""

from pathlib import Path
from typing import Any

import pytest

from harken import Budget, SmartAgent, load_session, tool
from harken.agents.agent import log_birth
from harken.core.events import Usage
from harken.core.messages import Message
from harken.core.stream import Finish, iter_chunks
from harken.errors import ModelError, TurnStopped
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
    script_model,
)


@tool
def look() -> str:
    """Look."""
    return "seen"


def costing(message: Message, *, tokens: int = 0, usd: float = 0.0) -> list[Any]:
    """Return an answer that used up so much."""
    usage = Usage(input_tokens=tokens // 2, output_tokens=tokens - tokens // 2)
    finish = Finish(stop_reason="end_turn", usage=usage, cost_usd=usd)
    return [*iter_chunks(message), finish]


def looking(folder: Path, budget: Budget, **cost: Any) -> Stage:
    lines = [costing(call_message(call("look")), **cost)] * 10
    return open_stage(folder, script_model(main=lines), tools=[look], budget=budget)


SPENDING = [
    (Budget(model_calls=3), {}, "agent main has used 3 of 3 model calls"),
    (Budget(tokens=100), {"tokens": 40}, "agent main has used 120 of 100 tokens"),
    (Budget(cost_usd=0.05), {"usd": 0.02}, "agent main has spent 0.0600 of 0.0500 USD"),
]


@pytest.mark.req("S0-31")
@pytest.mark.parametrize(("budget", "cost", "says"), SPENDING, ids=["calls", "tokens", "cost"])
def test_what_is_used_up_ends_in_a_readable_text_and_stays_used_up(
    tmp_path: Path, budget: Budget, cost: dict[str, Any], says: str
) -> None:
    one = looking(tmp_path, budget, **cost)
    with pytest.raises(TurnStopped) as stopped:
        run(one.root.response("Look."))
    text = str(stopped.value)
    assert (text, stopped.value.kind) == (f"[stopped] {says}", "budget")
    [piece] = one.select_lines(event_type="piece_of_text")
    assert (piece["content"], piece["message_id"]) == (text, stopped.value.message_id)
    [stop] = one.select_lines(event_type="turn_stopped")
    assert (stop["reason"], stop["piece"]) == ("budget", piece["message_id"])
    assert piece["cause"] == one.select_lines(role="tool")[-1]["message_id"]
    check_log(one.log)
    live = full_state(one.session)
    later = one.resume()
    assert full_state(later.session) == live
    assert later.root.state.spec.limits.budget == budget
    asked = len(later.select_lines(event_type="llm_request"))
    assert later.ask("Go on.") == text
    assert len(later.select_lines(event_type="llm_request")) == asked


@pytest.mark.parametrize(("budget", "cost", "says"), SPENDING, ids=["calls", "tokens", "cost"])
def test_a_budget_covers_the_whole_subtree(
    tmp_path: Path, budget: Budget, cost: dict[str, Any], says: str
) -> None:
    model = script_model(
        main=[
            costing(call_message(call("task", name="Ann", prompt="Look.")), **cost),
            costing(Message("assistant", "Done."), **cost),
        ],
        Ann=[costing(call_message(call("look")), **cost)] * 10,
    )
    one = open_stage(tmp_path, model, tools=[look], budget=budget)
    assert one.ask("Go.") == f"[stopped] {says}"
    [piece, *_] = [
        r for r in one.select_lines(event_type="piece_of_text") if r["agent_id"] != "agent_001"
    ]
    assert piece["content"] == f"[stopped] {says}"
    result = one.result()
    assert result["content"] == piece["content"]
    assert result["substance"] == piece["message_id"]
    check_log(one.log)


def test_what_a_terminated_subagent_spent_stays_spent(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", name="Ann", prompt="Look.")),
            call_message(call("terminate", name="Ann")),
            "Done.",
        ],
        Ann=["Seen."],
    )
    one = open_stage(tmp_path, model, budget=Budget(model_calls=3))
    assert one.ask("Go.") == "[stopped] agent main has used 3 of 3 model calls"


def test_a_failed_model_call_counts(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[ModelError("no")]), budget=Budget(model_calls=1))
    with pytest.raises(ModelError):
        one.ask("Go.")
    assert one.resume().ask() == "[stopped] agent main has used 1 of 1 model calls"


def test_a_subagent_may_have_a_budget_of_its_own(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("discuss", prompt="Look.", speakers=["Ann"])), "Ann ran out."],
        Ann=[call_message(call("look"))] * 10,
    )
    one = open_stage(tmp_path, model, tools=[look])
    ann = SmartAgent(one.session, "You are Ann.", runtime=one.runtime, budget=Budget(model_calls=2))
    log_birth(ann, one.root.state.birth, "Ann", "subagent")
    assert one.ask("Go.") == "Ann ran out."
    assert one.result()["content"] == "[stopped] agent Ann has used 2 of 2 model calls"
    later = one.resume()
    assert later.agent("Ann").state.spec.limits.budget == Budget(model_calls=2)


def deeper(request: ModelRequest) -> Any:
    """Make a subagent below, and tell what came of it."""
    if request.messages[-1].role == "tool":
        return f"{request.agent} > {request.messages[-1].content}"
    return call_message(call("task", name=f"{request.agent}+", prompt="Deeper."))


@pytest.mark.req("S0-31")
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_tree_may_be_only_so_deep(tmp_path: Path, depth: int) -> None:
    names = ["main" + "+" * n for n in range(6)]
    one = open_stage(
        tmp_path,
        script_model(**{name: [deeper] * 2 for name in names}),
        budget=Budget(depth=depth),
    )
    said = one.ask("Go.")
    assert said.endswith(f"Error: agent main may have {depth} levels of subagents below")
    assert len(one.session.agents) == depth + 1
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


@pytest.mark.req("S0-31")
@pytest.mark.parametrize("resumed", [False, True])
def test_only_so_many_may_live_at_one_time(tmp_path: Path, resumed: bool) -> None:
    def makes(n: int) -> Message:
        return call_message(call("task", f"c{n}", name=f"A{n}"))

    model = script_model(
        main=[
            makes(1),
            makes(2),
            "-",
            makes(3),
            call_message(call("terminate", "t", name="A1")),
            makes(4),
            "Done.",
        ]
    )
    one = open_stage(tmp_path, model, budget=Budget(live_subagents=2))
    one.ask("Go.")
    if resumed:
        one = one.resume()
    one.ask("Go on.")
    assert one.result("c3")["content"] == (
        "Error: agent main may have 2 live subagents, and has them"
    )
    assert one.result("c4")["content"] == "Created subagent: A4"
    assert list(one.root.subagents) == ["A2", "A4"]
    assert one.result("c3")["is_error"] is True


def test_live_subagents_are_counted_in_the_whole_subtree(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Get help.")), "Done."],
        Ann=[call_message(call("task", "a", name="Bob"), call("task", "b", name="Joe")), "Tried."],
    )
    one = open_stage(tmp_path, model, budget=Budget(live_subagents=2))
    one.ask("Go.")
    assert one.result("a", "Ann")["content"] == "Created subagent: Bob"
    assert "may have 2 live subagents" in one.result("b", "Ann")["content"]


def test_calls_made_at_once_cannot_pass_a_limit_together(tmp_path: Path) -> None:
    made = call_message(*(call("task", f"c{n}", name=f"A{n}", prompt="Hi?") for n in range(5)))
    parts = {f"A{n}": ["Hi."] for n in range(5)}
    one = open_stage(
        tmp_path, script_model(main=[made, "Done."], **parts), budget=Budget(live_subagents=3)
    )
    one.ask("Go.")
    assert len(one.root.subagents) == 3


def test_a_budget_is_written_into_the_birth_and_nothing_else(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(), budget=Budget(tokens=5))
    [birth] = one.select_lines(event_type="agent_created")
    assert birth["spec"] == {"kind": "smart", "limits": {"budget": {"tokens": 5}}}


def test_a_new_budget_at_resume_lets_a_session_go_on(tmp_path: Path) -> None:
    """What is used up must not be the end for ever: the person who pays may give more."""
    one = looking(tmp_path, Budget(model_calls=1))
    one.ask("Look.")
    one.session.close()
    root, session = load_session(
        one.log, runtime=one.runtime, budget=Budget(model_calls=2), options=fast_options()
    )
    more = Stage(root, session, one.runtime)
    assert more.ask("Look again.") == "[stopped] agent main has used 2 of 2 model calls"
    assert more.root.state.spec.limits.budget == Budget(model_calls=2)
    assert more.resume().root.state.spec.limits.budget == Budget(model_calls=2)
