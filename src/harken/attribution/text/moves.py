"""Find moved lines: runs of added lines that equal runs of removed lines, each used once.

A copy is no move: a line that is still in its old place was typed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harken.attribution.text.line_text import is_informative, line_key

MIN_MOVED_LINES = 2
"""The informative lines of a run that is certainly moved inside of a file."""
MIN_LINES_OF_OTHER_FILE = 3
"""The same between files: a line that is changed there may have been copied before."""


class MovedRun(msgspec.Struct, frozen=True):
    """A run of added lines and the equal run of removed lines."""

    target: int
    """The index of the first added line."""
    source: int
    """The index of the first removed line in the list of them."""
    size: int
    informative_size: int
    """The number of its lines with enough information."""


def find_moves(added: Mapping[int, str], removed: Sequence[tuple[int, str]]) -> list[MovedRun]:
    """Return the moved runs.

    `added`: added lines by their index. `removed`: removed lines with their numbers; those with
    consecutive numbers are neighbors.
    """
    return _MoveFinder(added, removed).run()


class _MoveFinder:
    """Matches added lines with removed ones, each used once."""

    def __init__(self, added: Mapping[int, str], removed: Sequence[tuple[int, str]]) -> None:
        self._added = {index: line_key(text) for index, text in added.items()}
        self._texts = added
        self._numbers = [number for number, _ in removed]
        self._keys = [line_key(text) for _, text in removed]
        self._free = set(range(len(removed)))

    def run(self) -> list[MovedRun]:
        """Return the runs, in the order of the added lines."""
        by_key: dict[str, list[int]] = {}
        for index, key in enumerate(self._keys):
            by_key.setdefault(key, []).append(index)
        runs: list[MovedRun] = []
        end = -1
        for target in sorted(self._added):
            starts = by_key.get(self._added[target], ()) if self._added[target] else ()
            sizes = {start: self._run_size(target, start) for start in starts}
            if target < end or not any(sizes.values()):
                continue
            source = max(sizes, key=lambda start: (sizes[start], -start))
            size = sizes[source]
            lines = [self._texts[target + offset] for offset in range(size)]
            runs.append(MovedRun(target, source, size, sum(map(is_informative, lines))))
            self._free -= set(range(source, source + size))
            end = target + size
        return runs

    def _run_size(self, target: int, source: int) -> int:
        """Return the number of equal lines from an added and a removed line on."""
        size = 0
        while (
            source + size in self._free
            and self._numbers[source + size] == self._numbers[source] + size
            and self._keys[source + size] == self._added.get(target + size)
        ):
            size += 1
        return size
