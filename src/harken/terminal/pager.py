"""The pager: long output of a terminal goes through `$PAGER`, else through `less -FRX`."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout

import click

_TRAILING = re.compile(" +$", re.MULTILINE)


def columns(default: int = 80) -> int:
    """Return the width of the terminal, or `COLUMNS`. Return `default` if there is neither."""
    return shutil.get_terminal_size((default, 24)).columns


def page(texts: Iterable[str]) -> None:
    """Print texts; if they are longer than the terminal is high, let the user page through them.

    They may hold the codes of styles, which only a terminal gets, and nothing else that could harm
    it. With `less -F` what fits on the screen is simply printed.
    """
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        for text in texts:
            click.echo(_TRAILING.sub("", click.unstyle(text)), nl=False)
        return
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(texts)


@contextmanager
def paged(*, is_wanted: bool = True) -> Iterator[None]:
    """Page all that the block prints, if it goes to a terminal and is longer than that."""
    if not is_wanted or not sys.stdout.isatty() or not sys.stdin.isatty():
        yield
        return
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    page([text.getvalue()])
