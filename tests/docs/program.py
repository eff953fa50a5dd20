"""A program of a page, as `python FILE` and `python -c TEXT` run it. Harken is imported before.

    python -m tests.docs.program (FILE | -c TEXT) [ARGUMENT]...

The pages are read with it by a fork server (`tests.forks`), which imports all public names once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import harken

for name in harken.__all__:
    getattr(harken, name)


def run_program(arguments: list[str]) -> None:
    """Run a program as the main module, with its arguments and its folder for imports."""
    is_text = arguments[0] == "-c"
    file = Path(arguments[0])
    text = arguments[1] if is_text else file.read_text("utf-8")
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.path[0] = "" if is_text else str(file.resolve().parent)
    sys.argv = ["-c", *arguments[2:]] if is_text else arguments
    if not is_text:
        main.__file__ = arguments[0]
    exec(compile(text, "<string>" if is_text else arguments[0], "exec"), vars(main))


if __name__ == "__main__":
    run_program(sys.argv[1:])
