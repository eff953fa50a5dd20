"""Event-driven agents: what happens outside wakes them, in the log when it happens, in all views."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import tool
from harken.core.events import PieceOfText
from harken.core.ids import AgentId
from harken.experiments.replay.check import check
from harken.session.log.reader import iter_events as read
from harken.views.viewer import SessionViewer
from tests.agent_kit import Stage, call, call_message, check_log, full_state, run, script_model
from tests.trigger_kit import listen_to, open_trigger_stage

SAID = "I'll reload the data and notify the main agent."
HEARD = "[event data] changed: data.json"
TASK = call("task", "c1", name="Watcher", prompt="Watch data.json.")
WATCH = call("wake_me", "c2", name="data", files=["data.json"])


def watched(folder: Path) -> Stage:
    """Let a subagent watch a file, which somebody changes, and the user hear of it."""
    (folder / "work").mkdir()
    (folder / "work" / "data.json").write_text("{}")
    model = script_model(
        main=[call_message(TASK), "The watcher watches.", "The data has changed."],
        Watcher=[call_message(WATCH), "I watch.", SAID],
    )
    stage = open_trigger_stage(folder, model)

    async def act() -> None:
        async with listen_to(stage) as talk:
            assert await talk.say("Watch the data.") == "The watcher watches."
            (folder / "work" / "data.json").write_text('{"tea": 1}')
            assert await talk.wait_for_unread()
            assert await talk.say() == "The data has changed."

    run(act())
    return stage


@pytest.mark.req("S0-54", "S1-18")
def test_example_4_a_file_changes_and_the_watching_agent_responds(tmp_path: Path) -> None:
    stage = watched(tmp_path)
    watcher = stage.id_of("Watcher")
    [piece] = stage.select_lines(event_type="piece_of_text", trigger="data")
    [armed] = [
        row
        for row in stage.select_lines(agent_id=watcher, role="assistant")
        if row.get("tool_calls")
    ]
    assert (piece["agent_id"], piece["content"], piece["cause"]) == (
        watcher,
        HEARD,
        armed["message_id"],
    )
    received, answer_row = [row for row in stage.select_lines(agent_id=watcher) if "role" in row][
        -2:
    ]
    assert (received["role"], received["content"], received["substance"]) == (
        "user",
        HEARD,
        piece["message_id"],
    )
    assert (answer_row["role"], answer_row["content"]) == ("assistant", SAID)
    notification, answer = [
        row for row in stage.select_lines(agent_id="agent_001") if "role" in row
    ][-2:]
    assert (notification["role"], notification["content"]) == ("user", f"[Watcher]: {SAID}")
    assert notification["substance"] == answer_row["message_id"]
    assert answer["content"] == "The data has changed."
    check_log(stage.log)
    live = full_state(stage.session)
    assert full_state(stage.resume().session) == live


@pytest.mark.req("S1-18")
def test_all_views_show_the_event_and_its_effects(tmp_path: Path) -> None:
    stage = watched(tmp_path)
    stage.session.close()
    viewer = SessionViewer(stage.log)
    dialog = [item["content"] for item in viewer.extract_dialog(["main", "Watcher"])]
    assert dialog[-3:] == [HEARD, SAID, "The data has changed."]
    perspective = viewer.extract_agent_perspective("Watcher")
    assert HEARD in perspective
    assert SAID in perspective
    [piece] = [event for event in viewer.events if isinstance(event, PieceOfText) and event.trigger]
    flow = [
        (row["agent_id"], row.get("content")) for row in viewer.trace_message_flow(piece.message_id)
    ]
    assert (viewer.resolve_agent("Watcher"), HEARD) in flow
    assert HEARD in str(viewer.timeline())


@pytest.mark.req("S1-18")
def test_an_agent_without_a_parent_is_woken_by_a_command_that_ends(tmp_path: Path) -> None:
    build = call("run_in_background", name="build", command="echo built")
    stage = open_trigger_stage(
        tmp_path, script_model(main=[call_message(build), "Building.", "It is built."])
    )

    async def act() -> list[str]:
        async with listen_to(stage) as talk:
            answers = [str(await talk.say("Build."))]
            while await talk.wait_for_unread(to_the_end=True):
                answers.append(str(await talk.say()))
            return answers

    assert run(act()) == ["Building.", "It is built."]


def test_a_session_with_events_can_be_played_again(tmp_path: Path) -> None:
    for name in ("idle", "busy"):
        (tmp_path / name).mkdir()
    idle, busy = watched(tmp_path / "idle"), in_a_turn(tmp_path / "busy")
    for row in (idle, busy):
        row.session.close()
        report = check(read(row.log))
        assert report.difference is None, report.difference
        assert report.notes == ()


def in_a_turn(folder: Path) -> Stage:
    """Let something happen while a tool runs, and something else between two turns."""
    stages: list[Stage] = []

    def ring() -> None:
        state = stages[0].session.agents[AgentId("agent_001")]
        text = "[event bell] it rings"
        piece = PieceOfText(agent_id=state.id, content=text, cause=state.birth, trigger="bell")
        stages[0].session.append(piece)

    @tool
    async def work() -> str:
        """Work while the bell rings."""
        ring()
        return "worked"

    model = script_model(main=[call_message(call("work")), "I heard it.", "Again."])
    stage = open_trigger_stage(folder, model, tools=[work])
    stages.append(stage)
    stage.ask("Work.")
    ring()
    assert stage.ask() == "Again."
    return stage
