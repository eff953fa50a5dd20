"""Agents above and below: what the log and its views say when places change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken import AgentRuntime, Conversation, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.llm.base import ModelRequest
from harken.session.log.reader import iter_events
from harken.views.timeline import timeline
from harken.views.tree import tree
from harken.views.verdicts import verdicts
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    run,
    script_model,
)


def agency(folder: Path, **parts: Sequence[ScriptedAnswer]) -> Stage:
    """Return a stage whose agents have all actions."""
    model = script_model(**parts)
    runtime = AgentRuntime(
        model=model, policy=ActionPolicy(actions=ACTIONS), world=LocalWorld(folder=folder)
    )
    return open_stage(folder, model, runtime=runtime)


def say(stage: Stage, text: str) -> str:
    return str(run(Conversation(stage.root).say(text)))


def places(stage: Stage) -> list[tuple[str, int, str]]:
    """Return the tree as the view shows it, without those who are gone."""
    rows = tree(iter_events(stage.log))
    return [(row.name, row.depth, row.place) for row in rows if not row.gone]


@pytest.mark.req("S0-20", "S4-46")
def test_every_change_of_place_is_an_event_with_its_call_as_cause(tmp_path: Path) -> None:
    stage = agency(
        tmp_path,
        main=[
            call_message(call("task", "c1", name="pupil", instructions="You know nothing.")),
            call_message(call("hook", "c2", name="guard", instructions="Watch.", points=["input"])),
            call_message(
                call("endo", "c3", subagent="pupil", prompt="Ask why.", points=["response"])
            ),
            "OK",
            call_message(call("meta", "c4")),
            call_message(call("talk_with", "c5", name="pupil")),
        ],
        guard=["OK"] * 9,
        pupil=["Why?", "I see."],
    )
    assert say(stage, "Teach me.") == "Why?"
    assert places(stage) == [
        ("pupil", 0, "primary"),
        ("main", 1, "hook"),
        ("guard", 2, "hook"),
        ("guard", 1, "hook"),
    ]
    assert say(stage, "Because.") == "[moved] pupil answers now"
    assert places(stage)[0] == ("pupil", 0, "primary")
    moves = stage.select_lines(event_type="agent_moved")
    created = {
        c["id"]: r["message_id"]
        for r in stage.select_lines(role="assistant")
        for c in r.get("tool_calls", ())
    }
    assert [(m["place"], m["replaced_as"], m["cause"]) for m in moves] == [
        ("primary", "hook", created["c3"]),
        ("primary", "subagent", created["c4"]),
        ("primary", "hook", created["c5"]),
    ]
    births = [(r["name"], r["relation"]) for r in stage.select_lines(event_type="agent_created")]
    assert births == [
        ("main", "primary"),
        ("pupil", "subagent"),
        ("guard", "hook"),
        ("guard", "hook"),
    ]
    check_log(stage.log)


@pytest.mark.req("S4-39", "S4-38")
def test_teacher_steers_a_pupil_unseen_and_returns(tmp_path: Path) -> None:
    """Socratic: the user hears the pupil; what the teacher says stands in the pupil's context."""

    def teacher(request: ModelRequest) -> ScriptedAnswer:
        text = request_texts(request)[-1]
        if "[response]" in text and "Is it heavy?" in text:
            return call_message(call("meta", "c9"))
        return "COMMENT: Ask about weight." if text.startswith("[input]") else "OK"

    stage = agency(
        tmp_path,
        main=[
            call_message(call("task", "c1", name="pupil", instructions="You know nothing.")),
            call_message(
                call("endo", "c2", subagent="pupil", prompt="Begin.", points=["input", "response"])
            ),
            *[teacher] * 4,
            "Well taught.",
        ],
        pupil=["What falls?", "Is it heavy?"],
    )
    assert say(stage, "Teach me.") == "What falls?"
    assert say(stage, "A stone.") == "Well taught."
    assert "[hook main]: Ask about weight." in stage.user_messages("pupil")
    rows = verdicts(iter_events(stage.log))
    assert [(v.hook_name, v.kind, v.name) for v in rows] == [
        ("main", "comment", "pupil"),
        ("main", "ok", "pupil"),
        ("main", "comment", "pupil"),
    ]
    assert [outcome.text for outcome in rows[0].outcomes] == ["[hook main]: Ask about weight."]
    assert places(stage) == [("main", 0, "primary"), ("pupil", 1, "subagent")]
    assert {mark.turn for mark in timeline(iter_events(stage.log)).marks} == {0, 1, 2}
    check_log(stage.log)


