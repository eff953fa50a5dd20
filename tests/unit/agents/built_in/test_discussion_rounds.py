"""The hook that ends discussions which go round and round."""

from pathlib import Path

import pytest

from tests.agent_kit import ScriptedAnswer, call, call_message, check_log
from tests.unit.agents.built_in.built_in import asked, comments, denials, hooked, resumed

NAME = "discussion-rounds"
TASKS = call_message(call("task", "a", name="Ann"), call("task", "b", name="Bob"))


def talks(count: int, start: int = 0) -> list[ScriptedAnswer]:
    return [
        call_message(call("discuss", f"d{n}", prompt="And?", speakers=["Ann", "Bob"]))
        for n in range(start, start + count)
    ]


def parts(*main: ScriptedAnswer) -> dict[str, list[ScriptedAnswer]]:
    return {"main": [*main], "Ann": ["Yes."] * 20, "Bob": ["No."] * 20}


def test_after_so_many_rounds_a_comment_then_a_denial(tmp_path: Path) -> None:
    lines = parts(TASKS, *talks(6), "Enough.")
    one = hooked(tmp_path, NAME, lines, comment_after=2, deny_after=4)
    one.ask("Go.")
    assert [text[:15] for text in comments(one, NAME)] == ["This is round 3", "This is round 4"]
    assert len(denials(one, NAME)) == 2
    assert denials(one, NAME)[0].startswith("there were 4 rounds of discussion")
    assert asked(one, NAME) == 4
    check_log(one.log)


def test_a_discussion_of_several_rounds_counts_as_so_many(tmp_path: Path) -> None:
    def talk(id_: str, rounds: object) -> ScriptedAnswer:
        return call_message(
            call("discuss", id_, prompt="And?", speakers=["Ann", "Bob"], rounds=rounds)
        )

    talking = [talk("d1", 3), talk("d2", "many"), talk("d3", 2), talk("d4", 3), talk("d5", 1)]
    one = hooked(tmp_path, NAME, parts(TASKS, *talking, "Enough."), comment_after=4, deny_after=6)
    one.ask("Go.")
    assert [text[:15] for text in comments(one, NAME)] == ["This is round 4", "This is round 6"]
    [denial] = denials(one, NAME)
    assert denial.startswith("3 rounds are too many: at most 1 may follow")
    check_log(one.log)


@pytest.mark.parametrize("between", ["action", "input"])
def test_what_is_done_in_between_begins_anew(tmp_path: Path, between: str) -> None:
    middle: list[ScriptedAnswer] = (
        [call_message(call("look", "l"))] if between == "action" else ["Well."]
    )
    lines = parts(TASKS, *talks(3), *middle, *talks(3, 3), "Done.")
    one = hooked(tmp_path, NAME, lines, comment_after=3, deny_after=3)
    one.ask("Go.")
    if between == "input":
        one.ask("Go on.")
    assert asked(one, NAME) == 0


def test_either_may_be_left_out(tmp_path: Path) -> None:
    lines = parts(TASKS, *talks(4), "Done.")
    one = hooked(tmp_path, NAME, lines, comment_after=None, deny_after=3)
    one.ask("Go.")
    assert comments(one, NAME) == []
    assert len(denials(one, NAME)) == 1
    other = tmp_path / "other"
    other.mkdir()
    two = hooked(other, NAME, lines, comment_after=3, deny_after=None)
    two.ask("Go.")
    assert (len(comments(two, NAME)), denials(two, NAME)) == (1, [])


@pytest.mark.req("S4-27")
def test_rounds_before_a_resume_count(tmp_path: Path) -> None:
    cut = call_message(call("discuss", "d9", prompt="And?", speakers=["Ann", "Bob"]))
    lines = parts(TASKS, *talks(2), ValueError("cut"), cut, "Done.")
    one = hooked(tmp_path, NAME, lines, comment_after=2)
    with pytest.raises(Exception, match="cut"):
        one.ask("Go.")
    lines["main"][3] = cut
    lines["main"][4] = "Done."
    one = resumed(one)
    one.ask()
    assert len(comments(one, NAME)) == 1
