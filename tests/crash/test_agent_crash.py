"""Agents whose process dies: no effect is repeated, no entry is lost, and they continue."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, FunctionModel, SessionOptions, load_session
from harken.agents.agent import get_agent
from harken.chat.demo_model import MODEL_NAME
from harken.cli.commands.demo import PROMPT, SYSTEM_PROMPT
from harken.cli.commands.demo import play as play_demo
from harken.core.messages import ToolCall
from harken.errors import InvalidLog, LogWriteError
from harken.llm.base import ModelRequest
from harken.session.log.checksum import has_more
from harken.session.verify import verify
from harken.testing import FailingDisk, Fault
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_context,
    check_log,
    fast_options,
    full_state,
    request_texts,
)
from tests.session_kit import fold_log, read_lines

ROOT = Path(__file__).parents[2]
WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from harken import FunctionModel, AgentRuntime as Runtime, LocalWorld, load_session, tool
from tests.agent_kit import call, call_message, check_context

folder, die_in, when, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]

def note(file, text):
    with open(folder / file, "a") as notes:
        notes.write(text + "\\n")

def die(n, moment):
    if (n, moment) == (die_in, when):
        os._exit(9) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)

@tool
def work(n: int) -> str:
    "Work."
    die(n, "before")
    note("effects", str(n))
    die(n, "after")
    return f"worked {n}"

def answer(request):
    note("asked", request.agent)
    check_context(request.messages)
    done = sum(message.role == "assistant" for message in request.messages)
    return call_message(call("work", f"c{done + 1}", n=done + 1)) if done < 10 else "All ten."

runtime = Runtime(model=FunctionModel(answer), world=LocalWorld([work]))
root, session = load_session(folder / "s.jsonl", runtime=runtime, name="main")
with session:
    print(asyncio.run(root.response(None if root.transcript else "Work.")))
"""


def worker(folder: Path, die_in: int, when: str = "after", how: str = "kill") -> tuple[int, str]:
    """Run the worker in its own process. Return its exit code and its output."""
    command = [sys.executable, "-c", WORKER, str(folder), str(die_in), when, how]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert result.returncode in {0, 9, -signal.SIGKILL}, result.stderr
    return result.returncode, result.stdout


def read_notes(folder: Path, file: str) -> list[str]:
    return (folder / file).read_text().split() if (folder / file).exists() else []


@pytest.mark.req("S0-32", "S4-04", "S0-34")
@pytest.mark.parametrize("how", ["kill", "exit"])
def test_ten_turns_survive_a_kill_after_the_effect_of_the_fifth(tmp_path: Path, how: str) -> None:
    code, _ = worker(tmp_path, 5, how=how)
    assert code != 0
    assert read_notes(tmp_path, "effects") == list("12345")
    assert worker(tmp_path, 0) == (0, "All ten.\n")
    assert read_notes(tmp_path, "effects") == [str(n) for n in range(1, 11)]
    assert len(read_notes(tmp_path, "asked")) == 11
    log = tmp_path / "s.jsonl"
    check_log(log)
    results = [line for line in read_lines(log) if line.get("role") == "tool"]
    assert [r["content"] for r in results if "is_error" not in r] == [
        f"worked {n}" for n in range(1, 11) if n != 5
    ]
    [flagged] = [r for r in results if "is_error" in r]
    assert flagged["tool_call_id"] == "c5"
    assert "may or may not have acted" in flagged["content"]


@pytest.mark.req("S0-32", "S4-04")
def test_repeated_kills_also_before_an_effect_are_survived(tmp_path: Path) -> None:
    for die_in, when in [(2, "before"), (4, "after"), (5, "before"), (10, "after")]:
        assert worker(tmp_path, die_in, when)[0] != 0
    assert worker(tmp_path, 0) == (0, "All ten.\n")
    assert read_notes(tmp_path, "effects") == [str(n) for n in range(1, 11) if n not in {2, 5}]
    assert len(read_notes(tmp_path, "asked")) == 11
    flagged = [r["tool_call_id"] for r in read_lines(tmp_path / "s.jsonl") if "is_error" in r]
    assert flagged == ["c2", "c4", "c5", "c10"]
    check_log(tmp_path / "s.jsonl")


# The cafe of `harken demo`, ended at every event


HELLO = "*smiles* Hello Jack, I'm Jill."
ADVICE = "Be friendly but not over-eager. A simple greeting with a smile."
FINAL = "Jack and Jill have met. Jill asked her inner voice first; Jack never heard it."
CALLS = {
    "Jack": call("task", "c1", name="Jack", instructions="You are Jack."),
    "Jill": call("task", "c2", name="Jill", instructions="You are Jill."),
    "Inner": call("task", "c4", name="Inner", instructions="You are Jill's inner voice."),
}


def missing(request: ModelRequest, *names: str) -> Iterator[ToolCall]:
    """Yield calls that create the subagents missing in the context."""
    text = "\n".join(request_texts(request))
    for name in names:
        if f"Created subagent: {name}" not in text and f"Subagent {name} was created" not in text:
            yield CALLS[name]


