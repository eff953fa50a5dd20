"""A bar on standard error for what takes longer than a second, where somebody watches.

It never mixes with what a command prints, and it is gone when the work is done, failed or stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    import rich.progress

AFTER_S = 1.0
"""What is done before is not worth a bar."""


class ProgressCallback(Protocol):
    """Says how far the work is; it may be said as often as one likes."""

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None:
        """Show how much is done, of so much; None: it is not known of how much.

        text: stands in place of the two numbers.
        """
        ...


@contextmanager
def progress(
    what: str, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[ProgressCallback]:
    """Give what tells a person how far it is. `what`: a word or two, such as `Copying`.

    Without a terminal at `stream` (None: standard error) nothing is printed. `clock`: seconds.
    """
    bar = _Bar(what, stream or sys.stderr, clock)
    try:
        yield bar.tell
    finally:
        bar.close()


class _Bar:
    """The bar, which comes into being when it is told something late enough."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self._what, self._stream, self._clock = what, stream, clock
        self._begins = clock() + AFTER_S
        self._shown: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._is_watched = stream.isatty()

    def tell(self, done: int, total: int | None = None, text: str = "") -> None:
        """See `ProgressCallback`."""
        if not self._is_watched or (self._shown is None and self._clock() < self._begins):
            return
        if self._shown is None or self._task is None:
            self._shown = _made(self._stream)
            self._task = self._shown.add_task(self._what, total=total, text="")
            self._shown.start()
        if not text:
            text = f"{done}/{'?' if total is None else total}"
        self._shown.update(self._task, completed=done, total=total, text=text)

    def close(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
        self._is_watched = False


def _made(stream: TextIO) -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    text = TextColumn("{task.fields[text]}", markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), text, Remaining())
    return Progress(*columns, console=Console(file=stream), transient=True)
