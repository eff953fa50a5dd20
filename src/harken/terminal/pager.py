"""Send long output to `$PAGER`, by default to `less -FRX`."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout

import click

_TRAILING_PATTERN = re.compile(" +$", re.MULTILINE)


def columns(default: int = 80) -> int:
    """Return the width of the terminal, or `COLUMNS`. Return `default` if there is neither."""
    return shutil.get_terminal_size((default, 24)).columns


def print_paged(texts: Iterable[str]) -> None:
    """Print texts; page them if they are longer than the terminal is high.

    The texts may contain escape codes of styles, which are printed only to a terminal. `less -F`
    prints a text that fits on the screen without paging.
    """
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        for text in texts:
            _print_plain(text)
        return
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(texts)


def print_unpaged(texts: Iterable[str]) -> None:
    """Print texts at once. Escape codes of styles are printed only to a terminal."""
    for text in texts:
        if sys.stdout.isatty():
            click.echo(text, nl=False)
        else:
            _print_plain(text)


def _print_plain(text: str) -> None:
    click.echo(_TRAILING_PATTERN.sub("", click.unstyle(text)), nl=False)


@contextmanager
def page_output(*, is_wanted: bool = True) -> Iterator[None]:
    """Page all output of the block if it goes to a terminal and is longer than the screen."""
    if not is_wanted or not sys.stdout.isatty() or not sys.stdin.isatty():
        yield
        return
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    print_paged([text.getvalue()])
