"""`harken run`: clients that are programs of a few lines, which print what real ones have printed."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.store.base import StoredCommit
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, one_line
from tests.forks import processes
from tests.unit.capture.live.client_lines import METRIC, SESSION, Stream, use, words
from tests.unit.formats.transcript_kit import Transcript, text_block

QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)
BYE = b"Bye.\n"


@dataclass
class Client:
    """A client of a few lines, and what is around it."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "harken"

    def script(self, name: str, text: str) -> None:
        """Write the program."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def lines(self, name: str, stream: Stream) -> str:
        """Write lines into a file; return the command that prints them."""
        path = self.folder / name
        path.write_bytes(stream.data)
        stream.lines.clear()
        return f"cat '{path}'"

    def environ(self, **more: str) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{HARKEN.parent}:{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
        home = {"HOME": str(self.folder), "HARKEN_HOME": str(self.home)}
        return {**kept, **home, "PATH": path, **more}

    def start(self, *command: str, **more: Any) -> subprocess.Popen[bytes]:
        environ = self.environ(**more.pop("environ", {}))
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return processes.start(
            [HARKEN, "run", *command], cwd=self.folder, env=environ, **{**streams, **more}
        )

    def run(self, *command: str, stdin: bytes = b"", **more: Any) -> tuple[int, bytes, bytes]:
        """Return exit code, output and errors."""
        process = self.start(*command, stdin=subprocess.PIPE, **more)
        out, err = process.communicate(stdin, timeout=60)
        return process.returncode, out, err

    def commits(self) -> list[StoredCommit]:
        """Return all commits, the oldest first."""
        store = SqliteStore(self.home / "store.db")
        try:
            return [store.commits([name])[name] for name in store.newest_commits(100)][::-1]
        finally:
            store.close()

    def said(self, ctx: str) -> list[str]:
        store = SqliteStore(self.home / "store.db")
        try:
            messages = materialize(store, CommitId(ctx)).messages
            return [f"{one.role}: {text_of(one.content)}" for one in messages]
        finally:
            store.close()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def conversation() -> Stream:
    stream = Stream()
    stream.init()
    stream.answer("msg_1", use("t1", command="ls"))
    stream.result("t1", "a")
    stream.answer("msg_2", words("Bye."))
    stream.end()
    return stream


def a_run(client: Client, code: int = 0) -> None:
    """Make a `claude` that says a conversation."""
    client.script("claude", f"{client.lines('lines', conversation())}\nexit {code}")


@pytest.mark.req("S2-31", "S2-37")
def test_words_are_shown_events_are_committed_and_the_exit_code_is_the_clients(
    client: Client,
) -> None:
    client.script(
        "claude",
        f"printf '%s\\n' \"$@\" > args\n{client.lines('lines', conversation())}\n"
        "echo careful >&2\nexit 7",
    )
    assert client.run("--", "claude", "-p", "Hello") == (7, BYE, b"careful\n")
    asked = (client.folder / "args").read_text().split("\n")
    assert asked[:-1] == ["-p", "Hello", "--output-format", "stream-json", "--verbose"]
    commits = client.commits()
    assert [one.commit.message_count for one in commits] == [2, 2, 0]
    assert {one.commit.session_id for one in commits} == {f"claude:{SESSION}"}
    assert client.said(commits[-1].id) == [
        "user: Hello",
        "assistant: ",
        "tool: a",
        "assistant: Bye.",
    ]


def test_what_was_asked_for_as_json_is_the_last_event_and_events_are_as_they_are(
    client: Client,
) -> None:
    a_run(client)
    data = (client.folder / "lines").read_bytes()
    code, out, _ = client.run("claude", "-p", "--output-format", "json", "Hello")
    assert (code, json.loads(out)) == (0, {**METRIC, "session_id": SESSION})
    events = ["--output-format", "stream-json", "--verbose"]
    assert client.run("claude", "-p", *events, "Hello") == (0, data, b"")


@pytest.mark.req("S2-38")
def test_claude_is_told_to_be_quiet_unless_somebody_says_otherwise(client: Client) -> None:
    client.script("claude", "env > environ")
    client.run("claude", "-p", "x", environ={"DISABLE_TELEMETRY": "0"})
    told = dict(
        line.partition("=")[::2] for line in (client.folder / "environ").read_text().splitlines()
    )
    assert [told[name] for name in QUIET] == ["1", "0", "1"]
    assert told["HARKEN_CONTEXT_SOCKET"].endswith(".sock")
    client.script("codex", "env > environ")
    client.run("codex", "exec", "x")
    assert not any(name in (client.folder / "environ").read_text() for name in QUIET)


@pytest.mark.req("S2-39", "S2-37")
def test_a_tool_of_the_client_learns_the_commit_of_the_answer_that_called_it(
    client: Client,
) -> None:
    stream = Stream()
    stream.init()
    stream.answer("msg_1", use("t1", command="harken context current"))
    before = client.lines("before", stream)
    stream.result("t1", "")
    stream.answer("msg_2", words("Bye."))
    stream.end()
    after = client.lines("after", stream)
    ask = f"'{sys.executable}' -m harken context current"
    ask = f"for i in 1 2 3 4 5; do {ask} > told; test -s told && break; done"  # a busy machine
    client.script("claude", f"{before}\n{ask}\n{after}")
    assert client.run("claude", "-p", "--no-session-persistence", "Ask.")[:2] == (0, BYE)
    told = (client.folder / "told").read_text().strip()
    assert told == client.commits()[0].id
    assert client.said(told) == ["user: Ask.", "assistant: "]


def test_what_the_client_writes_down_itself_is_what_is_committed(client: Client) -> None:
    session = Transcript(session=SESSION)
    session.user("Is the cafe open?")
    session.answer(text_block("It is."))
    session.user("Really?")
    session.answer(text_block("Bye."))
    (client.folder / "transcript").write_bytes(session.data)
    folder = ".claude/projects/-cafe"
    written = f"mkdir -p {folder}\ncp transcript {folder}/{SESSION}.jsonl"
    client.script("claude", f"{written}\n{client.lines('lines', conversation())}")
    assert client.run("claude", "-p", "x") == (0, BYE, b"")
    commits = client.commits()
    # The transcript was written before the run; its outcome is in the output of the client.
    assert [one.commit.checkpoint for one in commits] == ["import", "import", "session_end"]
    assert commits[-1].notes.summary == "success, 2 turns, $0.2500"
    assert len(client.said(commits[-1].id)) == 4
    imported = processes.run(
        [HARKEN, "import"], env=client.environ(), capture_output=True, check=True
    )
    assert b"0 new commits" in imported.stdout
    assert client.commits() == commits


def test_a_client_whose_output_nobody_reads_is_followed_by_its_file(client: Client) -> None:
    def line(kind: str, **payload: Any) -> str:
        record = {"timestamp": "2026-01-31T12:00:00.000Z", "type": kind, "payload": payload}
        return json.dumps(record) + "\n"

    def item(role: str, words: str) -> str:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": words}]
        return line("response_item", type="message", role=role, content=content)

    meta = line("session_meta", id=SESSION, cwd=str(client.folder), timestamp="2026-01-31T12:00Z")
    rollout = meta + item("user", "Hi") + item("assistant", "Bye.")
    (client.folder / "rollout").write_text(rollout)
    (client.folder / "other").write_text(rollout.replace(str(client.folder), "/elsewhere"))
    folder = ".codex/sessions/2026/01/31"
    client.script(
        "codex",
        f"mkdir -p {folder}; cp rollout {folder}/rollout-1.jsonl; cp other {folder}/rollout-2.jsonl"
        "\ntest -t 0 || cat",
    )
    assert client.run("codex", "exec", "x", stdin=b"as it is\n") == (0, b"as it is\n", b"")
    (only,) = client.commits()
    assert only.commit.principal == f"codex:{SESSION}"
    assert client.said(only.id) == ["user: Hi", "assistant: Bye."]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_client_and_its_end_is_ours(client: Client, number: int) -> None:
    client.script(
        "claude",
        f"trap 'echo got; exit 5' {number}\n{client.lines('lines', conversation())}\n"
        "touch ready\nwhile :; do sleep 0.05; done",
    )
    process = client.start("claude", "-p", "--output-format", "stream-json", "--verbose")
    wait_for(client.folder / "ready")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 5
    assert out.endswith(b"got\n")
    assert len(client.commits()) == 3


def test_a_client_that_a_signal_ends_gives_the_code_that_a_shell_gives(client: Client) -> None:
    client.script("claude", "kill -KILL $$")
    assert client.run("claude", "-p", "x")[0] == 128 + signal.SIGKILL


def test_a_store_that_refuses_is_told_once_and_the_client_goes_on(client: Client) -> None:
    a_run(client, code=3)
    client.home.write_text("no folder")
    code, out, err = client.run("claude", "-p", "x")
    assert (code, out) == (3, BYE)
    assert "the recording of this run is incomplete: " in one_line(err.decode())


def test_who_reads_the_output_may_leave(client: Client) -> None:
    client.script("claude", "i=0; while echo $i 2>/dev/null; do i=$((i+1)); done; touch left")
    process = client.start("claude", "-p", "--output-format", "stream-json", "--verbose")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    process.wait(60)
    assert process.stderr is not None
    with process.stderr:
        assert b"harken:" not in process.stderr.read()


def test_a_client_that_makes_the_output_it_shares_not_wait_loses_nothing(client: Client) -> None:
    lines = "".join(f"line {number:090}\n" for number in range(4000))
    (client.folder / "many").write_text(lines)
    client.script(
        "claude",
        f"'{sys.executable}' -c 'import os; os.set_blocking(2, False)'\n"
        f"cat '{client.folder / 'many'}'\ntouch ready\nexit 3",
    )
    process = client.start("claude", "-p", "x", stderr=subprocess.STDOUT)
    time.sleep(0.5)  # nobody reads: what holds the output is full
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.decode()) == (3, lines)


def test_output_that_cannot_be_written_is_told_and_is_no_success(client: Client) -> None:
    a_run(client)
    with Path("/dev/full").open("wb") as full:
        code, _, err = client.run("claude", "-p", "x", stdout=full)
    assert code == 1
    assert one_line(err.decode()) == "output write failed: No space left on device"
    assert len(client.commits()) == 3


def test_what_harken_was_told_to_ignore_the_client_ignores(client: Client) -> None:
    client.script("claude", "kill -HUP $$; kill -INT $$; echo still here")
    ignores = f"trap '' HUP INT; exec '{HARKEN}' run claude -p x"
    ran = in_shell(client, ignores)
    assert (ran.returncode, ran.stdout) == (0, b"still here\n")


def test_without_input_and_output_a_client_runs_and_is_recorded(client: Client) -> None:
    a_run(client, code=4)
    closed = f"exec '{HARKEN}' run claude -p x <&- >&-"
    ran = in_shell(client, closed)
    assert (ran.returncode, ran.stderr) == (4, b"")
    assert len(client.commits()) == 3


def test_what_a_client_leaves_running_does_not_hold_the_end(client: Client) -> None:
    a_run(client)
    script = (client.folder / "bin" / "claude").read_text()
    (client.folder / "bin" / "claude").write_text(script.replace("exit", "sleep 50 & exit"))
    began = time.monotonic()
    process = client.start("claude", "-p", "x", stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == BYE
    assert process.wait(40) == 0
    assert time.monotonic() - began < 40


def test_events_are_added_to_a_file_as_they_happen(client: Client) -> None:
    a_run(client)
    client.run("--events", "events", "claude", "-p", "x")
    lines = (client.folder / "events").read_text().splitlines()
    types = [json.loads(line)["type"] for line in lines]
    assert types == ["system", "tool_call", "tool_result", "response", "metric"]


def test_what_cannot_be_run_says_so_and_ends_as_in_a_shell(client: Client) -> None:
    code, _, err = client.run("claude", "-p", "x", environ={"PATH": str(client.folder)})
    assert code == 127
    assert one_line(err.decode()).startswith(
        "Claude Code is not installed: `claude` not found in PATH; install it with `npm install -g "
    )
    (client.folder / "bin").mkdir()
    (client.folder / "bin" / "claude").write_text("no program")
    (client.folder / "bin" / "claude").chmod(0o644)
    code, _, err = client.run(str(client.folder / "bin" / "claude"), "-p", "x")
    assert (code, b"Permission denied" in err) == (126, True)
    code, _, err = client.run("cat", "-p")
    assert code == 2
    assert "client 'cat' not found" in one_line(err.decode())


def test_in_a_terminal_the_client_has_it_and_a_typed_interrupt_reaches_it_once(
    client: Client,
) -> None:
    client.script(
        "claude",
        "n=0; trap 'n=$((n+1))' INT\ntest -t 0 && test -t 1 && test -t 2 && echo terminal\n"
        "touch ready\nwhile [ ! -e stop ]; do sleep 0.05; done\necho interrupts: $n",
    )
    ours, theirs = pty.openpty()
    process = client.start(
        "claude",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(theirs)
    wait_for(client.folder / "ready")
    os.write(ours, b"\x03")
    time.sleep(0.3)
    (client.folder / "stop").touch()
    assert process.wait(60) == 0
    out = b""
    while b"interrupts" not in out:
        out += os.read(ours, 4096)
    os.close(ours)
    assert b"terminal\r\n" in out
    assert b"interrupts: 1\r\n" in out


def in_shell(client: Client, line: str) -> subprocess.CompletedProcess[bytes]:
    words = ["/bin/sh", "-c", line]
    return subprocess.run(
        words, cwd=client.folder, env=client.environ(), capture_output=True, check=False
    )


def take_terminal() -> None:
    """Make what stands at the input the terminal of this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
