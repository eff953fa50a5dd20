"""The share of agents and persons in the files of a folder, by folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from harken.attribution.attribution import Attribution
from harken.attribution.shares import Share, count_lines, group_by_folder
from harken.errors import ConfigError


class FolderShares(msgspec.Struct, frozen=True):
    """The shares of the files below a folder."""

    folder: str
    """Below the top folder, which itself is empty."""
    shares: Mapping[str, Share]
    """By the path of the file."""
    skipped: list[str]
    """The files that have no lines of text."""

    def as_json(self) -> dict[str, Any]:
        """Return the rows for programs: the folders directly below, and their sum."""
        folders = group_by_folder({**self.shares}, self.folder)
        return {
            "folders": [{"path": path, **share.as_json()} for path, share in folders.items()],
            "total": Share.sum(self.shares.values()).as_json(),
        }


def count_files(
    attribution: Attribution,
    folder: str,
    paths: Iterable[str],
    tell: Callable[[int, int], None] = lambda _count, _total: None,
    count: Callable[[str], Share] | None = None,
) -> FolderShares:
    """Return the shares of files below a folder. Raises ConfigError, StoreError.

    `count`: returns the share of a file in place of `count_file`.
    """
    shares: dict[str, Share] = {}
    skipped: list[str] = []
    all_paths = [*paths]
    for number, path in enumerate(all_paths, start=1):
        try:
            shares[path] = count_file(attribution, path) if count is None else count(path)
        except ConfigError:
            skipped.append(path)
        tell(number, len(all_paths))
    return FolderShares(folder, shares, skipped)


def count_file(attribution: Attribution, path: str) -> Share:
    """Return the share of writers in a file. Raises ConfigError if it is no text file."""
    attribution.files.read_file(attribution.files.resolve_top_path(path))
    origins = attribution.origins(path)
    return count_lines(origins, attribution.find_writers(origins))
