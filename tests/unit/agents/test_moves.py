"""`endo`, `meta`, `talk_with`: who stands where, and who answers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken import Runtime
from harken.agents.budget import Budget
from harken.agents.schemas import ACTIONS
from tests.agent_kit import Line, Stage, call, calls, check_log, play, run, stage


def moving(folder: Path, budget: Budget | None = None, **parts: Sequence[Line]) -> Stage:
    """Return a stage whose agents have all actions."""
    runtime = Runtime(model=play(**parts), actions=ACTIONS)
    return stage(folder, play(**parts), runtime=runtime, budget=budget)


@pytest.mark.req("S4-39", "S4-38")
def test_endo_puts_a_subagent_in_the_place_of_its_parent_and_meta_undoes_it(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            calls(call("task", name="pupil", instructions="You know nothing.")),
            calls(call("endo", "c2", subagent="pupil", prompt="Ask the user why.")),
            "OK",
            "OK",
            calls(call("meta", "c3")),
        ],
        pupil=["Why?", "Because?"],
    )
    before = one.session.state.primary
    assert one.ask("Teach me.") == "[moved] pupil answers now"
    pupil = one.root.sibling(one.session.state.primary or "")
    assert (pupil.name, pupil.cut_off) == ("pupil", True)
    assert [hook.agent_id for hook in pupil.hooks] == [before]
    assert run(pupil.response()) == "Why?"
    assert run(pupil.response("Gravity.")) == "[moved] main answers now"
    assert one.session.state.primary == before
    assert one.root.subagent_ids == {"pupil": pupil.agent_id}
    assert one.root.cut_off
    check_log(one.log)


def test_a_budget_goes_with_the_place(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            calls(call("task", name="b", instructions="b")),
            calls(call("endo", "c2", subagent="b")),
        ],
        budget=Budget(model_calls=2),
    )
    one.ask("Go.")
    b = one.root.sibling(one.session.state.primary or "")
    assert b.state.spec["budget"] == {"model_calls": 2}
    assert "has used 2 of 2 model calls" in run(b.response("Go on."))
