"""Run an example: `python -m examples debate [--model NAME] [--log FILE]`.

Without a name, list the examples.
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
    """Return the folders of all examples by name: `01-debate` is `debate`."""
    paths = sorted(path.parent for path in HERE.glob("*/run.py"))
    return {folder.name.partition("-")[2]: folder for folder in paths}


def list_examples() -> str:
    """Return a line for each example: its name and the title of its README."""
    titles = {
        name: (folder / "README.md").read_text().splitlines()[0].lstrip("# ")
        for name, folder in folders().items()
    }
    return "\n".join(f"{name:<12} {title}" for name, title in titles.items())


def main() -> int:
    """Run the example named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        epilog=list_examples(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=folders(), nargs="?", help="the example to run")
    parser.add_argument("--model", help="a real model, such as anthropic/claude-opus-5-5")
    parser.add_argument("--log", type=Path, help="the session log (default: NAME.jsonl)")
    arguments = parser.parse_args()
    if arguments.name is None:
        print(list_examples())
        return 0
    log = arguments.log or Path(f"{arguments.name}.jsonl")
    if log.exists():
        print(f"{log} exists: choose another file with --log", file=sys.stderr)
        return 2
    folder = folders()[arguments.name]
    play = runpy.run_path(str(folder / "run.py"))["play"]
    try:
        asyncio.run(play(Example.of(folder, log, arguments.model)))
    except HarkenError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nThe log is {log}; {folder.relative_to(HERE.parent)}/README.md lists its views.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