@pytest.mark.req("S4-30")
def test_hook_needs_a_grant_to_create_hooks(
    tmp_path: Path,
) -> None:
    stage = agency(
        tmp_path,
        main=[
            call_message(
                call(
                    "hook",
                    "c1",
                    name="short",
                    instructions="Answers are short.",
                    points=["response"],
                ),
                call(
                    "hook",
                    "c2",
                    name="maker",
                    instructions="Make hooks.",
                    points=[],
                    tools=["hook"],
                ),
            ),
            "A long answer.",
            "Short.",
        ],
        short=["DENY: too long", "OK"],
    )

    def judges(request: ModelRequest) -> ScriptedAnswer:
        return "DENY: too long" if "A long answer" in request_texts(request)[-1] else "OK"

    stage.set_answers(short=[judges] * 3)
    assert say(stage, "Go.") == "Short."
    short, maker = sorted(stage.root.hooks, key=lambda hook: hook.name != "short")
    assert ("hook" in short.tools, "hook" in maker.tools) == (False, True)  # type: ignore[attr-defined]
    assert (short.hooks, maker.hooks) == ([], [])
    assert [v.kind for v in verdicts(iter_events(stage.log))] == ["denial", "ok"]


@pytest.mark.req("S4-53")
def test_answer_can_be_the_instructions_of_an_agent_or_hook(
    tmp_path: Path,
) -> None:
    def written(request: ModelRequest) -> ScriptedAnswer:
        text = request_texts(request)[-1]
        return call_message(
            call("task", "c2", name="poet", instructions=text, prompt="Write."),
            call("hook", "c3", name="critic", instructions=text, points=["response"]),
        )

    stage = agency(
        tmp_path,
        main=[
            call_message(
                call("task", "c1", name="author", instructions="Write prompts.", prompt="A poet.")
            ),
            written,
            "Done.",
        ],
        author=["Only rhymes count."],
        poet=["Roses."],
        critic=["OK"],
    )
    assert say(stage, "Go.") == "Done."
    [poet] = stage.select_lines(role="system", agent_id=stage.id_of("poet"))
    critic, _duty = stage.select_lines(role="system", agent_id=stage.id_of("critic"))
    assert poet["content"] == "Only rhymes count."
    assert critic["content"] == "Only rhymes count."
    assert stage.result("c2")["content"] == "Roses."


@pytest.mark.req("S4-50")
def test_participants_are_notified_of_each_other(tmp_path: Path) -> None:
    people = [
        call("task", f"t{name}", name=name, instructions=f"You are {name}.")
        for name in ("Ann", "Ben", "Eve")
    ]
    stage = agency(
        tmp_path,
        main=[
            call_message(*people),
            call_message(
                call("introduce", "c1", speakers=["Ann", "Ben"], listeners=["Eve"]),
                call("discuss", "c2", prompt="Begin."),
            ),
            "Done.",
        ],
        Ann=["I am Ann."],
        Ben=["I am Ben."],
    )
    assert say(stage, "Go.") == "Done."
    assert stage.result("c1")["content"] == "Introduced. Who speaks: Ann, Ben. Who listens: Eve."
    assert stage.result("c2")["content"] == "[Ann]: I am Ann.\n\n[Ben]: I am Ben."
    first = "You are {}, and take part in a discussion that main leads. "
    prefix = (
        " What they say reaches you as `[NAME]: ...`, and your answers reach them so: do not "
        "begin them with your name."
    )
    assert [stage.user_messages(name)[0] for name in ("Ann", "Eve")] == [
        first.format("Ann") + "Who else speaks: Ben. Who only listens: Eve." + prefix,
        first.format("Eve") + "Who else speaks: Ann, Ben. Who only listens: nobody." + prefix,
    ]
    assert stage.user_messages("Eve")[1:] == ["Begin.", "[Ann]: I am Ann.", "[Ben]: I am Ben."]
    check_log(stage.log)


@pytest.mark.req("S4-45", "S4-48", "S4-49")
def test_agent_actions_equal_user_commands(tmp_path: Path) -> None:
    """Dump, restore, clone, talk with: a whole life, by calls alone, as the log and its tree say."""
    stage = agency(
        tmp_path,
        main=[
            call_message(
                call("task", "c1", name="aide", instructions="Remember.", prompt="The key is 7.")
            ),
            call_message(
                call("dump", "c2", path="aide.json", name="aide"),
                call("terminate", "c3", name="aide"),
                call("restore", "c4", path="aide.json", name="again"),
                call("clone", "c5", name="again", as_name="twin"),
                call("endo", "c6", subagent="again", prompt="The key?"),
            ),
            call_message(call("quit", "c7")),
            "OK",
        ],
        aide=["Noted."],
        again=["", "It is 7."],
    )
    assert say(stage, "Go.") == "It is 7."
    assert places(stage) == [("again", 0, "primary")]
    removed = [(row.name, row.place) for row in tree(iter_events(stage.log)) if row.gone]
    assert removed == [("main", "hook"), ("aide", "subagent"), ("twin", "subagent")]
    check_log(stage.log)
    resumed = stage.resume()
    assert run(Conversation(resumed.root).say("Still there?")) == "[again has no line 2]"
