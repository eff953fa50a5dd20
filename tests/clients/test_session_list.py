"""How a client shows a written session before a resume."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harken.formats.runtimes.codex.writer import write_session
from harken.testing import plain_conversation
from tests.clients import kit
from tests.clients.conversations import new_session


@dataclass
class Server:
    """The Codex app server: each request and each answer is a line."""

    asks: IO[str]
    answers: IO[str]
    count: int = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Return its answer."""
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        self.asks.write(json.dumps(request) + "\n")
        self.asks.flush()
        for line in self.answers:
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer["result"]
        raise AssertionError(f"no answer to {method}")


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """Run the Codex server in a home."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": f"{home}/.codex"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    program = kit.lab() / "npm/codex/node_modules/.bin/codex"
    command = [str(program), "app-server"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **pipes) as process:
        assert process.stdin
        assert process.stdout
        server = Server(process.stdin, process.stdout)
        try:
            server.ask("initialize", clientInfo={"name": "test", "version": "1"})
            yield server
        finally:
            process.kill()


@kit.needs("codex")
def test_codex_lists_written_sessions_and_shows_the_conversation(tmp_path: Path) -> None:
    session = new_session(7)
    file = tmp_path / f".codex/sessions/2026/01/31/rollout-2026-01-31T12-00-00-{session.id}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(write_session(plain_conversation(), session))
    with serving(tmp_path) as server:
        (thread,) = server.ask("thread/list", limit=5)["data"]
        thread_read = server.ask("thread/read", threadId=session.id, includeTurns=True)
    assert (thread["id"], thread["preview"]) == (session.id, "Is somebody at the door?")
    thread_items = [item for turn in thread_read["thread"]["turns"] for item in turn["items"]]
    assert [item.get("text", "") for item in thread_items] == [
        "",
        "I look.",
        "Nobody is at the door, not even Jill.",
    ]
