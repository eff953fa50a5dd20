"""A progress bar on standard error for work that takes longer than a second.

It is printed only to a terminal, never mixes with the output of a command, and is erased when the
work ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    import rich.progress

SHOW_AFTER_S = 1.0
"""Work that takes less time than this gets no bar."""


class ProgressCallback(Protocol):
    """A callback that reports progress. It may be called as often as needed."""

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None:
        """Show that `done` of `total` units are processed. `total` is None if it is not known.

        text: replaces the two numbers.
        """
        ...


@contextmanager
def progress(
    label: str, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[ProgressCallback]:
    """Yield a callback that reports progress to the user.

    `label`: a word or two, such as `Copying`.

    Nothing is printed unless `stream` (by default standard error) is a terminal. `clock`: seconds.
    """
    bar = _Bar(label, stream or sys.stderr, clock)
    try:
        yield bar.on_progress
    finally:
        bar.close()


class _Bar:
    """The bar. It is created by the first report after `AFTER_S`."""

    def __init__(self, label: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self._label, self._stream, self._clock = label, stream, clock
        self._begins = clock() + SHOW_AFTER_S
        self._progress: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._is_watched = stream.isatty()

    def on_progress(self, done: int, total: int | None = None, text: str = "") -> None:
        """See `ProgressCallback`."""
        if not self._is_watched or (self._progress is None and self._clock() < self._begins):
            return
        if self._progress is None or self._task is None:
            self._progress = _create_bar(self._stream)
            self._task = self._progress.add_task(self._label, total=total, text="")
            self._progress.start()
        if not text:
            text = f"{done}/{'?' if total is None else total}"
        self._progress.update(self._task, completed=done, total=total, text=text)

    def close(self) -> None:
        """Erase the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        self._is_watched = False


def _create_bar(stream: TextIO) -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    text = TextColumn("{task.fields[text]}", markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), text, Remaining())
    return Progress(*columns, console=Console(file=stream), transient=True)
