"""Search engines as command lines: ripgrep if it is installed, else Python.

Both engines print the same format. Text from a model is passed where it cannot be an option, and
configuration files of the user have no effect.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec

from harken.world.files.regular_file import MAX_FILE_BYTES
from harken.world.search.glob import Glob


class FileQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search in the current folder of the engine."""

    pattern: str | None = None
    """A regular expression. None: list the files."""
    ignore_case: bool = False
    context_lines: int = 0
    most: int = 1000
    """The maximum number of lines per file."""
    glob: Glob | None = None
    """A filter for files; an engine may also return others."""
    file: str | None = None
    """The only file to search, even if it is hidden or ignored."""

    @property
    def hidden(self) -> bool:
        """Whether hidden files are included."""
        return self.glob is not None and self.glob.hidden


class Engine(Protocol):
    """A program that searches files."""

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return the program and its arguments."""
        ...


@cache
def ripgrep() -> str | None:
    """Return the path of ripgrep. Return None if it is not installed."""
    program = shutil.which("rg")
    # A relative entry of PATH would run a program in the searched folder.
    return program if program is not None and Path(program).is_absolute() else None


class Ripgrep(msgspec.Struct, frozen=True):
    """ripgrep, 12 or later."""

    program: str

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return the command line for `rg`."""
        files = [self.program, "--no-config", "--no-messages", "--null", "--color=never"]
        files += ["--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"]
        # `--type`, or a negated rule of git, would include hidden files.
        files += ["--hidden", "--glob=!.git"] if query.hidden else ["--glob=!.*"]
        files += _types(query.glob)
        if query.pattern is None:
            return [*files, "--files", "--", "."]
        target = "." if query.file is None else f"./{query.file}"
        options = ["--engine=auto", "--crlf", "--line-number", "--no-heading", "--with-filename"]
        options += [
            "--max-columns=2000",
            "--max-columns-preview",
            f"--max-filesize={MAX_FILE_BYTES}",
        ]
        options += [f"--max-count={query.most}", f"--context={query.context_lines}"]
        options += ["--no-context-separator", *(["--ignore-case"] if query.ignore_case else [])]
        return [*files, *options, "-e", query.pattern, "--", target]


def _types(glob: Glob | None) -> list[str]:
    """Return options that filter files by name, where this is equivalent to the glob.

    `--glob` is no alternative: with it `rg` also searches files that git ignores.
    """
    names = glob.type_glob if glob is not None else None
    return [] if names is None else [f"--type-add=harken:{names}", "--type=harken"]


class Scanner(msgspec.Struct, frozen=True):
    """The Python search engine, in a separate interpreter."""

    def command(self, query: FileQuery) -> Sequence[str]:
        """Return a command line for Python with the import path of this process and nothing else.

        The current folder is the searched one, so no module may be imported from it.
        """
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
            "from harken.world.search.python_engine import main; "
            "sys.exit(main(sys.argv[2], sys.stdout.buffer))"
        )
        path = [str(Path(entry).absolute()) for entry in sys.path]
        query_json = msgspec.to_builtins(query) | {
            "hidden": query.hidden,
            "max_bytes": MAX_FILE_BYTES,
        }
        return [sys.executable, "-I", "-c", code, json.dumps(path), json.dumps(query_json)]


def engine_for(program: str | None) -> Engine:
    """Return the engine for a ripgrep program, or the Python engine."""
    return Scanner() if program is None else Ripgrep(program)
