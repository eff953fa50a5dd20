"""List the logs of a folder with their status, without opening a plain log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harken.session.log.compressed import LogStat, log_path, stat_log


def stat_logs(folder: Path) -> dict[Path, LogStat]:
    """Return the status of all logs in a folder, plain or compressed, the last written first.

    A plain log costs one call of the system, which matters for ten thousand of them.
    """
    stats: dict[Path, LogStat] = {}
    packs: set[Path] = set()
    for name, stat in _iter_files(folder):
        path = folder / name
        if name.endswith(".jsonl"):
            stats[path] = LogStat(stat.st_size, stat.st_mtime_ns, stat.st_size)
        elif ".jsonl" in name:
            packs.add(log_path(path))
    packed_paths = [path for path in packs - stats.keys() if path.suffix == ".jsonl"]
    stats |= {path: stat_log(path) for path in packed_paths}
    newest_first = sorted(
        stats.items(), key=lambda item: (item[1].modified_ns, item[0]), reverse=True
    )
    return dict(newest_first)


def _iter_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names and stats of the files in a folder, or none if it does not exist."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # It was removed since.
                if entry.is_file():
                    yield entry.name, entry.stat()
