"""Commands that fail, hang, flood or stay: each is one clear line, and nothing breaks."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from harken.agents.open_calls import has_open_calls
from tests.agent_kit import Stage, call, call_message, check_log, raw_call, run
from tests.unit.agents.command_hooks.command_kit import commanded, on, said
from tests.unit.world.shell.test_shell import is_alive, read_pids


def guarded(tmp_path: Path, line: str, notices: list[str] | None = None, **more: Any) -> Stage:
    section = on("PreToolUse", line, **more)
    act = call_message(call("bash", command="echo hi"))
    one = commanded(tmp_path, section, notices=notices, main=[act, "Done."])
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def is_run(one: Stage) -> bool:
    return bool(one.result()["content"] == "exit code 0\nhi\n")


FAILURES = {
    "echo oops >&2; exit 1": "exit code 1: oops",
    "kill -9 $$": "exit code -9",
    "/no/such/program": "exit code 127: ",
    "sleep 60": "did not finish within 0.3 s and was ended",
    "echo '{\"decision\": '": "its output starts like JSON, but is not valid JSON",
    """echo '{"decision": "perhaps"}'""": "unknown decision 'perhaps'",
    """echo '{"decision": ["block"]}'""": "unknown decision",
    """echo '{"continue": 0}'""": "continue is neither true nor false",
    """echo '{"hookSpecificOutput": []}'""": "hookSpecificOutput is not an object",
    """echo '{"hookSpecificOutput": {"hookEventName": "Stop"}}'""": "hookEventName is 'Stop'",
}


def patience(line: str) -> dict[str, Any]:
    """Return how long a command may take: only what hangs, which a slow machine does not."""
    return {"timeout": 0.3} if line == "sleep 60" else {}


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_is_one_line_and_stops_nothing(tmp_path: Path, line: str) -> None:
    notices: list[str] = []
    one = guarded(tmp_path, line, notices, **patience(line))
    assert is_run(one)
    noted, verdict = said(one)
    assert noted.startswith(f"[command] {line}: ")
    assert FAILURES[line] in noted
    assert "\n" not in noted
    assert verdict == "OK"
    assert len(notices) == 1


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_blocks_where_the_entry_says_so(tmp_path: Path, line: str) -> None:
    one = guarded(tmp_path, line, onFailure="block", **patience(line))
    assert not is_run(one)
    assert FAILURES[line] in one.result()["content"]


def test_an_end_is_not_blocked_by_a_failure(tmp_path: Path) -> None:
    section = on("Stop", "exit 1", onFailure="block")
    one = commanded(tmp_path, section, main=["Done."])
    assert one.ask("Go.") == "Done."


def test_what_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    one = guarded(tmp_path, f"sleep 61 & echo $! > {tmp_path}/pid; wait", timeout=2)
    assert is_run(one)
    assert not any(map(is_alive, read_pids(tmp_path / "pid")))


def test_a_cancelled_command_is_ended(tmp_path: Path) -> None:
    line = f"sleep 63 & echo $! > {tmp_path}/pid; wait"
    one = commanded(tmp_path, on("UserPromptSubmit", line), main=["Yes."])

    async def cancel() -> None:
        asking = asyncio.create_task(one.root.response("Go."))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    run(cancel())
    assert not any(map(is_alive, read_pids(tmp_path / "pid")))
    one = one.resume()
    assert has_open_calls(one.root)


def test_what_stays_in_the_background_is_noted_and_lives(tmp_path: Path) -> None:
    began = time.monotonic()
    one = guarded(tmp_path, f"sleep 62 & echo $! > {tmp_path}/pid")
    assert time.monotonic() - began < 40
    assert is_run(one)
    assert "left something running in the background" in said(one)[0]
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_an_asynchronous_command_is_left_alone(tmp_path: Path) -> None:
    began = time.monotonic()
    line = f"cat > {tmp_path}/told; sleep 0.5; echo no >&2; touch {tmp_path}/end; exit 2"
    more: dict[str, Any] = {"async": True}
    one = guarded(tmp_path, line, **more)
    assert is_run(one)
    assert said(one) == ["OK"]
    while not (tmp_path / "end").exists():
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    assert '"PreToolUse"' in (tmp_path / "told").read_text()


def test_what_is_no_json_is_heard_where_text_is(tmp_path: Path) -> None:
    one = commanded(tmp_path, on("UserPromptSubmit", "echo '{not JSON'"), main=["Yes."])
    one.ask("Go.")
    assert one.user_messages("main")[1] == "[hook claude-hooks]: {not JSON"


def test_a_flood_is_ended(tmp_path: Path) -> None:
    one = guarded(tmp_path, "yes")
    assert is_run(one)
    assert "wrote more than 10,000,000 bytes and was ended" in said(one)[0]


def test_a_long_speech_is_cut(tmp_path: Path) -> None:
    line = "head -c 50000 /dev/zero | tr '\\0' x"
    one = commanded(tmp_path, on("UserPromptSubmit", line), main=["Yes."])
    one.ask("Go.")
    heard = one.user_messages("main")[1]
    assert heard.endswith("\n[cut: 50,000 characters]")
    assert len(heard) < 10_100


def test_who_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    content = "x" * 500_000
    act = call_message(call("write", path="a", content=content))
    one = commanded(tmp_path, on("PreToolUse", "exec true"), main=[act, "Done."])
    one.ask("Go.")
    assert said(one) == ["OK"]
    assert (tmp_path / "desk/a").read_text() == content


def test_what_is_no_text_is_told_all_the_same(tmp_path: Path) -> None:
    line = "printf 'no \\377 text' >&2; exit 2"
    one = guarded(tmp_path, line)
    assert one.result()["content"].endswith("no \ufffd text")


def test_without_a_reason_a_no_names_the_command(tmp_path: Path) -> None:
    one = guarded(tmp_path, "exit 2")
    assert one.result()["content"].endswith(": exit 2 says no, and not why")


def test_a_program_is_run_without_a_shell(tmp_path: Path) -> None:
    program = tmp_path / "a program"
    program.write_text('#!/bin/sh\necho "[$1] [$2]" >&2\nexit 2\n')
    program.chmod(0o700)
    one = guarded(tmp_path, str(program), args=["$HOME;", "${CLAUDE_PROJECT_DIR}"])
    assert one.result()["content"].endswith(f": [$HOME;] [{tmp_path}/desk]")


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    one = guarded(tmp_path, "/no/such", args=[])
    assert said(one)[0] == "[command] /no/such: cannot be started: No such file or directory"


def test_arguments_that_are_no_object_are_told_as_none(tmp_path: Path) -> None:
    line = "grep -q '\"tool_input\":{}' || exit 2"
    act = call_message(raw_call("bash", "[1"))
    one = commanded(tmp_path, on("PreToolUse", line), main=[act, "Done."])
    one.ask("Go.")
    assert said(one) == ["OK"]
