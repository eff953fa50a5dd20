"""The programs that list and search files: ripgrep where it is installed, else Python.

An engine is a command line; both print the same. What a model writes stands where it cannot be
taken for an option, and no configuration of a person's own changes what is found.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from harken.world.files.regular_file import WHOLE
from harken.world.search.glob import Glob


@dataclass(frozen=True, slots=True, kw_only=True)
class FileQuery:
    """What is looked for, in the folder where the engine runs."""

    pattern: str | None = None
    """A regular expression; None: the files themselves are listed."""
    ignore_case: bool = False
    context_lines: int = 0
    most: int = 1000
    """Lines that are wanted of one file."""
    glob: Glob | None = None
    """Only files that it fits; an engine may also find others."""
    file: str | None = None
    """Only this one, also if it is hidden or ignored."""

    @property
    def hidden(self) -> bool:
        """Whether hidden files are wanted, too."""
        return self.glob is not None and self.glob.hidden


class Engine(Protocol):
    """Something that can look for files."""

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return the program and its arguments."""
        ...


@cache
def ripgrep() -> str | None:
    """Return where ripgrep is installed; None where it is not."""
    found = shutil.which("rg")
    # A relative entry of PATH would run whatever lies in the folder that is searched.
    return found if found is not None and Path(found).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """ripgrep, 12 or later."""

    program: str

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return the call of `rg`."""
        files = [self.program, "--no-config", "--no-messages", "--null", "--color=never"]
        files += ["--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"]
        # With `--type`, or with a rule of git that wants them, hidden files would be found.
        files += ["--hidden", "--glob=!.git"] if query.hidden else ["--glob=!.*"]
        files += _types(query.glob)
        if query.pattern is None:
            return [*files, "--files", "--", "."]
        where = "." if query.file is None else f"./{query.file}"
        look = ["--engine=auto", "--crlf", "--line-number", "--no-heading", "--with-filename"]
        look += ["--max-columns=2000", "--max-columns-preview", f"--max-filesize={WHOLE}"]
        look += [f"--max-count={query.most}", f"--context={query.context_lines}"]
        look += ["--no-context-separator", *(["--ignore-case"] if query.ignore_case else [])]
        return [*files, *look, "-e", query.pattern, "--", where]


def _types(glob: Glob | None) -> list[str]:
    """Let `rg` leave out files by name, as far as that is the same; `--glob` is not.

    With `--glob` it searches also what git ignores.
    """
    names = glob.type_glob if glob is not None else None
    return [] if names is None else [f"--type-add=harken:{names}", "--type=harken"]


@dataclass(frozen=True, slots=True)
class Scanner:
    """`scan`, in a Python of its own."""

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return the call of Python, which imports what this one imports and nothing else.

        The folder that is searched is the current one there: nothing may be imported from it.
        """
        run = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
            "from harken.world.search.python_engine import main; "
            "sys.exit(main(sys.argv[2], sys.stdout.buffer))"
        )
        path = [str(Path(one).absolute()) for one in sys.path]
        glob = query.glob
        asked = asdict(query) | {
            "hidden": query.hidden,
            "largest": WHOLE,
            "glob": None if glob is None else glob.rest,
            "anchored": glob is not None and glob.anchored,
        }
        return [sys.executable, "-I", "-c", run, json.dumps(path), json.dumps(asked)]


def engine_for(program: str | None) -> Engine:
    """Return the engine for a ripgrep, or for none."""
    return Scanner() if program is None else Ripgrep(program)
