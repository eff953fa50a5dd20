"""The hook that reminds an agent of its list."""

from pathlib import Path

import pytest

from harken.agents.agent import unload_agent
from tests.agent_kit import ScriptedAnswer, call, call_message, check_log
from tests.unit.agents.built_in.built_in import asked, comments, hooked, looks, resumed

NAME = "todo-reminder"
LISTED = "[>] look\n[ ] leap\n0 of 2 done."


def writes(*items: tuple[str, str], id_: str = "t") -> ScriptedAnswer:
    return call_message(call("todo", id_, items=[{"text": t, "status": s} for t, s in items]))


TWO = writes(("look", "doing"), ("leap", "open"))


@pytest.mark.req("S4-33")
def test_after_so_many_requests_without_it_the_list_is_shown_as_it_stands(tmp_path: Path) -> None:
    one = hooked(tmp_path, NAME, {"main": [TWO, *looks(8), "Done."]}, requests=3)
    one.ask("Go.")
    said = f"You have not written your todo list for 3 requests. It stands so:\n{LISTED}\n"
    assert len(comments(one, NAME)) == 2
    assert comments(one, NAME)[0].startswith(said)
    entries = one.select_lines(agent_id="agent_001")
    texts = [row.get("tool_call_id") or row.get("content") for row in entries]
    first = next(at for at, text in enumerate(texts) if str(text).startswith("[hook"))
    assert texts[first - 1] == "l2"  # the third result after the list
    check_log(one.log)


@pytest.mark.req("S4-33")
def test_who_writes_the_list_again_is_not_reminded(tmp_path: Path) -> None:
    again = writes(("leap", "doing"), id_="t2")
    one = hooked(tmp_path, NAME, {"main": [TWO, *looks(2), again, *looks(2), "Done."]}, requests=3)
    one.ask("Go.")
    assert comments(one, NAME) == []
    assert asked(one, NAME) == 0


def test_nobody_is_reminded_of_a_list_that_is_done_or_was_never_written(tmp_path: Path) -> None:
    done = writes(("look", "done"))
    one = hooked(tmp_path, NAME, {"main": [*looks(5), done, *looks(9, 5), "Done."]}, requests=2)
    one.ask("Go.")
    assert asked(one, NAME) == 0


def test_who_never_wrote_a_list_is_reminded_where_that_is_wanted(tmp_path: Path) -> None:
    parts: dict[str, list[ScriptedAnswer]] = {"main": [*looks(5), "Done."]}
    one = hooked(tmp_path, NAME, parts, requests=2, without_list=True)
    one.ask("Go.")
    assert len(comments(one, NAME)) == 2
    assert comments(one, NAME)[0].startswith("You have no todo list after 2 requests.")


def test_several_results_of_one_message_are_one_occasion(tmp_path: Path) -> None:
    many = call_message(*(call("look", f"m{n}") for n in range(4)))
    one = hooked(tmp_path, NAME, {"main": [TWO, many, many, "Done."]}, requests=2)
    one.ask("Go.")
    assert len(comments(one, NAME)) == 1


def test_a_list_that_failed_is_no_list(tmp_path: Path) -> None:
    bad = call_message(call("todo", "t2", items=[{"text": " "}]))
    one = hooked(tmp_path, NAME, {"main": [TWO, bad, *looks(2), "Done."]}, requests=3)
    one.ask("Go.")
    assert LISTED in comments(one, NAME)[0]


@pytest.mark.req("S4-27", "S4-33")
@pytest.mark.parametrize("how", ["live", "resumed", "evicted"])
def test_it_counts_on_after_a_resume_and_repeats_nothing(tmp_path: Path, how: str) -> None:
    turns: list[ScriptedAnswer] = [one for n in range(10) for one in (*looks(1, n), "Well.")]
    one = hooked(tmp_path, NAME, {"main": [TWO, "Listed.", *turns]}, requests=4)
    one.ask("List.")
    at: list[int] = []
    for turn in range(8):
        one.ask("Go on.")
        at += [turn] * (len(comments(one, NAME)) - len(at))
        if how == "resumed":
            one = resumed(one)
        elif how == "evicted":
            unload_agent(one.session, one.id_of(NAME))
    assert at == [1, 3, 5, 7]


def test_a_copy_counts_the_requests_of_its_own_agent(tmp_path: Path) -> None:
    asks = call_message(call("task", "a", name="Ann", prompt="Look."))
    parts: dict[str, list[ScriptedAnswer]] = {
        "main": [TWO, *looks(1), asks, "Done."],
        "Ann": [TWO, *looks(4), "Seen."],
    }
    one = hooked(tmp_path, NAME, parts, requests=3)
    one.ask("Go.")
    assert len(comments(one, NAME, "Ann")) == 1
    assert comments(one, NAME) == []
