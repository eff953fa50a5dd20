"""The world: a command with much output, a look into a large file, a small file that changes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.loop import InstantModel
from benchmarks.measure import RUNS, Row, Timed, median, spread, wall_s
from benchmarks.memory import peak_of_mb
from harken import AgentRuntime, SessionOptions, load_session
from harken.core.messages import FunctionCall
from harken.errors import ConfigError
from harken.world.files.root import Root
from harken.world.files.tools import Files
from harken.world.local import local_world
from harken.world.shell.sandbox import Sandbox
from harken.world.shell.shell import Shell
from harken.world.tool import Tool, ToolContext

LOUD = "yes 'The quick brown fox jumps over the lazy dog.' | head -c 100000000"
LINE = b"The quick brown fox jumps over the lazy dog and says what it has seen, or not.\n"
LARGE = 1_000_000_000
FIRST = {"at its beginning": 1, "in its middle": LARGE // len(LINE) // 2}
SHOWN = 200
SMALL = "".join(f"line {number}: what it says\n" for number in range(200))
CHANGES = 20
EXTRA_RUNS = 3 * RUNS
"""For what takes milliseconds."""


def bash_of(folder: Path) -> Tool:
    """Return the tool `bash`."""
    return Shell(folder, folder / "outputs").tool


async def read_lines(file: Path, first: int) -> str:
    """Read some lines as `read` does."""
    tool = Files(Root(file.parent))
    [part] = await tool.read(file.name, None, offset=first, limit=SHOWN)  # type: ignore[arg-type]
    return getattr(part, "text", "")


def child(kind: str, *arguments: str) -> None:
    """Do one of these things once, in this process."""
    if kind == "bash":
        text = asyncio.run(bash_of(Path(arguments[0])).run({"command": LOUD}))
        assert "bytes omitted" in str(text)
    elif kind == "read":
        assert "continue with" in asyncio.run(read_lines(Path(arguments[0]), int(arguments[1])))


def peak_above_mb(*arguments: str) -> list[float]:
    """Return by how much the peak memory of a child is above that of one that does nothing."""
    module = "benchmarks.world"
    return [peak_of_mb(module, *arguments) - peak_of_mb(module, "nothing") for _ in range(RUNS)]


def timed(work: Callable[[], Awaitable[Any]]) -> Timed:
    """Return what measures a piece of asynchronous work, without the making of a loop."""

    async def seconds() -> float:
        clock = asyncio.get_running_loop().time
        start = clock()
        await work()
        return clock() - start

    return lambda: asyncio.run(seconds())


def in_turn(ours: Timed, bare: Timed, runs: int = RUNS) -> tuple[list[float], list[float]]:
    """Measure both in turn, after once each to warm up; return the seconds of each."""
    ours(), bare()
    pairs = [(ours(), bare()) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def shell_rows(folder: Path) -> list[Row]:
    """Measure a command with 100 MB of output, and one that does nothing."""

    def into_file(command: str) -> float:
        def work() -> None:
            with (folder / "bare.txt").open("wb") as out:
                subprocess.run(["bash", "-c", command], stdout=out, stdin=subprocess.DEVNULL)  # noqa: PLW1510
            (folder / "bare.txt").unlink()

        return wall_s(work)

    bash = bash_of(folder)

    def ours(command: str) -> float:
        seconds = timed(partial(bash.run, {"command": command}))()
        for kept in (folder / "outputs").iterdir():
            kept.unlink()
        return seconds

    loud, bare_loud = in_turn(partial(ours, LOUD), partial(into_file, LOUD))
    quiet, bare_quiet = in_turn(partial(ours, ":"), partial(into_file, ":"), EXTRA_RUNS)
    memory = peak_above_mb("bash", str(folder))
    return [
        Row("`bash`, 100 MB of output: s", spread(loud, 1, 2)),
        Row("the same command into a file by subprocess: s", spread(bare_loud, 1, 2)),
        Row("`bash`, 100 MB of output: peak memory MB", spread(memory, 1, 1), "< 50"),
        Row("`bash`, a command that does nothing: ms", spread(quiet, 1e3, 1)),
        Row("the same by subprocess: ms", spread(bare_quiet, 1e3, 1)),
        *sandbox_rows(folder),
    ]


def sandbox_rows(folder: Path) -> list[Row]:
    """Measure a command that does nothing in the sandbox, beside one outside; none without one."""
    outputs = folder / "boxed"
    try:
        sandbox = Sandbox(folder=folder, outputs=outputs).resolve(os.environ)
    except ConfigError:
        return []
    boxed, free = (Shell(folder, outputs, sandbox=one) for one in (sandbox, None))
    seconds, bare = in_turn(
        timed(partial(boxed.run, ":")), timed(partial(free.run, ":")), EXTRA_RUNS
    )
    times = median(seconds) / median(bare)
    return [Row("the same in the sandbox: ms", spread(seconds, 1e3, 1), "", f"{times:.1f} times")]


def read_rows(folder: Path) -> list[Row]:
    """Measure a look into a file of a gigabyte."""
    file = folder / "large.txt"
    with file.open("wb") as out:
        for _ in range(1000):
            out.write(LINE * (LARGE // len(LINE) // 1000))
    found: list[Row] = []
    for where, first in FIRST.items():
        last = first + SHOWN - 1
        sed = ["sed", "-n", f"{first},{last}p;{last}q", str(file)]
        by_sed = partial(subprocess.run, sed, check=True, capture_output=True)
        seconds, bare = in_turn(timed(partial(read_lines, file, first)), partial(wall_s, by_sed))
        memory = peak_above_mb("read", str(file), str(first))
        what = f"`read` of {SHOWN} lines of 1 GB, {where}"
        note = f"`sed` {median(bare) * 1e3:,.1f}"
        found.append(Row(f"{what}: ms", spread(seconds, 1e3, 1), "", note))
        found.append(Row(f"{what}: peak memory MB", spread(memory, 1, 1)))
    file.unlink()
    return found


class Editor:
    """An agent that may change files, and its calls."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.world = local_world(folder, outputs=folder)
        runtime = AgentRuntime(model=InstantModel(0, []), world=self.world)
        agent, self.session = load_session(
            log, runtime=runtime, options=SessionOptions(durability="turn")
        )
        call = self.session.log_transcript_entry(agent.agent_id, {"role": "user", "content": "?"})
        self.caller = ToolContext(agent, call)
        self._number = 0

    async def do(self, name: str, **arguments: Any) -> None:
        """Call a tool that must not fail."""
        result = await self.world.call_tool(
            FunctionCall(name, json.dumps(arguments)), caller=self.caller
        )
        assert not result.is_error, result

    async def change(self) -> None:
        """Write a new file, and change a line in it."""
        self._number += 1
        path = f"ours{self._number}.txt"
        await self.do("write", path=path, content=SMALL)
        await self.do("edit", path=path, old_string="line 100:", new_string="line one hundred:")


def bare_change(folder: Path) -> None:
    """Do by hand what a `write` and an `edit` come to: twice a file, sync and rename."""
    for content in (SMALL, SMALL.replace("line 100:", "line one hundred:")):
        with (folder / "new.tmp").open("xb") as out:
            out.write(content.encode())
            out.flush()
            os.fsync(out.fileno())
        (folder / "new.tmp").rename(folder / "bare.txt")


def change_rows(folder: Path) -> list[Row]:
    """Measure a `write` and an `edit`."""
    editor = Editor(folder, folder / "log.jsonl")
    with editor.session:
        ours, bare = in_turn(
            timed(editor.change), lambda: wall_s(lambda: bare_change(folder)), EXTRA_RUNS
        )
    beyond = [a - b for a, b in zip(ours, bare, strict=True)]
    return [
        Row("`write` and `edit` of a small file: ms", spread(ours, 1e3, 2)),
        Row("twice a plain write, fsync and rename: ms", spread(bare, 1e3, 2)),
        Row("`write` and `edit` beyond that: ms", spread(beyond, 1e3, 2)),
    ]


def rows() -> list[Row]:
    """Measure all of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*change_rows(folder), *shell_rows(folder), *read_rows(folder)]
