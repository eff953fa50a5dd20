"""What a search prints, read while it runs, and put in order for a model.

Engines search in parallel and print files in any order; a model gets them sorted, so that the same
folder gives the same answer (but for a search that was ended early: what it had found by then).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from subprocess import DEVNULL, PIPE, Popen
from threading import Timer
from typing import IO

from harken.world.search.engines import Engine, FileQuery

_WARNING = re.compile(
    rb"\A(?P<name>.*?): (?:WARNING: stopped searching binary file after match"
    rb"|binary file matches) \(found [^\n]*? around offset \d+\)\n",
    re.DOTALL,
)
_NUMBER = re.compile(rb"(\d+)([:-])")
_ERROR = 2
"""With this `rg` ends where anything went wrong, whatever it found."""


@dataclass(frozen=True, slots=True)
class MatchLine:
    """A line of a file that was searched."""

    number: int
    fits: bool
    """False: it only stands beside one that does."""
    text: str


@dataclass(slots=True)
class SearchOutput:
    """What a search has found so far."""

    lines: dict[str, list[MatchLine]] = field(default_factory=dict)
    """By file."""
    count: int = 0
    """How many lines fit."""
    error: str = ""
    """Why nothing could be searched."""
    complete: bool = True
    """False: it was ended before it was done."""
    some_left: bool = False
    """Some files could not be searched: not allowed, or an expression took too long on them."""


class SearchProcess:
    """A run of an engine; `run` blocks, `stop` ends it from another thread."""

    def __init__(self, engine: Engine, query: FileQuery, folder: str, *, within_s: float) -> None:
        self._engine = engine
        self._query = query
        self._folder = folder
        self._within_s = within_s
        self._process: Popen[bytes] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End the search; `run` returns soon with what there is."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def run(self, enough: int) -> SearchOutput:
        """Search until all, or `enough`, is found, or time is up. Raises OSError."""
        found = SearchOutput()
        command = self._engine.command(self._query)
        with Popen(
            command,
            cwd=self._folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            bufsize=0,
            start_new_session=True,
        ) as process:
            self._process = process
            if self._stopped:
                process.kill()
            timer = Timer(self._within_s, self.stop)
            timer.daemon = True
            timer.start()
            try:
                self._take(process, found, enough)
            finally:
                timer.cancel()
        found.some_left = process.returncode == _ERROR
        return found

    def _take(self, process: Popen[bytes], found: SearchOutput, enough: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        take = _files if self._query.pattern is None else _lines
        for _ in take(process.stdout, found):
            if found.count >= enough:
                found.complete = False
                process.kill()
                break
        if self._stopped:
            found.complete = False
        found.error = process.stderr.read(10_000).decode("utf-8", "replace").strip()


def _files(out: IO[bytes], found: SearchOutput) -> Iterator[None]:
    """Take the names of files, each with a NUL after it."""
    rest = b""
    while chunk := out.read(1 << 16):
        *names, rest = (rest + chunk).split(b"\0")
        for name in names:
            found.lines[os.fsdecode(name.removeprefix(b"./"))] = []
        found.count += len(names)
        yield


def _lines(out: IO[bytes], found: SearchOutput) -> Iterator[None]:
    """Take lines, each with the name of its file before it; files that are not text drop out."""
    rest = b""
    while chunk := out.read(1 << 16):
        rest += chunk
        at = 0
        while (record := _record(rest, at, found)) > at:
            at = record
        rest = rest[at:]
        yield
    _drop_binary(rest, found)


def _record(data: bytes, at: int, found: SearchOutput) -> int:
    """Take the line that begins at `at`; return where the next one does, `at` where none is."""
    nul = data.find(b"\0", at)
    end = data.find(b"\n", nul) if nul >= 0 else -1
    if end < 0:
        return at
    name = os.fsdecode(_drop_binary(data[at:nul], found).removeprefix(b"./"))
    number = _NUMBER.match(data, nul + 1)
    if number is not None:
        text = data[number.end() : end].removesuffix(b"\r").decode("utf-8", "replace")
        line = MatchLine(int(number[1]), number[2] == b":", text)
        found.lines.setdefault(name, []).append(line)
        found.count += line.fits
    return end + 1


def _drop_binary(name: bytes, found: SearchOutput) -> bytes:
    """Return what is left of a name before which `rg` says of other files that they are no text."""
    while (warning := _WARNING.match(name)) is not None:
        binary = os.fsdecode(warning["name"].removeprefix(b"./"))
        found.count -= sum(line.fits for line in found.lines.pop(binary, ()))
        name = name[warning.end() :]
    return name
