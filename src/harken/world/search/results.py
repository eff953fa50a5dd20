"""Parse the output of a search engine while it runs.

Engines search in parallel and print files in any order. A model gets them sorted, so that the same
folder gives the same result, unless the search was stopped early.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from subprocess import DEVNULL, PIPE, Popen
from threading import Timer
from typing import IO

import msgspec

from harken.world.search.engines import Engine, FileQuery

_WARNING_PATTERN = re.compile(
    rb"\A(?P<name>.*?): (?:WARNING: stopped searching binary file after match"
    rb"|binary file matches) \(found [^\n]*? around offset \d+\)\n",
    re.DOTALL,
)
_NUMBER_PATTERN = re.compile(rb"(\d+)([:-])")
_ERROR_EXIT_CODE = 2
"""The exit code of `rg` after any error, even if there are matches."""


class MatchLine(msgspec.Struct, frozen=True):
    """A line of a searched file."""

    number: int
    fits: bool
    """False for a context line."""
    text: str


class SearchOutput(msgspec.Struct):
    """The matches of a search so far."""

    lines: dict[str, list[MatchLine]] = msgspec.field(default_factory=dict)
    """The matching lines by file."""
    count: int = 0
    """The number of matching lines."""
    error: str = ""
    """The reason why the search failed."""
    complete: bool = True
    """False if the search was stopped early."""
    some_left: bool = False
    """Whether some files could not be searched: no permission, or the expression took too long."""


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
        """Stop the search; `run` then returns the matches so far."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def run(self, enough: int) -> SearchOutput:
        """Search until done, until `enough` matches, or until the time limit. Raises OSError."""
        output = SearchOutput()
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
                self._read_output(process, output, enough)
            finally:
                timer.cancel()
        output.some_left = process.returncode == _ERROR_EXIT_CODE
        return output

    def _read_output(self, process: Popen[bytes], output: SearchOutput, enough: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        parse = _parse_files if self._query.pattern is None else _parse_lines
        for _ in parse(process.stdout, output):
            if output.count >= enough:
                output.complete = False
                process.kill()
                break
        if self._stopped:
            output.complete = False
        output.error = process.stderr.read(10_000).decode("utf-8", "replace").strip()


def _parse_files(out: IO[bytes], output: SearchOutput) -> Iterator[None]:
    """Parse file names, each followed by a NUL."""
    remaining = b""
    while chunk := out.read(1 << 16):
        *names, remaining = (remaining + chunk).split(b"\0")
        for name in names:
            output.lines[os.fsdecode(name.removeprefix(b"./"))] = []
        output.count += len(names)
        yield


def _parse_lines(out: IO[bytes], output: SearchOutput) -> Iterator[None]:
    """Parse lines, each prefixed with the name of its file; drop binary files."""
    remaining = b""
    while chunk := out.read(1 << 16):
        remaining += chunk
        offset = 0
        while (next_offset := _parse_record(remaining, offset, output)) > offset:
            offset = next_offset
        remaining = remaining[offset:]
        yield
    _drop_binary(remaining, output)


def _parse_record(data: bytes, offset: int, output: SearchOutput) -> int:
    """Parse the line at an offset; return the next offset, or the same one if incomplete."""
    nul = data.find(b"\0", offset)
    end = data.find(b"\n", nul) if nul >= 0 else -1
    if end < 0:
        return offset
    name = os.fsdecode(_drop_binary(data[offset:nul], output).removeprefix(b"./"))
    number = _NUMBER_PATTERN.match(data, nul + 1)
    if number is not None:
        text = data[number.end() : end].removesuffix(b"\r").decode("utf-8", "replace")
        line = MatchLine(int(number[1]), number[2] == b":", text)
        output.lines.setdefault(name, []).append(line)
        output.count += line.fits
    return end + 1


def _drop_binary(name: bytes, output: SearchOutput) -> bytes:
    """Return a file name without preceding warnings of `rg`; drop the binary files they name."""
    while (warning := _WARNING_PATTERN.match(name)) is not None:
        binary = os.fsdecode(warning["name"].removeprefix(b"./"))
        output.count -= sum(line.fits for line in output.lines.pop(binary, ()))
        name = name[warning.end() :]
    return name
