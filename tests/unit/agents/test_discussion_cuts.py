"""Discussions that are cut off anywhere, or fail anywhere, end as those that are not."""

from pathlib import Path
from typing import Any

import pytest

from harken.agents.open_calls import has_open_calls
from harken.errors import ModelError
from harken.session.log.checksum import has_more
from tests.agent_kit import Stage, check_log, full_state
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.discussion_kit import (
    heard,
    open_discussion,
    respond,
    results,
    resume_discussion,
    steps,
)

ABC = ["A", "B", "C"]
ORDERS: dict[str, dict[str, Any]] = {
    "one round": {"speakers": ABC},
    "rounds": {"speakers": ABC, "rounds": 2},
    "one speaker": {"speakers": ["A"], "listeners": ["B"], "rounds": 3},
    "random": {"speakers": ABC, "rounds": 2, "order": "random"},
    "chosen": {"speakers": ABC, "rounds": 2, "order": "moderator:Chair"},
    "word": {"speakers": ABC, "rounds": 3, "until": "agreed"},
    "judge": {"speakers": ABC, "rounds": 3, "until": "judge:Judge"},
    "judge and chair": {
        "speakers": ["A", "B"],
        "listeners": ["C"],
        "rounds": 3,
        "until": "judge:Judge",
        "order": "moderator:Chair",
    },
    "user": {"speakers": ["A", "user", "B"], "rounds": 2},
    "user and judge": {
        "speakers": ["user", "A"],
        "rounds": 2,
        "order": "random",
        "until": "judge:Judge",
    },
}


def mumble(name: str, turn: int, request: Any) -> str:
    """The judge and the chair give an unreadable answer at first, and then again."""
    if name in ("Judge", "Chair") and turn in (0, 2, 3):
        return "Well, well."
    return respond(name, turn, request)


def outcome(stage: Stage) -> tuple[Any, ...]:
    return results(stage), steps(stage), heard(stage)


@pytest.mark.req("S0-32", "S4-04", "S4-11", "S4-12")
@pytest.mark.parametrize("answers", [respond, mumble], ids=["readable", "unreadable"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_discussion_cut_anywhere_gives_the_uncut_results(
    tmp_path: Path, order: str, answers: Any
) -> None:
    arguments = ORDERS[order]
    one = open_discussion(tmp_path, arguments, respond=answers)
    first = len(one.select_lines()) + 1
    assert one.ask("Go.") == "End."
    expected = outcome(one)
    assert "closed" not in one.result("d")
    one.session.close()
    check_log(one.log)
    lines = one.log.read_bytes().splitlines(keepends=True)
    cuts = [count for count in range(first, len(lines) + 1) if not has_more(lines[count - 1])]
    for count in cuts:
        later = resume_discussion(cut_after(one.log, count), arguments, respond=answers)
        if has_open_calls(later.root):
            assert later.ask() == "End."
        assert outcome(later) == expected, count
        later.session.close()
        check_log(later.log)


@pytest.mark.req("S0-32", "S4-04")
@pytest.mark.parametrize("order", ORDERS)
def test_a_discussion_goes_on_wherever_a_model_call_failed(tmp_path: Path, order: str) -> None:
    arguments = ORDERS[order]
    one = open_discussion(tmp_path, arguments)
    assert one.ask("Go.") == "End."
    expected = outcome(one)
    calls = len(one.select_lines(event_type="llm_request")) - 3
    one.session.close()
    for failing in range(1, calls + 1):
        folder = tmp_path / str(failing)
        folder.mkdir()
        later = open_discussion(folder, arguments, failing=failing)
        with pytest.raises(ModelError):
            later.ask("Go.")
        if failing % 2:
            later.session.close()
            later = resume_discussion(later.log, arguments)
        assert later.ask() == "End."
        assert outcome(later) == expected, failing
        live = full_state(later.session)
        later.session.close()
        assert full_state(resume_discussion(later.log, arguments).session) == live
