"""The reader of a format of an agent framework: lines of JSON, each with messages or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Reader
from harken.formats.frameworks.item_lines import decode_item


def make_reader(name: str, read_item: Callable[[Any], Iterable[ConversationEntry]]) -> Reader:
    """Return the reader of a format. read_item: returns the entries of a line, and never raises."""

    def read(data: bytes) -> list[ConversationEntry]:
        return [entry for item in iter_items(name, data) for entry in read_item(item)]

    return read


def iter_items(name: str, data: bytes) -> Iterator[Any]:
    """Yield the JSON values of lines. Raises FormatError, which names the line."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield decode_item(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(name, f"line {number} is not JSON ({error})") from None
