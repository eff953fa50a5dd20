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
    one = open_trigger_stage(folder, model)

    async def act() -> None:
        async with listen_to(one) as talk:
            assert await talk.say("Watch the data.") == "The watcher watches."
            (folder / "work" / "data.json").write_text('{"tea": 1}')
            assert await talk.wait_for_unread()
            assert await talk.say() == "The data has changed."

    run(act())
    return one


@pytest.mark.req("S0-54", "S1-18")
def test_example_4_a_file_changes_and_the_watching_agent_responds(tmp_path: Path) -> None:
    one = watched(tmp_path)
    watcher = one.id_of("Watcher")
    [piece] = one.select_lines(event_type="piece_of_text", trigger="data")
    [armed] = [
        row for row in one.select_lines(agent_id=watcher, role="assistant") if row.get("tool_calls")
    ]
    assert (piece["agent_id"], piece["content"], piece["cause"]) == (
        watcher,
        HEARD,
        armed["message_id"],
    )
    heard, said = [row for row in one.select_lines(agent_id=watcher) if "role" in row][-2:]
    assert (heard["role"], heard["content"], heard["substance"]) == (
        "user",
        HEARD,
        piece["message_id"],
    )
    assert (said["role"], said["content"]) == ("assistant", SAID)
    told, answer = [row for row in one.select_lines(agent_id="agent_001") if "role" in row][-2:]
    assert (told["role"], told["content"]) == ("user", f"[Watcher]: {SAID}")
    assert told["substance"] == said["message_id"]
    assert answer["content"] == "The data has changed."
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


@pytest.mark.req("S1-18")
def test_every_view_shows_what_happened_and_what_came_of_it(tmp_path: Path) -> None:
    one = watched(tmp_path)
    one.session.close()
    viewer = SessionViewer(one.log)
    dialog = [item["content"] for item in viewer.extract_dialog(["main", "Watcher"])]
    assert dialog[-3:] == [HEARD, SAID, "The data has changed."]
    perspective = viewer.extract_agent_perspective("Watcher")
    assert HEARD in perspective
    assert SAID in perspective
    [piece] = [event for event in viewer.events if getattr(event, "trigger", None)]
    flow = [
        (row["agent_id"], row.get("content")) for row in viewer.trace_message_flow(piece.message_id)
    ]
    assert (viewer.resolve_agent("Watcher"), HEARD) in flow
    assert HEARD in str(viewer.timeline())


@pytest.mark.req("S1-18")
def test_an_agent_without_a_parent_is_woken_by_a_command_that_ends(tmp_path: Path) -> None:
    build = call("run_in_background", name="build", command="echo built")
    one = open_trigger_stage(
        tmp_path, script_model(main=[call_message(build), "Building.", "It is built."])
    )

    async def act() -> list[str]:
        async with listen_to(one) as talk:
            said = [str(await talk.say("Build."))]
            while await talk.wait_for_unread(to_the_end=True):
                said.append(str(await talk.say()))
            return said

    assert run(act()) == ["Building.", "It is built."]


def test_a_session_with_events_can_be_played_again(tmp_path: Path) -> None:
    for name in ("idle", "busy"):
        (tmp_path / name).mkdir()
    idle, busy = watched(tmp_path / "idle"), in_a_turn(tmp_path / "busy")
    for one in (idle, busy):
        one.session.close()
        checked = check(read(one.log))
        assert checked.difference is None, checked.difference
        assert checked.notes == ()


def in_a_turn(folder: Path) -> Stage:
    """Let something happen while a tool runs, and something else between two turns."""
    held: list[Stage] = []

    def ring() -> None:
        state = held[0].session.agents[AgentId("agent_001")]
        text = "[event bell] it rings"
        piece = PieceOfText(agent_id=state.id, content=text, cause=state.birth, trigger="bell")
        held[0].session.append(piece)

    @tool
    async def work() -> str:
        """Work while the bell rings."""
        ring()
        return "worked"

    model = script_model(main=[call_message(call("work")), "I heard it.", "Again."])
    one = open_trigger_stage(folder, model, tools=[work])
    held.append(one)
    one.ask("Work.")
    ring()
    assert one.ask() == "Again."
    return one
