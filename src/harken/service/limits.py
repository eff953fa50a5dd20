"""How much the service takes at once, and how long it waits for whoever is slow."""

from __future__ import annotations

from dataclasses import dataclass

from harken.store.remote.wire import BATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What nobody may go beyond. Whoever does is refused, and nothing of it is done."""

    body_bytes: int = BATCH_BYTES
    body_s: float = 60
    """How long a body may take to arrive."""
    silence_s: float = 60
    """How long a connection may do nothing: neither ask whole nor take what it is given."""
    requests: int = 256
    """How many are answered at once; those above are told to come again."""
    connections: int = 512
    threads: int = 32
    """How many requests use the store at once: writes of that time share one sync of the disk."""
    streams: int = 8
    """How many long answers are made at once, in threads of their own."""
