"""`framework-records-v1`: records of agent frameworks that are no messages, one line of JSON each.

They are the states of sessions, and the runs, events, effects and snapshots of steps.

Source: docs/formats/framework-items.md, "Records".
"""

from __future__ import annotations

from harken.formats.base import Format
from harken.formats.frameworks.item_reader import make_reader

NAME = "framework-records-v1"
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=make_reader(NAME, lambda _: ()),
    joins=b"".join,
)
