"""`harken store info`: count the objects of the store, and their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from typing import Any

import click
import msgspec

from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.config.store import open_configured_store
from harken.core.commits import SHORT_NAME_DIGITS
from harken.store.base import NO_LIMIT, Name, ObjectKind, Store, StoreStats
from harken.store.registry import describe_url
from harken.store.sqlite.database import VERSION
from harken.terminal.progress import ProgressCallback, progress
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count, format_size

MAX_LARGEST = 5
"""The number of listed largest objects."""
MAX_PRINCIPALS = 10
"""The number of listed principals, those with the most commits."""
_AT_ONCE = 1000


class ObjectSize(msgspec.Struct, frozen=True):
    """An object and its size."""

    size_bytes: int
    kind: str
    name: Name


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers and sizes of the objects in a store."""

    stats: StoreStats
    format_version: int
    principals: Counter[str]
    """The number of commits by principal."""
    oldest: str = ""
    newest: str = ""
    """The times of commits; empty if there are none."""
    largest: tuple[ObjectSize, ...] = ()
    kept: int = 0
    """The number of names with a retention policy."""
    purged: int = 0

    def row(self) -> dict[str, Any]:
        """Return it as JSON values."""
        stats = self.stats
        return {
            "format_version": self.format_version,
            "objects": dict(stats.objects),
            "raw_bytes": stats.raw_bytes,
            "stored_bytes": stats.stored_bytes,
            "logical_bytes": stats.logical_bytes,
            "shared": _ratio(stats.logical_bytes, stats.raw_bytes),
            "packed": _ratio(stats.raw_bytes, stats.stored_bytes),
            "oldest": self.oldest or None,
            "newest": self.newest or None,
            "principals": dict(self.principals.most_common()),
            "largest": [
                {"name": item.name, "kind": item.kind, "size_bytes": item.size_bytes}
                for item in self.largest
            ],
            "kept": self.kept,
            "purged": self.purged,
        }


@click.command(name="info")
@json_option
@home_option
def command(home: Home, as_json: bool) -> None:
    """Show the number and size of the objects in the store. All objects are read."""
    with open_configured_store(home) as store, progress("Counting") as tell:
        info = collect_info(store, tell)
    address = load_settings(home).store
    where = str(home.store_file) if address is None else describe_url(address)
    if as_json:
        print_json({"store": where, **info.row()})
        return
    print_text(f"{where}: format version {info.format_version}")
    for name, text in format_summary(info):
        print_text(f"{name:<12} {text}")


def collect_info(store: Store, tell: ProgressCallback) -> StoreInfo:
    """Count the objects of a store in a single pass. Raises StoreError."""
    stats = store.stats()
    principals: Counter[str] = Counter()
    oldest = newest = ""
    names = store.newest_commits(NO_LIMIT)
    for start in range(0, len(names), _AT_ONCE):
        for stored in store.commits(names[start : start + _AT_ONCE]).values():
            principals[stored.commit.principal] += 1
            time = stored.commit.created_at
            oldest, newest = min(oldest or time, time), max(newest, time)
    return StoreInfo(
        stats=stats,
        format_version=getattr(store, "format_version", VERSION),
        principals=principals,
        oldest=oldest,
        newest=newest,
        largest=tuple(largest(store, tell, sum(stats.objects.values()))),
        kept=len(store.retention()),
        purged=len(store.tombstones()),
    )


def largest(store: Store, tell: ProgressCallback, total: int) -> list[ObjectSize]:
    """Return the largest objects, the largest first."""

    def sizes() -> Iterator[ObjectSize]:
        for index, stored_object in enumerate(store.iter_objects()):
            tell(index, total)
            yield ObjectSize(
                len(stored_object.body), stored_object.kind.name.lower(), stored_object.name
            )

    return nlargest(MAX_LARGEST, sizes(), key=lambda item: item.size_bytes)


def format_summary(info: StoreInfo) -> Iterator[tuple[str, str]]:
    """Yield labels and texts of the summary."""
    stats = info.stats
    counts = [(stats.objects.get(kind.name.lower(), 0), kind.name.lower()) for kind in ObjectKind]
    yield (
        "objects",
        ", ".join(format_count(number, kind) for number, kind in counts if number) or "none",
    )
    ratio = _ratio(stats.raw_bytes, stats.stored_bytes)
    raw, stored = format_size(stats.raw_bytes), format_size(stats.stored_bytes)
    yield "size", f"{stored} on disk for {raw} of unique objects{_times(ratio)}"
    shared = _ratio(stats.logical_bytes, stats.raw_bytes)
    yield (
        "sharing",
        (
            f"{format_size(stats.logical_bytes)} without deduplication between "
            f"commits{_times(shared)}"
        ),
    )
    if info.newest:
        yield "commits", f"{_minute(info.oldest)} to {_minute(info.newest)} (UTC)"
    for index, (principal, number) in enumerate(info.principals.most_common(MAX_PRINCIPALS)):
        principal_name = one_line(principal, 60) or "(none)"
        yield "" if index else "principals", f"{principal_name}: {format_count(number, 'commit')}"
    if len(info.principals) > MAX_PRINCIPALS:
        yield "", f"and {len(info.principals) - MAX_PRINCIPALS} more"
    for index, item in enumerate(info.largest):
        name = item.name[: SHORT_NAME_DIGITS - 64]
        yield "" if index else "largest", f"{item.kind} {name}, {format_size(item.size_bytes)}"
    if info.kept:
        yield "kept", f"{format_count(info.kept, 'name')} with a retention policy"
    if info.purged:
        yield "purged", format_count(info.purged, "object")


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f" ({ratio:.1f} to 1)"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _ratio(larger: int, smaller: int) -> float | None:
    return round(larger / smaller, 2) if smaller else None
