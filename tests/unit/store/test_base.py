"""Store sizes: each object once, and once per reference."""

from __future__ import annotations

from random import Random

from harken.store.chunking import put_file
from harken.store.memory import MemoryStore


def test_grown_file_counts_completely_despite_shared_chunks() -> None:
    store, dice = MemoryStore(), Random(3)
    lines = [b"%x\n" % dice.getrandbits(400) for _ in range(30_000)]
    old, new = b"".join(lines[:28_000]), b"".join(lines)
    put_file(store, [old])
    put_file(store, [new])
    stats = store.stats()
    assert stats.objects["raw"] > 2
    assert stats.raw_bytes < 1.3 * len(new)
    assert stats.logical_bytes > len(old) + len(new)
