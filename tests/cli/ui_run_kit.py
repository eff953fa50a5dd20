"""Sessions that the server of the page runs, with a scripted model, and a client that waits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.cli.ui_kit import Page

LONG_COMMAND = "true " + "1234567 " * 9000 + "the end \x1b[;. ./made"
"""A command that is longer than a text in an answer of the viewer."""
SCRIPT = """\
rules:
  - agent: Ann
    pattern: Coffee
    answer: Coffee is fine, too.
  - agent: Ann
    answer: Tea.
  - pattern: "^hello"
    answer: Hi there.
  - pattern: "^make Ann"
    calls: [{task: {name: Ann, instructions: You are Ann., prompt: "Tea or coffee?"}}]
  - pattern: "^slow"
    answer: one two three four five six seven eight nine ten eleven twelve
    delay_s: 60
  - pattern: "^wait"
    answer: one two three four five six
    delay_s: 1.5
  - pattern: "^long"
    calls: [{bash: {command: LONG_COMMAND}}]
  - pattern: "^touch"
    calls: [{bash: {command: "touch made.txt"}}]
  - pattern: "^hide"
    calls: [{bash: {command: "true \\e[;. ./made\\u009b>0m"}}]
  - pattern: "^ask"
    calls: [{ask_user: {question: "Which tea?", options: [green, black]}}]
  - pattern: "^fail"
    error: the key is not valid
  - pattern: "green"
    answer: You said green.
  - answer: Done.
""".replace("LONG_COMMAND", json.dumps(LONG_COMMAND))


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The name of a scripted model."""
    return write_script(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def write_script(folder: Path) -> str:
    """Write the script of the model; return the name of the model."""
    file = folder / "script.yaml"
    file.write_text(SCRIPT)
    return f"scripted:{file}"


class Runs:
    """The routes of runs, and waiting for states."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def start(self, **options: Any) -> Any:
        """Run a session; return its row."""
        response = self.page.post("/api/runs", options)
        assert response.status_code == 201, response.text
        return response.json()["run"]

    def send(self, name: str, text: str | None, agent: str | None = None, id_: str = "") -> Any:
        """Send a message; return the row."""
        body = {"id": id_ or uuid4().hex, "agent": agent, "text": text}
        return self.do(name, "messages", body)

    def do(self, name: str, action: str, body: object) -> Any:
        """Do something with a run; return the row."""
        response = self.page.post(f"/api/runs/{quote(name, safe='')}/{action}", body)
        assert response.status_code < 300, response.text
        return response.json()["run"]

    def find(self, name: str) -> Any:
        """Return the row of a run, or None."""
        return self.page.session(name)["run"]

    def wait(self, name: str, condition: Callable[[Any], Any]) -> Any:
        """Wait until the row meets a condition; return what the condition returns."""
        deadline = time.monotonic() + 30
        while not (result := condition(self.find(name))):
            assert time.monotonic() < deadline, self.find(name)
            time.sleep(0.02)
        return result

    def wait_idle(self, name: str) -> Any:
        """Wait until no turn runs."""
        return self.wait(
            name, lambda row: row if not any(agent["is_running"] for agent in row["agents"]) else 0
        )

    def wait_question(self, name: str) -> Any:
        """Wait for a question; return its row."""
        return self.wait(name, lambda row: row["questions"] and row["questions"][0])

    def ask(self, name: str, text: str | None, agent: str | None = None) -> Any:
        """Send a message, and wait for the end of the turn."""
        self.send(name, text, agent)
        return self.wait_idle(name)

    def texts(self, name: str, agent: str = "agent_001") -> list[tuple[str, str]]:
        """Return the labels and first texts of the items of an agent."""
        rows = []
        for item in self.page.all_items(name, agent):
            part = item["parts"][0]
            rows.append((item["label"], part.get("text") or part.get("name") or ""))
        return rows

    def said(self, name: str, agent: str = "agent_001") -> list[tuple[str, str]]:
        """Return the labels and texts of what the agent heard and said."""
        return [row for row in self.texts(name, agent) if row[0] in ("Heard", "Said")]
