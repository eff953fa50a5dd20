"""Agents that are woken when their process dies: what happened is heard once, and told once."""

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
from tests.crash.test_trigger_crash import begun, go_on, happen

one = begun(Path(sys.argv[1]))
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
    """Two agents below main that are woken; one acts before it answers."""
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


def begun(folder: Path) -> Stage:
    one = open_trigger_stage(folder, model(), time=FakeTime())
    if len(one.session.agents) == 1:
        one.ask("Make two.")
    return one


def happen(one: Stage) -> None:
    """Let something happen for all three."""
    for state in list(one.session.agents.values()):
        text = f"[event bell] it rings for {state.name}"
        piece = PieceOfText(agent_id=state.id, content=text, cause=state.birth, trigger="bell")
        one.session.append(piece)


async def go_on(one: Stage) -> Conversation:
    """Answer all that there is."""
    async with listen_to(one) as talk:
        if has_open_calls(talk.primary):
            await talk.say()
        while await talk.wait_for_unread(to_the_end=True):
            await talk.say()
    return talk


def check(one: Stage, expected: int = 3) -> None:
    """Check that all was heard, and every answer told to the parent, once."""
    pieces = [row["message_id"] for row in one.select_lines(trigger="bell")]
    heard = Counter(row["substance"] for row in one.select_lines(role="user") if "substance" in row)
    said = [
        row["message_id"]
        for name in ("Ann", "Bob")
        for row in one.select_lines(role="assistant", agent_id=one.id_of(name))
        if "tool_calls" not in row
    ]
    assert heard == Counter([*pieces, *said])
    assert len(pieces) == expected
    assert one.session.state.pending_reports == {}
    last = one.session.context(one.root.agent_id)[-1]
    assert last.role == "assistant"
    check_log(one.log)


def test_wherever_the_log_ends_all_is_heard_once_and_told_once(tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole")
    first = len(whole.log.read_bytes().splitlines()) + 3
    happen(whole)
    run(go_on(whole))
    check(whole)
    whole.session.close()
    lines = whole.log.read_bytes().splitlines(keepends=True)
    assert len(lines) - first > 15
    for end in range(first, len(lines)):
        folder = tmp_path / str(end)
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(b"".join(lines[:end]))
        cut = begun(folder)
        run(go_on(cut))
        check(cut)
        live = full_state(cut.session)
        cut.session.close()
        again = begun(folder)
        assert full_state(again.session) == live
        again.session.close()


@pytest.mark.req("S1-18")
@pytest.mark.parametrize("after", [3, 7])
def test_kill_9_while_something_is_unheard_loses_nothing(tmp_path: Path, after: int) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path), str(after)]
    died = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    one = begun(tmp_path)
    run(go_on(one))
    check(one)
