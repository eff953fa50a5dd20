"""The command line in this process, and what tests of it say to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from harken.cli.main import run_cli
from tests.forks import processes
from tests.forks.processes import HARKEN

__all__ = ["HARKEN"]

SCRIPT = """\
rules:
  - pattern: hello
    answer: Hi there.
  - pattern: make Ann
    calls: [{task: {name: Ann, instructions: You are Ann., prompt: "Tea or coffee?"}}]
  - agent: Ann
    answer: Tea.
  - pattern: Tea
    answer: Ann wants tea.
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`harken`, with a home folder of its own, in this process."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self._capsys = home, capsys
        self.environ: dict[str, str] = {}
        """Where keys and settings are looked for."""
        self.whole_err = ""
        """All that the last command said, also that there is no sandbox."""

    def __call__(self, *arguments: str | Path) -> Ran:
        self._capsys.readouterr()
        code = run_cli([str(argument) for argument in arguments], self.environ)
        out, self.whole_err = self._capsys.readouterr()
        return Ran(code, out, anywhere(self.whole_err))

    def ok(self, *arguments: str | Path) -> Ran:
        """Run a command that works."""
        ran = self(*arguments)
        assert ran.code == 0, ran
        return ran

    def stopped(self, *arguments: str | Path) -> Ran:
        """Run a turn of `harken chat -p` that ends without an answer."""
        ran = self(*arguments)
        assert (ran.code, ran.out) == (1, ""), ran
        assert ran.err.count("[stopped]") == 1, ran
        return ran

    def refused(self, *arguments: str | Path) -> str:
        """Run a command that cannot be done; return the one line that says why."""
        ran = self(*arguments)
        assert (ran.code, ran.out) == (2, ""), ran
        return one_line(ran.err)

    def sessions(self) -> list[Path]:
        return sorted((self.home / "sessions").glob("*.jsonl"))


def anywhere(err: str) -> str:
    """Leave out what some machines say: that there is no sandbox, that a server starts slowly."""
    of_some = ("Commands run without", "waiting for MCP servers to start")
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith(of_some))


def one_line(err: str) -> str:
    """Check that this is one line for a person; return it without who says it."""
    assert err.startswith("harken: "), err
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert "bug in Harken" not in err
    return err.removeprefix("harken: ").rstrip()


@contextmanager
def serving(*arguments: str | Path, **environment: str) -> Iterator[tuple[Popen[str], str]]:
    """Run a server of `harken` as a process; yield it, and the address that it prints as JSON.

    Without an `environment` it has that of the tests.
    """
    with processes.start(
        [HARKEN, *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment or None,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate()
            yield process, json.loads(line)["address"]
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(20)


def start(
    home: Path, *arguments: str | Path, stdin: str | bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `harken` as a process of its own."""
    return processes.run(
        [HARKEN, *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env={**os.environ, "HARKEN_HOME": str(home), **environment},
        timeout=60,
        check=False,
    )
