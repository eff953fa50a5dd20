"""Watches: the agent that added a hook, its removal, and entries of smart hooks between."""

from pathlib import Path

import pytest

from harken.core.event_types.spec import AgentSpec, Copies
from harken.views.verdicts import Watch, verdicts
from harken.views.viewer import SessionViewer
from tests.agent_kit import Stage, call, call_message
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, sends
from tests.unit.agents.tree.test_hook_action import then


def watched(scene: Stage) -> list[Watch]:
    return SessionViewer(scene.log).watches()


def watch_rows(rows: list[Watch]) -> list[tuple[str | None, ...]]:
    return [(row.kind, row.how, row.hook_name, row.name, row.by_name) for row in rows]


@pytest.mark.req("S4-30", "S4-31", "S4-29")
def test_hook_places_change_in_all_ways(tmp_path: Path) -> None:
    hook_calls = call_message(
        call("hook", "h", name="second", instructions="Watch, too.", points=["response"])
    )
    task = call_message(call("task", name="kim", instructions="k", prompt="Go."))
    cast = Cast(
        main=then(task, call_message(call("endo", "e", subagent="kim"))),
        kim=lambda _: "Done.",
        first=always(hook_calls, "OK"),
        second=always(call_message(call("quit")), "OK"),
    )
    scene = guarded(tmp_path, cast)
    guard(
        scene,
        "first",
        points=["input"],
        tools=["hook"],
        spec=AgentSpec(copies=Copies(subagents=False)),
    )
    guard(scene, "other", points=[])
    scene.ask("Begin.")
    rows = watched(scene)
    assert watch_rows(rows) == [
        ("installed", "begun", "first", "main", None),
        ("installed", "begun", "other", "main", None),
        ("installed", "made", "second", "main", "first"),
        ("installed", "copied", "other", "kim", None),
        ("installed", "copied", "second", "kim", None),
        ("left", "quit", "second", "kim", "second"),
        ("installed", "copied", "first", "kim", None),
        ("installed", "copied", "second", "kim", None),  # a move does not remove the hook
        ("installed", "moved", "main", "kim", "main"),
    ]
    assert rows[2].instructions is not None
    assert rows[2].instructions.startswith("Watch, too.")
    assert rows[2].cause in {row["message_id"] for row in scene.select_lines(role="assistant")}


def test_hook_that_replaces_its_agent_no_longer_watches(tmp_path: Path) -> None:
    scene = guarded(
        tmp_path, Cast(main=lambda _: "Done.", guard=then(call_message(call("meta")), "Mine."))
    )
    guard(scene, points=["response"])
    scene.ask("Go.")
    assert watch_rows(watched(scene))[1:] == [("left", "moved", "guard", "main", "guard")]


@pytest.mark.req("S4-25", "S0-50", "S4-32")
def test_verdict_after_tools_notes_and_a_retry_answers_the_question(
    tmp_path: Path,
) -> None:
    acts = call_message(call("keep_note", "n", text="sent"), call("read_log", "r"))
    answers = always(acts, "I would not.", 'Rude.\n\n**REWRITE:** {"text": "please"}')
    scene = guarded(tmp_path, Cast(main=sends, guard=answers))
    guard(scene)
    scene.ask("Send.")
    scene.ask("Again.")
    rows = verdicts(SessionViewer(scene.log).events)
    assert [(row.kind, row.point, row.text) for row in rows] == [
        ("rewrite", "action", '{"text": "please"}')
    ] * 2
    for row in rows:
        assert row.proposed == 'send {"text":"hello"}'
        assert [outcome.text for outcome in row.outcomes] == ['send {"text": "please"}']
        assert scene.select_lines(message_id=row.question)[0]["content"].startswith(
            "[action] Agent main"
        )


@pytest.mark.req("S4-25")
def test_verdict_not_allowed_at_its_point_is_ignored(tmp_path: Path) -> None:
    scene = guarded(tmp_path, Cast(main=lambda _: "Done.", guard=always("DENY: no", "COMMENT: hm")))
    guard(scene, points=["input"])
    scene.ask("Go.")
    [row] = verdicts(SessionViewer(scene.log).events)
    assert (row.kind, row.text, row.point) == ("comment", "hm", "input")
    assert row.outcomes[0].text == "[hook guard]: hm"


@pytest.mark.req("S4-26")
def test_hook_without_a_clear_verdict_is_a_failure(tmp_path: Path) -> None:
    scene = guarded(tmp_path, Cast(main=sends, guard=always("Hm.", "Hm!")))
    guard(scene)
    scene.ask("Send.")
    [row] = verdicts(SessionViewer(scene.log).events)
    assert (row.kind, row.point) == ("failure", "action")
    assert row.outcomes[0].text.startswith("Error: Action blocked by hook 'guard'")
