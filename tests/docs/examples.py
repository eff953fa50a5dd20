"""The examples of a page: files to write, programs to run, and what a terminal shows."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cli.kit import anywhere
from tests.forks.processes import write_command, write_python

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.docs.program"
"""What runs the programs of pages."""

_FENCE = re.compile(
    r"^```(\w*)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
_EXIT_CODE = re.compile(r"# exit code (\d+)$")


@dataclass(frozen=True)
class Example:
    """One fence of a page."""

    language: str
    file: str | None
    text: str


@dataclass(frozen=True)
class Command:
    """A line after `$ `, and what it is said to print; no text: anything."""

    line: str
    printed: str

    @property
    def exit_code(self) -> int:
        """What the line itself says: `# exit code 2`, otherwise 0."""
        match = _EXIT_CODE.search(self.line)
        return int(match[1]) if match else 0


def examples(page: Path) -> list[Example]:
    """Return the fences of a page, in order."""
    return [Example(*match.groups()) for match in _FENCE.finditer(page.read_text("utf-8"))]


def commands(text: str) -> Iterator[Command]:
    """Yield the commands in what a terminal shows."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, printed = piece.partition("\n")
        yield Command(line, printed)


class Reader:
    """Somebody who does all that a page says, in a folder and with a home of their own."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "trip"
        self.folder.mkdir()
        write_python(home / ".programs", PROGRAM)
        folders = (write_command(home / ".programs").parent, Path(sys.executable).parent)
        programs = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
        self.environment = {**os.environ, "HOME": str(home), "PATH": programs}
        for name in ("HARKEN_HOME", "PYTEST_ADDOPTS"):
            self.environment.pop(name, None)

    def follow(self, page: Path) -> int:
        """Do what a page says; return how many examples were run."""
        count = 0
        for example in examples(page):
            if example.file is not None:
                file = self.folder / example.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(example.text, "utf-8")
            elif example.language == "python":
                ran = self.run(["python", "-c", example.text])
                assert ran.returncode == 0, f"{example.text}\n{ran.stdout}"
                count += 1
            elif example.language == "console":
                for command in commands(example.text):
                    self.type(command)
                    count += 1
        return count

    def type(self, command: Command) -> None:
        """Run a command in a shell and compare what it prints."""
        ran = self.run(["bash", "-c", command.line])
        code = ran.returncode if ran.returncode >= 0 else 128 - ran.returncode
        assert code == command.exit_code, f"$ {command.line}\n{ran.stdout}"
        printed = anywhere(ran.stdout)
        fits = doctest.OutputChecker().check_output(command.printed, printed, doctest.ELLIPSIS)
        assert fits or not command.printed.strip(), (
            f"$ {command.line}\n--- the page says\n{command.printed}--- it is\n{ran.stdout}"
        )

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
