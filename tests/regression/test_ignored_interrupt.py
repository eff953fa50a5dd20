"""Ctrl-C where the shell had started the program with SIGINT ignored, as with `&` and `nohup`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.terminal.kit import CTRL_C, CTRL_D, ENTER, HARKEN, Terminal

IGNORING = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
SCRIPT = """\
rules:
  - pattern: '^slow'
    answer: First and second and third.
    delay_s: 60
"""
CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_ctrl_c_stops_a_turn_of_a_chat_that_inherited_an_ignored_interrupt(tmp_path: Path) -> None:
    """A chat of plain lines was started by a shell that ignored SIGINT.

    Python installs no handler then, and Ctrl-C did nothing.
    Now a chat at a terminal can be interrupted, and so can the programs that it starts.
    """
    script = tmp_path / "slow.yaml"
    script.write_text(SCRIPT)
    command = (HARKEN, "chat", "--home", tmp_path / "home", "--model", f"scripted:{script}")
    with Terminal(*IGNORING, *command, TERM="dumb") as terminal:
        terminal.wait(">")
        terminal.type("slow" + ENTER)
        terminal.settle()
        terminal.type(CTRL_C)
        terminal.wait("Interrupted")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_programs_that_tests_start_do_not_inherit_an_ignored_interrupt() -> None:
    """Tests that end a program by Ctrl-C failed under `nohup` and `&`.

    The program inherited SIGINT as ignored from the shell that had started pytest.
    Now the tests restore it for themselves, which resets it in each program that they start.
    """
    start = f"subprocess.run([sys.executable, '-c', {CHILD!r}])"
    code = f"import tests.conftest, subprocess, sys; {start}"
    ran = subprocess.run(
        [*IGNORING, sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout == "True\n"
