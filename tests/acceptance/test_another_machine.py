"""A machine dies in the middle of a review; on another one somebody goes on with all of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harken.context.materialize import make_resolver
from harken.core.commits import CommitId
from harken.core.events import LlmRequest
from harken.core.messages import ChatMessage, text_of
from harken.session.log.reader import iter_events
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.views.context import context
from tests.forks import processes
from tests.forks.processes import HARKEN

SCRIPT = """\
rules:
  - pattern: review parser
    answer: I read it first.
    calls: [{bash: {command: cat parser.py}}]
  - pattern: def parse
    answer: It fails on an empty line.
  - pattern: are you sure
    answer: I try it.
    calls: [{bash: {command: "echo $$ > running; exec sleep 60"}}]
  - pattern: what did you find
    answer: An empty line breaks it; I was about to try that.
"""


class Machine:
    """A home, a project, and what runs there."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        (folder / "script.yaml").write_text(SCRIPT)
        (self.project / "parser.py").write_text("def parse(line):\n    return line.split()[0]\n")
        self._model = f"scripted:{folder / 'script.yaml'}"

    def chat(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a chat in a process of its own."""
        options = ["--home", str(self.home), "--model", self._model, "--permission", "all"]
        return processes.start(
            [HARKEN, "chat", *arguments, *options],
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, *arguments: str) -> str:
        """Hold a chat; return what was answered."""
        with self.chat(*arguments) as chat:
            out, err = chat.communicate(timeout=60)
        assert chat.returncode == 0, err
        return out.strip()

    def dies_while(self, *arguments: str) -> None:
        """Begin a chat, and die while the command that it runs is running."""
        running = self.project / "running"
        with self.chat(*arguments) as chat:
            until = time.monotonic() + 60
            while not (running.exists() and running.read_text().endswith("\n")):
                assert chat.poll() is None, "the chat ended by itself"
                assert time.monotonic() < until, "the command was never run"
                time.sleep(0.01)
            chat.kill()
        os.kill(int(running.read_text()), signal.SIGKILL)

    def last(self) -> CommitId:
        """Return what was committed last."""
        store = SqliteStore(self.home / "store.db")
        assert fsck(store) == []
        [newest] = store.newest_commits(1)
        store.close()
        return newest


def first_request(machine: Machine) -> list[ChatMessage]:
    """Return what the model read first in the only session of a machine."""
    [log] = (machine.home / "sessions").glob("*.jsonl")
    all_ = list(iter_events(log))
    request = next(event for event in all_ if isinstance(event, LlmRequest))
    store = SqliteStore(machine.home / "store.db")
    messages = context(all_, request.message_id, resolver=make_resolver(store))
    store.close()
    assert messages.verified, "that is not what was sent"
    return [row.message for row in messages.messages]


@pytest.mark.req("S2-22", "S2-23", "S2-28", "D-03")
def test_review_continues_on_another_machine_after_a_crash(tmp_path: Path) -> None:
    mine = Machine(tmp_path / "mine")
    assert mine.ask("-p", "review parser.py") == "It fails on an empty line."
    mine.dies_while("--continue", "-p", "are you sure?")
    ctx = mine.last()

    other_machine = Machine(tmp_path / "other")
    other_machine.home.mkdir()
    for file in mine.home.glob("store.db*"):  # what SQLite has not put into its file yet, too
        shutil.copy(file, other_machine.home)
    shutil.rmtree(tmp_path / "mine")
    answer = other_machine.ask("--from-commit", ctx[:16], "-p", "what did you find?")
    assert answer == "An empty line breaks it; I was about to try that."

    system, *contents = first_request(other_machine)
    assert system.role == "system"
    assert [(message.role, without_place(text_of(message.content))) for message in contents] == [
        ("user", "review parser.py"),
        ("assistant", "I read it first."),
        ("tool", "exit code 0\ndef parse(line):\n    return line.split()[0]"),
        ("assistant", "It fails on an empty line."),
        ("user", "are you sure?"),
        ("assistant", "I try it."),
        ("tool", text_of(contents[6].content)),
        ("user", "what did you find?"),
    ]
    assert "interrupted before bash gave a result" in text_of(contents[6].content)
    store = SqliteStore(other_machine.home / "store.db")
    assert ctx in [commit.id for commit in store.chain(other_machine.last())]
    store.close()


def without_place(text: str) -> str:
    """Return the text of a result without the note that it ran in the sandbox, if there is one."""
    return text.strip().replace(" (in the sandbox)", "")
