"""How much is in a store: counted by reading everything once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harken.store.base import Kind, Stats, Thing


def stats(things: Iterable[Thing], path: Path | None = None) -> Stats:
    """Count things, those that others need before them; `path`: the file that they are in."""
    counts = {kind.name.lower(): 0 for kind in Kind if kind is not Kind.FILE}
    whole: dict[bytes, int] = {}
    # What nothing names, such as files that were imported: it counts once, with all its pieces.
    alone: dict[bytes, int] = {}
    raw_bytes = logical_bytes = 0
    for thing in things:
        name = bytes.fromhex(thing.name[-64:-32])
        if name in whole:
            continue
        size = len(thing.body)
        kind = Kind.RAW if thing.kind is Kind.FILE else thing.kind
        counts[kind.name.lower()] += 1
        raw_bytes += size
        needs = [bytes.fromhex(need[-64:-32]) for need in thing.needs]
        for need in needs:
            alone.pop(need, None)
        inside = needs[:1] if thing.kind is Kind.COMMIT else needs
        whole[name] = size + sum(whole.get(need, 0) for need in inside)
        if thing.kind is Kind.COMMIT:
            logical_bytes += whole[name]
        else:
            alone[name] = size if thing.kind is Kind.SEQUENCE else whole[name]
    stored_bytes = raw_bytes if path is None else _on_disk(path)
    return Stats(counts, raw_bytes, stored_bytes, logical_bytes + sum(alone.values()))


def _on_disk(path: Path) -> int:
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
