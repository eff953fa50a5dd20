"""Crashes of agents woken by triggers: each event is delivered once and reported once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harken.agents.open_calls import has_open_calls
from harken.agents.turn.conversation import Conversation
from harken.core.events import PieceOfText
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    run,
    script_model,
)
from tests.trigger_kit import FakeTime, listen_to, open_trigger_stage

ROOT = Path(__file__).parents[2]
WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.crash.test_trigger_crash import begin_scene, go_on, happen

one = begin_scene(Path(sys.argv[1]))
left = int(sys.argv[2])

def die(event):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

one.session.add_listener(die)
happen(one)
asyncio.run(go_on(one))
"""


def model() -> ScriptModel:
    """Two woken agents below main; one acts before it answers."""
    look = call_message(call("triggers", "t1"))
    return script_model(
        main=[
            call_message(call("task", "c1", name="Ann"), call("task", "c2", name="Bob")),
            "Made.",
            *(f"I heard, {n}." for n in range(9)),
        ],
        Ann=[look, "Ann heard.", "Ann again."],
        Bob=["Bob heard.", "Bob again."],
    )


def begin_scene(folder: Path) -> Stage:
    scene = open_trigger_stage(folder, model(), time=FakeTime())
    if len(scene.session.agents) == 1:
        scene.ask("Make two.")
    return scene


def happen(scene: Stage) -> None:
    """Fire a trigger for all three agents."""
    for state in list(scene.session.agents.values()):
        text = f"[event bell] it rings for {state.name}"
        piece = PieceOfText(agent_id=state.id, content=text, cause=state.birth, trigger="bell")
        scene.session.append(piece)


async def go_on(scene: Stage) -> Conversation:
    """Answer all pending comments."""
    async with listen_to(scene) as talk:
        if has_open_calls(talk.primary):
            await talk.say()
        while await talk.wait_for_unread(to_the_end=True):
            await talk.say()
    return talk


def check(scene: Stage, expected: int = 3) -> None:
    """Check that all comments were delivered, and every answer reported to the parent, once."""
    pieces = [row["message_id"] for row in scene.select_lines(trigger="bell")]
    delivered = Counter(
        row["substance"] for row in scene.select_lines(role="user") if "substance" in row
    )
    reported = [
        row["message_id"]
        for name in ("Ann", "Bob")
        for row in scene.select_lines(role="assistant", agent_id=scene.id_of(name))
        if "tool_calls" not in row
    ]
    assert delivered == Counter([*pieces, *reported])
    assert len(pieces) == expected
    assert scene.session.state.pending_reports == {}
    last = scene.session.context(scene.root.agent_id)[-1]
    assert last.role == "assistant"
    check_log(scene.log)


def test_cut_anywhere_delivers_and_reports_everything_once(tmp_path: Path) -> None:
    full_scene = begin_scene(tmp_path / "whole")
    first = len(full_scene.log.read_bytes().splitlines()) + 3
    happen(full_scene)
    run(go_on(full_scene))
    check(full_scene)
    full_scene.session.close()
    lines = full_scene.log.read_bytes().splitlines(keepends=True)
    assert len(lines) - first > 15
    for end in range(first, len(lines)):
        folder = tmp_path / str(end)
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(b"".join(lines[:end]))
        cut_scene = begin_scene(folder)
        run(go_on(cut_scene))
        check(cut_scene)
        live = full_state(cut_scene.session)
        cut_scene.session.close()
        resumed_scene = begin_scene(folder)
        assert full_state(resumed_scene.session) == live
        resumed_scene.session.close()


@pytest.mark.req("S1-18")
@pytest.mark.parametrize("after", [3, 7])
def test_kill_9_with_an_undelivered_comment_loses_nothing(tmp_path: Path, after: int) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path), str(after)]
    died = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    scene = begin_scene(tmp_path)
    run(go_on(scene))
    check(scene)
