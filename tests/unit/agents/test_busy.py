"""Who is busy is not disturbed, and who speaks is known: `discuss` and `task` at their edges."""

import asyncio
from pathlib import Path

import pytest

from harken.agents.open_calls import finish_open_calls
from harken.agents.tree.actions import affected_subtrees
from harken.errors import AgentBusy
from tests.agent_kit import call, call_message, check_log, open_stage, run, script_model
from tests.unit.agents.tree_kit import people, talk


def test_a_discuss_leaves_a_busy_agent_alone(tmp_path: Path) -> None:
    discuss = call_message(talk(prompt="Well?", speakers=["Jill", "Jack"]))
    parts = {"Jack": ["Yes."], "Jill": ["Yes."]}
    one = open_stage(
        tmp_path, script_model(main=[people("Jack", "Jill"), "Ready.", discuss, "Done."], **parts)
    )
    one.ask("Go.")
    jack = one.agent("Jack")
    jack._turn_lock.enter()
    with pytest.raises(AgentBusy):
        run(finish_open_calls(jack))
    assert one.ask("Talk.") == "Done."
    assert "Jack is in a turn" in one.result()["content"]
    assert one.user_messages("Jill") == one.user_messages("Jack") == []
    check_log(one.log)


def test_a_discuss_without_speakers_may_touch_anybody(tmp_path: Path) -> None:
    root = open_stage(tmp_path, script_model()).root
    assert affected_subtrees(root, "discuss", {"listeners": ["B"]}) is None
    assert affected_subtrees(root, "discuss", {"speakers": ["A"], "listeners": ["B"]}) == {"A", "B"}


@pytest.mark.parametrize("name", ["hook guard", "Hook  x", "User", "a\nb", "a\x1b[2J", " "])
def test_nobody_speaks_as_somebody_else(tmp_path: Path, name: str) -> None:
    one = open_stage(tmp_path, script_model(main=[call_message(call("task", name=name)), "Done."]))
    one.ask("Go.")
    assert one.result()["is_error"]
    assert one.root.subagents == {}


def test_a_blank_prompt_is_refused(tmp_path: Path) -> None:
    blank = call_message(call("task", "c2", name="Jim", prompt=" "), talk("c3", prompt=""))
    one = open_stage(tmp_path, script_model(main=[people("Jack"), blank, "Done."]))
    one.ask("Go.")
    assert list(one.root.subagents) == ["Jack"]
    for id_ in ("c2", "c3"):
        assert "the prompt is blank" in one.result(id_)["content"]


def test_names_revive_nobody(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[people("Jack", "Jill"), "Done."]))
    one.ask("Go.")
    one = one.resume()
    jill = one.root.subagents["Jill"]
    assert set(one.session.live) == {one.root.agent_id, jill.agent_id}
    assert asyncio.iscoroutinefunction(jill.response)
