"""A server that is stopped in the middle of a turn leaves sessions that go on anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harken.session.verify import verify
from tests.cli.kit import HARKEN
from tests.cli.ui_kit import Page
from tests.cli.ui_run_kit import Runs, write_script
from tests.forks import processes
from tests.session_kit import read_lines


class Server:
    """`harken ui` as a process, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], page: Page) -> None:
        self.process, self.page, self.runs = process, page, Runs(page)

    def stop(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(40)


@contextmanager
def serve(home: Path) -> Iterator[Server]:
    """Run `harken ui` until the end of the block."""
    with processes.start(
        [HARKEN, "ui", "--no-open", "--port", "0", "--home", home],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HARKEN_HOME": str(home)},
    ) as process:
        assert process.stdout is not None
        address, _, fragment = process.stdout.readline().strip().partition("/#token=")
        page = Page(address, token=fragment)
        try:
            yield Server(process, page)
        finally:
            page.close()
            process.kill()


def read_texts(home: Path) -> list[tuple[str, Any]]:
    """Return roles and contents of the entries of the first agent."""
    rows = read_lines(home / "sessions" / "tea.jsonl")
    return [
        (row["role"], row.get("content"))
        for row in rows
        if row["event_type"] == "transcript_entry" and row["agent_id"] == "agent_001"
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_turn_that_the_end_of_the_server_cut_off_goes_on_in_a_chat(
    tmp_path: Path, number: int
) -> None:
    home, model = tmp_path / "home", write_script(tmp_path)
    with serve(home) as server:
        server.runs.start(model=model, folder=str(tmp_path), name="tea")
        server.runs.ask("tea", "hello")
        server.runs.send("tea", "touch it")
        server.runs.wait_question("tea")
        assert server.stop(number) == 0
    log = home / "sessions" / "tea.jsonl"
    verify(log)
    before = read_texts(home)
    assert [text for role, text in before if role == "user"] == ["hello", "touch it"]
    assert read_lines(log)[-1]["event_type"] == "session_ended"
    ran = processes.run(
        [HARKEN, "chat", "--resume", "tea", "--permission", "all", "-p", "", "--home", home],
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, b"Done.\n"), ran.stderr
    assert (tmp_path / "made.txt").exists()
    after = read_texts(home)
    assert after[: len(before)] == before
    assert [text for role, text in after if role == "user"] == ["hello", "touch it"]
    verify(log)


def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    home, model = tmp_path / "home", write_script(tmp_path)
    with serve(home) as server:
        server.runs.start(model=model, folder=str(tmp_path), name="tea")
        server.runs.send("tea", "slow")
        log = home / "sessions" / "tea.jsonl"
        deadline = time.monotonic() + 20
        while '"llm_request"' not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.stop(signal.SIGKILL)
    with serve(home) as server:
        runs = server.runs
        assert runs.find("tea") is None
        row = runs.start(session="tea")
        assert row["agents"][0]["can_continue"]
        runs.ask("tea", "hello")
        heard = [text for label, text in runs.said("tea") if label == "Heard"]
        assert [text for text in heard if "slow" in text] == ["slow"]
        assert runs.said("tea")[-1] == ("Said", "Hi there.")
        assert server.stop(signal.SIGTERM) == 0
    assert json.loads(log.read_text().splitlines()[-1])["event_type"] == "session_ended"
    verify(log)
