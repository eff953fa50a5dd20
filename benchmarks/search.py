"""Searching: the tools `glob` and `grep` in 50,000 files, with both engines, against `rg`."""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import RUNS, Row, Timed, spread, wall_s
from harken.world.files.root import Root
from harken.world.search.engines import engine_for, ripgrep
from harken.world.search.tools import Searches
from harken.world.tool import ToolContext

FOLDERS, FILES = 500, 100
ENDINGS = ("py", "md", "txt", "json")
WORDS = ["the", "quick", "brown", "fox", "over", "a", "lazy", "dog", "says", "what", "it", "has"]
RARE, RARE_IN = "needle", 1000
"""A word that one of so many files has."""
WITHIN_S = 60.0
NOBODY = ToolContext(None, "msg_001")
"""Who looks: nobody from whom rules would keep anything."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, by `rg` and by a tool."""

    what: str
    options: Sequence[str]
    ask: Callable[[Searches], Awaitable[str]]


QUESTIONS = [
    Question(
        f"`glob *.py`, {FOLDERS * FILES:,} files",
        ["--files", "--glob=*.py"],
        lambda tools: tools.glob("*.py", NOBODY),
    ),
    Question(
        f"`grep` of a word in one of {RARE_IN:,} files",
        ["--line-number", RARE, "."],
        lambda tools: tools.grep(RARE, NOBODY),
    ),
    Question(
        "`grep` of a word in most files (the tool stops early)",
        ["--line-number", "quick", "."],
        lambda tools: tools.grep("quick", NOBODY),
    ),
]


def plant(folder: Path) -> None:
    """Fill a folder: a repository of files with a few lines each, the same in every run."""
    chance = random.Random(7)
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("*.pyc\n__pycache__/\n/build/\nnode_modules/\n")
    for number in range(FOLDERS):
        inner = folder / f"area{number % 10}" / f"package{number:03}"
        inner.mkdir(parents=True)
        for at in range(FILES):
            lines = [" ".join(chance.choices(WORDS, k=8)) for _ in range(chance.randint(3, 9))]
            if chance.randrange(RARE_IN) == 0:
                lines.append(f"def {RARE}_{at}(): ...")
            (inner / f"module{at:02}.{ENDINGS[at % 4]}").write_text("\n".join(lines) + "\n")


def timed(call: Callable[[], Awaitable[str]]) -> float:
    """Return the seconds that a tool takes; it must find something."""

    async def ask() -> None:
        text = await call()
        assert ".py" in text, text

    return wall_s(lambda: asyncio.run(ask()))


def bare(folder: Path, *arguments: str) -> float:
    """Return the seconds that `rg` takes."""
    command = [ripgrep() or "rg", *arguments]
    return wall_s(lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True))


def contenders(folder: Path, question: Question) -> dict[str, Timed]:
    """Return who answers a question: `rg` where it is, the tool with it, and without."""
    programs = {"with ripgrep": ripgrep(), "in Python": None}
    found: dict[str, Timed] = {"`rg` itself": partial(bare, folder, *question.options)}
    for name, program in programs.items():
        tools = Searches(Root(folder), engine_for(program), within_s=WITHIN_S)
        found[name] = partial(timed, partial(question.ask, tools))
    return found if ripgrep() is not None else {"in Python": found["in Python"]}


def compared(folder: Path, question: Question) -> list[Row]:
    """Measure who answers a question, in turn."""
    asked = contenders(folder, question)
    for ask in asked.values():
        ask()  # the first one reads the disk
    runs = [{name: ask() for name, ask in asked.items()} for _ in range(RUNS)]
    found: list[Row] = []
    for name in asked:
        note = ""
        if len(asked) > 1 and name != "`rg` itself":
            ratios = [run[name] / run["`rg` itself"] for run in runs]
            note = f"{spread(ratios, 1, 1)} times `rg`"
        seconds = [run[name] for run in runs]
        found.append(Row(f"{question.what}, {name}: ms", spread(seconds, 1e3, 0), "", note))
    return found


def rows() -> list[Row]:
    """Measure three questions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plant(folder)
        found = [row for question in QUESTIONS for row in compared(folder, question)]
    if ripgrep() is None:
        found.append(Row("searches with ripgrep", "-", "", "ripgrep is not installed here"))
    return found
