"""Read the keys that the user typed while the chat was starting.

Until the terminal is in raw mode it turns Enter into a newline, which is another key in the chat,
so that a message would stay in the input unsent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from harken.terminal.stdin import read_waiting


@contextmanager
def keep_early_keys(source: Input) -> Iterator[None]:
    """Put a terminal into raw mode; an application in the block gets the early keys first."""
    with source.raw_mode():
        if os.isatty(source.fileno()):
            keys: list[KeyPress] = []
            parser = Vt100Parser(keys.append)
            parser.feed_and_flush(read_waiting(source.fileno()).replace("\n", "\r"))
            store_typeahead(source, keys)
        yield
