"""Run a use case: `python -m examples debate [--model NAME] [--log FILE]`.

Without a name, it lists them.
"""

from __future__ import annotations

import argparse
import asyncio
import runpy
import sys
from pathlib import Path

from examples.example import Example
from harken.errors import HarkenError

HERE = Path(__file__).parent


def folders() -> dict[str, Path]:
    """Return the folders of all use cases by what they are called: `01-debate` is `debate`."""
    found = sorted(path.parent for path in HERE.glob("*/run.py"))
    return {folder.name.partition("-")[2]: folder for folder in found}


def listed() -> str:
    """Return a line for each use case: the first of its README."""
    titles = {
        name: (folder / "README.md").read_text().splitlines()[0].lstrip("# ")
        for name, folder in folders().items()
    }
    return "\n".join(f"{name:<12} {title}" for name, title in titles.items())


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        epilog=listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=folders(), nargs="?", help="which one")
    parser.add_argument("--model", help="a real model, such as anthropic/claude-opus-5-5")
    parser.add_argument("--log", type=Path, help="the session log (default: NAME.jsonl)")
    given = parser.parse_args()
    if given.name is None:
        print(listed())
        return 0
    log = given.log or Path(f"{given.name}.jsonl")
    if log.exists():
        print(f"{log} exists: name another with --log", file=sys.stderr)
        return 2
    folder = folders()[given.name]
    play = runpy.run_path(str(folder / "run.py"))["play"]
    try:
        asyncio.run(play(Example.of(folder, log, given.model)))
    except HarkenError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nThe log is {log}; {folder.relative_to(HERE.parent)}/README.md says what to look at.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
