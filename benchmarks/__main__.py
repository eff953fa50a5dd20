"""`python -m benchmarks [ROW ...]`: measure, print, and write benchmarks/results.md."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    append,
    attribution,
    chat,
    discussion,
    frameworks,
    grown,
    grown_stores,
    growth,
    hooks,
    idle,
    importing,
    index,
    load,
    loop,
    mcp,
    peers,
    proxy,
    recorded,
    resuming,
    savers,
    search,
    server_stores,
    service,
    sessions,
    startup,
    store,
    tables,
    verdicts,
    world,
)
from benchmarks.measure import RUNS, Row

PARTS = {
    "startup": startup.rows,
    "loop": loop.rows,
    "hooks": hooks.rows,
    "verdicts": verdicts.rows,
    "idle": idle.rows,
    "resuming": resuming.rows,
    "discussion": discussion.rows,
    "append": append.rows,
    "load": load.rows,
    "chat": chat.rows,
    "world": world.rows,
    "mcp": mcp.rows,
    "search": search.rows,
    "service": service.rows,
    "peers": peers.rows,
    "savers": savers.rows,
    "sessions": sessions.rows,
    "frameworks": frameworks.rows,
    "proxy": proxy.rows,
    "store": store.rows,
    "tables": tables.rows,
    "stores": server_stores.rows,
    "import": importing.rows,
    "index": index.rows,
    "recorded": recorded.rows,
    "growth": growth.rows,
    "attribution": attribution.rows,
    "grown": lambda: [*grown.rows(), *grown_stores.rows()],
    "watch": grown.watch_rows,
}
RESULTS = Path(__file__).with_name("results.md")


def machine() -> str:
    """Return what the figures were measured on."""
    import os

    names = ("msgspec", "blake3")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {versions}; Harken {version('harken')}; "
        f"{datetime.now(UTC):%Y-%m-%d}"
    )


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| what | median (min to max) | aim | note |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.value} | {row.aim} | {row.note} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Measure the parts that are named, or all; all are written down."""
    chosen = sys.argv[1:] or list(PARTS)
    rows = [row for name in chosen for row in PARTS[name]()]
    text = (
        f"# What it costs\n\n{machine()}.\n\nMedians of at least {RUNS} runs; a reference is "
        f"measured in turn with what it is for. Shared machines are noisy: trust ratios.\n\n"
        f"{table(rows)}\n"
    )
    sys.stdout.write(text)
    if not sys.argv[1:]:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
