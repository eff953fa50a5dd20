"""Watches: who put a hook where, and when it left; and what smart hooks said in between."""

from pathlib import Path

import pytest

from harken.views.verdicts import Watch, verdicts
from harken.views.viewer import SessionViewer
from tests.agent_kit import Stage, call, call_message
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, sends
from tests.unit.agents.tree.test_hook_action import then


def watched(one: Stage) -> list[Watch]:
    return SessionViewer(one.log).watches()


def told(rows: list[Watch]) -> list[tuple[str | None, ...]]:
    return [(row.kind, row.how, row.hook_name, row.name, row.by_name) for row in rows]


@pytest.mark.req("S4-30", "S4-31", "S4-29")
def test_all_ways_in_which_a_hook_comes_and_goes(tmp_path: Path) -> None:
    made = call_message(
        call("hook", "h", name="second", instructions="Watch, too.", points=["response"])
    )
    task = call_message(call("task", name="kim", instructions="k", prompt="Go."))
    cast = Cast(
        main=then(task, call_message(call("endo", "e", subagent="kim"))),
        kim=lambda _: "Done.",
        first=always(made, "OK"),
        second=always(call_message(call("quit")), "OK"),
    )
    one = guarded(tmp_path, cast)
    guard(one, "first", points=["input"], tools=["hook"], subagents=False)
    guard(one, "other", points=[])
    one.ask("Begin.")
    rows = watched(one)
    assert told(rows) == [
        ("installed", "begun", "first", "main", None),
        ("installed", "begun", "other", "main", None),
        ("installed", "made", "second", "main", "first"),
        ("installed", "copied", "other", "kim", None),
        ("installed", "copied", "second", "kim", None),
        ("left", "quit", "second", "kim", "second"),
        ("installed", "copied", "first", "kim", None),
        ("installed", "copied", "second", "kim", None),  # a move is no way out from under a hook
        ("installed", "moved", "main", "kim", "main"),
    ]
    assert rows[2].instructions is not None
    assert rows[2].instructions.startswith("Watch, too.")
    assert rows[2].cause in {row["message_id"] for row in one.select_lines(role="assistant")}


def test_who_takes_the_place_of_whom_it_watched_watches_no_longer(tmp_path: Path) -> None:
    one = guarded(
        tmp_path, Cast(main=lambda _: "Done.", guard=then(call_message(call("meta")), "Mine."))
    )
    guard(one, points=["response"])
    one.ask("Go.")
    assert told(watched(one))[1:] == [("left", "moved", "guard", "main", "guard")]


@pytest.mark.req("S4-25", "S0-50", "S4-32")
def test_a_verdict_after_tools_notes_and_a_second_try_is_that_on_the_question(
    tmp_path: Path,
) -> None:
    acts = call_message(call("keep_note", "n", text="sent"), call("read_log", "r"))
    said = always(acts, "I would not.", 'Rude.\n\n**REWRITE:** {"text": "please"}')
    one = guarded(tmp_path, Cast(main=sends, guard=said))
    guard(one)
    one.ask("Send.")
    one.ask("Again.")
    rows = verdicts(SessionViewer(one.log).events)
    assert [(row.kind, row.point, row.text) for row in rows] == [
        ("rewrite", "action", '{"text": "please"}')
    ] * 2
    for row in rows:
        assert row.proposed == 'send {"text":"hello"}'
        assert [outcome.text for outcome in row.outcomes] == ['send {"text": "please"}']
        assert one.select_lines(message_id=row.question)[0]["content"].startswith(
            "[action] Agent main"
        )


@pytest.mark.req("S4-25")
def test_a_verdict_that_the_point_does_not_have_is_not_the_verdict(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=lambda _: "Done.", guard=always("DENY: no", "COMMENT: hm")))
    guard(one, points=["input"])
    one.ask("Go.")
    [row] = verdicts(SessionViewer(one.log).events)
    assert (row.kind, row.text, row.point) == ("comment", "hm", "input")
    assert row.outcomes[0].text == "[hook guard]: hm"


@pytest.mark.req("S4-26")
def test_a_hook_that_stayed_unclear_is_a_failure_of_that_question(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=always("Hm.", "Hm!")))
    guard(one)
    one.ask("Send.")
    [row] = verdicts(SessionViewer(one.log).events)
    assert (row.kind, row.point) == ("failure", "action")
    assert row.outcomes[0].text.startswith("Error: Action blocked by hook 'guard'")
