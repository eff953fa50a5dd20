"""The context of a command in threads that it starts: its environment, and its home in texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.globals import pop_context, push_context


@contextmanager
def command_context(context: click.Context | None) -> Iterator[None]:
    """Run a part of this thread in the context of a command, or without one."""
    if context is None:
        yield
        return
    push_context(context)
    try:
        yield
    finally:
        pop_context()