def plays(request: ModelRequest) -> Any:
    """Play the parts of the demo as a careful model that checks the existing state."""
    check_context(request.messages)
    text = "\n".join(request_texts(request))
    if request.agent == "main":
        for task_call in missing(request, "Jack", "Jill"):
            return call_message(task_call)
        if HELLO in text:
            return FINAL
        cafe = "You meet in a cafe. Introduce yourselves."
        return call_message(call("discuss", "c3", prompt=cafe, speakers=["Jack", "Jill"]))
    if request.agent == "Jill":
        for task_call in missing(request, "Inner"):
            return call_message(task_call)
        if ADVICE in text:
            return HELLO
        return call_message(call("discuss", "c5", prompt="What should I say?", speakers=["Inner"]))
    return ADVICE if request.agent == "Inner" else "Hi, I'm Jack. *extends hand*"


def go_on(log: Path) -> Stage:
    """Resume the demo. Send the prompt again if the crash came before it."""
    runtime = AgentRuntime(model=FunctionModel(plays, name=MODEL_NAME))
    root, session = load_session(
        log, runtime=runtime, system_prompt=SYSTEM_PROMPT, name="main", options=fast_options()
    )
    scene = Stage(root, session, runtime)
    assert scene.ask(None if scene.user_messages("main") else PROMPT) == FINAL
    return scene


def check_end(scene: Stage) -> None:
    """Check the final state, which is independent of the crash."""
    check_log(scene.log)
    for agent in scene.session.agents:
        if scene.session.state.is_live(agent):
            first = get_agent(scene.root, agent).transcript[0]
            assert (first["role"], bool(first["content"])) == ("system", True)
    assert list(scene.root.subagents) == ["Jack", "Jill"]
    assert list(scene.root.subagents["Jill"].subagents) == ["Inner"]
    for row in scene.select_lines(agent_id=scene.id_of("Jack")):
        assert ADVICE not in str(row.get("content"))
    live = full_state(scene.session)
    scene.session.close()
    assert fold_log(scene.log).describe() == live


def read_groups(data: bytes) -> bytes:
    """Return the complete groups at the beginning of a log."""
    lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
    while lines and has_more(lines[-1]):
        lines.pop()
    return b"".join(lines)


def demo_on(disk: FailingDisk, log: Path) -> bool:
    """Play the demo on a disk. Return whether it completed."""
    try:
        play_demo(log, fast_options(disk=disk))
    except LogWriteError:
        return False
    return True


@pytest.mark.req("S0-32", "S0-31", "S0-28", "S4-04")
@pytest.mark.parametrize("fault", ["EIO", "half", "late"])
def test_demo_completes_after_a_cut_anywhere(tmp_path: Path, fault: Fault) -> None:
    """`EIO`: an event was not written; `half`: it is torn; `late`: it was written before the
    end.
    """
    good_disk = FailingDisk(fail_at=10**6, fault=fault)
    assert demo_on(good_disk, tmp_path / "whole.jsonl")
    assert len(good_disk.operations) > 30
    for index, operation in enumerate(good_disk.operations):
        if operation != "write":
            continue
        log = tmp_path / f"{index}.jsonl"
        assert not demo_on(FailingDisk(fail_at=index, fault=fault), log)
        before = log.read_bytes()
        complete_groups = read_groups(before)
        if before and not complete_groups:  # a partial first line is not a session
            with pytest.raises(InvalidLog, match="start a new session"):
                go_on(log)
            continue
        scene = go_on(log)
        assert log.read_bytes().startswith(complete_groups)
        check_end(scene)


KILLED = """
import os, signal, sys
from pathlib import Path
from harken import SessionOptions
from harken.cli.commands.demo import play
from harken.session.log.file import RealDisk

class Deadly(RealDisk):
    left = int(sys.argv[2])
    def write(self, fd, data):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)

play(Path(sys.argv[1]), SessionOptions(disk=Deadly()))
"""


@pytest.mark.req("S0-32", "S0-31")
@pytest.mark.parametrize("writes", [1, 2, 7, 12, 17, 22, 27, 32])
def test_demo_completes_after_a_real_kill(tmp_path: Path, writes: int) -> None:
    log = tmp_path / "demo.jsonl"
    command = [sys.executable, "-c", KILLED, str(log), str(writes)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert verify(log) == []
    assert sum("more" not in line for line in read_lines(log)) == writes
    check_end(go_on(log))


def test_careful_model_completes_the_demo(tmp_path: Path) -> None:
    """The baseline of the tests above: without a crash, both models give the same answers."""
    log = tmp_path / "demo.jsonl"
    runtime = AgentRuntime(model=FunctionModel(plays, name=MODEL_NAME))
    root, session = load_session(
        log, runtime=runtime, system_prompt=SYSTEM_PROMPT, name="main", options=fast_options()
    )
    assert Stage(root, session, runtime).ask(PROMPT) == FINAL
    check_end(Stage(root, session, runtime))
    assert play_demo(tmp_path / "scripted.jsonl", SessionOptions(durability="none")) == FINAL

    def read_contents(path: Path) -> Sequence[Any]:
        return [
            (line["agent_id"], line.get("content"))
            for line in read_lines(path)
            if line.get("role") == "assistant" and "content" in line
        ]

    assert read_contents(log) == read_contents(tmp_path / "scripted.jsonl")
    assert json.loads(log.read_bytes().splitlines()[0])["event_type"] == "session_started"
