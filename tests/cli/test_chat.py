"""`harken chat`: one prompt or many, new sessions and old ones."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harken.core.messages import Message
from harken.session.session import Session, SessionOptions, build_entry
from harken.session.verify import verify
from tests.cli.kit import HARKEN, Cli, one_line, start
from tests.forks import processes


def rows(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def said(log: Path) -> list[tuple[str, str]]:
    """Return role and text of all entries but the system prompts."""
    entries = [row for row in rows(log) if row["event_type"] == "transcript_entry"]
    return [(row["role"], row.get("content", "")) for row in entries if row["role"] != "system"]


@pytest.mark.req("S1-05")
def test_a_new_session_is_a_new_file_that_begins_with_the_session_and_the_roots_birth(
    cli: Cli, script: str
) -> None:
    ran = cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    assert re.fullmatch(r"session_\d{8}_\d{6}\.jsonl", log.name)
    assert ran.out == "Hi there.\n"
    assert ran.err == f"Session {log}\n"
    first, second, *_ = rows(log)
    assert (first["event_type"], first["session_id"]) == ("session_started", log.stem)
    assert (second["event_type"], second["name"]) == ("agent_created", "main")
    assert "cause" not in second


@pytest.mark.req("S1-05")
def test_resume_restores_the_session_and_says_so(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    before = log.read_bytes()
    for arguments in (["--resume", log.stem], ["--resume", log], ["--continue"]):
        ran = cli.ok("chat", *arguments, "-p", "hello")
        assert ran.err == f"Session resumed from {log}\n"
    assert cli.sessions() == [log]
    assert log.read_bytes().startswith(before)
    assert said(log) == [("user", "hello"), ("assistant", "Hi there.")] * 4
    births = [row["name"] for row in rows(log) if row["event_type"] == "agent_created"]
    assert births == ["main", "changed-files"]


def test_continue_means_the_session_that_was_written_last(demo: Cli, script: str) -> None:
    demo.ok("chat", "--model", script, "-p", "hello")
    os.utime(demo.home / "sessions" / "demo.jsonl", (2e9, 2e9))
    assert "demo.jsonl" in demo.ok("chat", "--continue", "-p", "go on").err


def test_a_resumed_session_may_get_another_model(demo: Cli, script: str) -> None:
    assert demo.ok("chat", "--resume", "demo", "--model", script, "-p", "hello").out == (
        "Hi there.\n"
    )
    row = demo.ok("view", "demo", "tree", "--json").json[0]
    assert row["language_model"] == script


def test_json_is_one_object_an_answer(cli: Cli, script: str) -> None:
    ran = cli.ok("chat", "--model", script, "-p", "make Ann", "--json")
    assert ran.out.count("\n") == 1
    [log] = cli.sessions()
    answer = next(row for row in rows(log) if row.get("content") == "Ann wants tea.")
    row = ran.json
    assert row.pop("seconds") >= 0
    assert row == {
        "session": log.stem,
        "agent": "agent_001",
        "message_id": answer["message_id"],
        "text": "Ann wants tea.",
        "stop_reason": None,
        "model": script,
        "usage": {},
        "cost_usd": None,
    }


def test_json_says_what_the_whole_turn_used(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "counting.yaml"
    counted = "usage: {input_tokens: 10, output_tokens: 2, cache_read_tokens: 4}"
    script.write_text(
        "rules:\n"
        "- {pattern: make Ann, calls: [{task: {name: Ann, prompt: Tea}}], usage: {input_tokens: 1}}\n"
        f"- {{answer: Tea., {counted}}}\n"
    )
    ran = cli.ok("chat", "--model", f"scripted:{script}", "-p", "make Ann", "--json")
    assert ran.json["usage"] == {"input_tokens": 21, "output_tokens": 4, "cache_read_tokens": 8}
    assert ran.json["cost_usd"] is None


def test_a_prompt_may_be_piped_in(tmp_path: Path, script: str) -> None:
    ran = start(tmp_path, "chat", "--model", script, "-p", "-", stdin="well,\nhello\n")
    assert (ran.returncode, ran.stdout) == (0, b"Hi there.\n")
    [log] = (tmp_path / "sessions").glob("*.jsonl")
    assert said(log)[0] == ("user", "well,\nhello\n")


def test_options_that_make_no_sense_are_refused(cli: Cli, script: str) -> None:
    refused = cli.refused("chat", "--model", script, "--permission", "maybe", "-p", "hello")
    assert "'maybe' is not one of 'ask', 'edits', 'all', 'plan'" in refused
    refused = cli.refused("chat", "--model", script, "--allow", "/no/such/folder", "-p", "hello")
    assert "does not exist" in refused
    assert cli.sessions() == []


@pytest.mark.req("S1-06")
def test_the_chat_reads_prompts_answers_each_and_logs_all(tmp_path: Path, script: str) -> None:
    ran = start(tmp_path, "chat", "--model", script, stdin="hello\n\nmake Ann\nhello")
    assert ran.returncode == 0
    assert ran.stdout == b"Hi there.\nAnn wants tea.\nHi there.\n"
    assert b"\x1b" not in ran.stdout + ran.stderr  # no colours in a pipe
    [log] = (tmp_path / "sessions").glob("*.jsonl")
    own = [pair for pair in said(log) if pair[1] in {"hello", "make Ann", "Hi there."}]
    assert own == [
        ("user", "hello"),
        ("assistant", "Hi there."),
        ("user", "make Ann"),
        ("user", "hello"),
        ("assistant", "Hi there."),
    ]
    assert verify(log) == []


def test_a_failed_model_call_is_told_and_the_chat_goes_on(tmp_path: Path, script: str) -> None:
    ran = start(tmp_path, "chat", "--model", script, "--json", stdin="what?\nhello\n")
    assert ran.returncode == 1  # a script that pipes its lines in learns that one failed
    failed, answered = map(json.loads, ran.stdout.splitlines())
    assert (failed["session"], failed["why"]) == (answered["session"], "failed")
    assert "no rule for answer 1 of main to 'what?'" in failed["error"]
    assert answered["text"] == "Hi there."
    assert b"no rule for answer 1 of main to 'what?'" in ran.stderr
    assert b"an empty line continues" in ran.stderr


def test_a_failed_model_call_is_exit_code_1_and_the_session_goes_on_after_it(
    cli: Cli, script: str
) -> None:
    path = Path(script.removeprefix("scripted:"))
    ran = cli("chat", "--model", script, "-p", "what?")
    assert (ran.code, ran.out) == (1, "")
    began, failed = ran.err.splitlines(keepends=True)
    assert began.startswith("Session ")
    assert "no rule for answer 1 of main to 'what?'" in one_line(failed)
    path.write_text(path.read_text() + "  - {pattern: what, answer: That.}\n")
    assert cli.ok("chat", "--continue", "-p", "").out == "That.\n"
    assert said(cli.sessions()[0]) == [("user", "what?"), ("assistant", "That.")]


def test_json_says_why_there_is_no_answer(cli: Cli, script: str) -> None:
    ran = cli("chat", "--model", script, "-p", "what?", "--json")
    assert ran.code == 1
    assert ran.json["session"] == cli.sessions()[0].stem
    assert ran.json["why"] == "failed"
    assert ran.json["error"] in ran.err


def test_actions_that_were_refused_as_nobody_could_be_asked_are_counted(
    cli: Cli, tmp_path: Path
) -> None:
    script = tmp_path / "acting.yaml"
    script.write_text(
        "rules:\n"
        "  - {pattern: write, calls: [{write: {path: a, content: x}}, {bash: {command: 'true > b'}}]}\n"
        "  - {pattern: '.*', answer: Done.}\n"
    )
    ran = cli.ok("chat", "--model", f"scripted:{script}", "-p", "write")
    assert ran.out == "Done.\n"
    assert ran.err.splitlines()[1:] == [
        "2 actions were refused: no user to ask for approval; see --permission"
    ]


def test_something_must_be_said(cli: Cli, script: str) -> None:
    assert "needs a prompt" in cli.refused("chat", "--model", script, "-p", " ")
    assert cli.sessions() == []
    cli.ok("chat", "--model", script, "-p", "hello")
    before = said(cli.sessions()[0])
    ran = cli("chat", "--continue", "-p", "")
    assert ran.code == 2
    assert "there is no interrupted turn" in ran.err
    assert said(cli.sessions()[0]) == before


def test_texts_that_are_no_unicode_are_kept(tmp_path: Path, script: str) -> None:
    odd = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8:strict"}
    ran = start(tmp_path, "chat", "--model", script, stdin=b"hello \xff\n", **odd)
    assert (ran.returncode, ran.stdout) == (0, b"Hi there.\n"), ran
    [log] = (tmp_path / "sessions").glob("*.jsonl")
    assert said(log)[0] == ("user", "hello \udcff")


def test_a_terminal_that_knows_few_letters_is_enough(tmp_path: Path) -> None:
    ran = start(tmp_path, "demo", PYTHONUTF8="0", PYTHONIOENCODING="ascii:strict")
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.req("S1-09")
def test_a_session_of_thousands_of_messages_loads_and_shows_whole(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    with Session(log, options=SessionOptions(durability="none")) as session:
        root = session.agent("agent_001").id
        for number in range(3000):
            session.append(build_entry(root, Message("user", f"question {number}")))
            session.append(build_entry(root, Message("assistant", f"answer {number}")))
    assert cli.ok("chat", "--continue", "-p", "hello").out == "Hi there.\n"
    assert cli.sessions() == [log]  # no rotation
    entries = cli.ok("view", log, "transcript", "main", "--json").json
    assert len(entries) == 6000 + 5
    marks = cli.ok("view", log, "timeline", "--json").json["marks"]
    assert len(marks) == len(rows(log))
    perspective = cli.ok("view", log, "perspective", "main").out
    assert "[Said]: answer 0\n" in perspective
    assert "[Said]: answer 2999\n" in perspective


class Terminal:
    """`harken chat` at a terminal."""

    def __init__(self, home: Path, model: str) -> None:
        self.master, slave = pty.openpty()
        self.process = processes.start(
            [HARKEN, "chat", "--model", model, "--home", home],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(slave)
        self.sessions = home / "sessions"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, event_type: str, count: int = 1) -> None:
        """Wait until the log holds so many of these events."""
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(ValueError):
                [log] = self.sessions.glob("*.jsonl")
                if log.read_text().count(f'"event_type":"{event_type}"') >= count:
                    return
            time.sleep(0.01)
        raise AssertionError(f"no {event_type}: {self.process.poll()}")

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=20)
        os.close(self.master)
        return self.process.returncode, out.decode(), err.decode()


def test_ctrl_c_cuts_a_turn_off_and_the_chat_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "slow.yaml"
    script.write_text("rules:\n- {pattern: slow, answer: a, delay_s: 60}\n- {answer: At once.}\n")
    chat = Terminal(tmp_path, f"scripted:{script}")
    chat.type("slow\n")
    chat.wait_for("llm_request")
    chat.process.send_signal(signal.SIGINT)
    chat.wait_for("llm_response")
    chat.type("quick\n")
    chat.wait_for("llm_response", 2)
    chat.type("\x04")
    code, out, err = chat.end()
    assert code == 0
    assert "At once." in out
    assert "Interrupted" in err


def test_ctrl_c_at_the_prompt_ends_the_chat(tmp_path: Path, script: str) -> None:
    chat = Terminal(tmp_path, script)
    chat.type("hello\n")
    chat.wait_for("llm_response")
    time.sleep(0.2)
    chat.process.send_signal(signal.SIGINT)
    code, _, err = chat.end()
    assert code == 130
    [log] = chat.sessions.glob("*.jsonl")
    resume, interrupted = [line for line in err.splitlines() if line][-2:]
    assert resume.startswith("session recorded; resume with: ")
    assert f" chat --resume {log.stem} --home " in resume
    assert interrupted == "harken: interrupted"


def test_interrupted_prompt_prints_the_command_that_resumes_it(tmp_path: Path) -> None:
    script = tmp_path / "slow.yaml"
    script.write_text("rules:\n- {answer: a, delay_s: 60}\n")
    home = tmp_path / "home"
    model = f"scripted:{script}"
    process = processes.start(
        [HARKEN, "chat", "--home", home, "--model", model, "--name", "tea", "-p", "slow"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = home / "sessions" / "tea.jsonl"
    until = time.monotonic() + 20
    while not (log.exists() and '"llm_request"' in log.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    resume, interrupted = [line for line in err.splitlines() if line][-2:]
    assert resume.startswith("session recorded; resume with: ")
    assert resume.endswith(f" chat --resume tea --home {home}")
    assert interrupted == "harken: interrupted"


def test_a_recorded_session_is_replayed_with_its_own_system_prompt(
    cli: Cli, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual prompt tells folder and day, which are others when it is replayed."""
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert cli.ok("chat", "--model", f"replay:{log.stem}", "-p", "hello").out == "Hi there.\n"


def test_a_turn_that_never_ends_is_stopped_and_can_go_on(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "loop.yaml"
    script.write_text("rules:\n  - turn: 4\n    answer: Done.\n  - calls: [{ls: {}}]\n")
    chat = ("chat", "--model", f"scripted:{script}", "--permission", "all")
    ran = cli(*chat, "--max-calls", "3", "-p", "go")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        "harken: 3 model calls in one turn without an answer: the turn was stopped; see --max-calls"
    )
    ran = cli.ok("chat", "--continue", "--max-calls", "3", "-p", "")  # a turn of its own
    assert ran.out == "Done.\n"


def test_the_limit_is_for_each_agent_and_an_answer_is_never_cut_off(
    cli: Cli, tmp_path: Path
) -> None:
    script = tmp_path / "ann.yaml"
    script.write_text(
        "rules:\n  - agent: main\n    turn: 1\n"
        "    calls: [{task: {name: Ann, instructions: You are Ann., prompt: Tea}}]\n"
        "  - agent: Ann\n    turn: 1\n    calls: [{ls: {}}]\n  - answer: Tea.\n"
    )
    chat = ("chat", "--model", f"scripted:{script}", "--max-calls", "2", "-p", "go")
    assert cli.ok(*chat).out == "Tea.\n"
