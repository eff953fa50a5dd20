"""The share of agents and persons in the lines of folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from harken.attribution.explanation import EditWriter
from harken.attribution.line_origin import LineOrigin


class LineWriter(msgspec.Struct, frozen=True, order=True):
    """An agent of a runtime with a model, or a person."""

    is_agent: bool
    name: str
    """The runtime of an agent, or the author of commits."""
    model: str = ""


class Share(msgspec.Struct):
    """The lines with text in a folder, by their writers."""

    lines: Counter[LineWriter] = msgspec.field(default_factory=Counter)
    uncertain: int = 0
    """The lines of persons that may be of an agent."""
    files: int = 0

    @property
    def total(self) -> int:
        """The number of lines."""
        return self.lines.total()

    @property
    def agent_lines(self) -> int:
        """The number of lines that agents wrote."""
        return sum(count for writer, count in self.lines.items() if writer.is_agent)

    def add(self, other: Share) -> None:
        """Add the lines of another share."""
        self.lines += other.lines
        self.uncertain += other.uncertain
        self.files += other.files

    @classmethod
    def sum(cls, shares: Iterable[Share]) -> Share:
        """Return the sum of shares."""
        total = cls()
        for share in shares:
            total.add(share)
        return total

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs, the largest share first."""
        return {
            "files": self.files,
            "lines": self.total,
            "agent_lines": self.agent_lines,
            "uncertain_lines": self.uncertain,
            "agents": [
                {"runtime": writer.name, "model": writer.model, "lines": count}
                for writer, count in self.lines.most_common()
                if writer.is_agent
            ],
            "persons": [
                {"name": writer.name, "lines": count}
                for writer, count in self.lines.most_common()
                if not writer.is_agent
            ],
        }


def count_lines(origins: Iterable[LineOrigin], writers: Mapping[int, EditWriter]) -> Share:
    """Return the share of writers in the lines of a file. Blank lines are not counted.

    `writers`: by the id of the row of their edit.
    """
    share = Share(files=1)
    for origin in origins:
        if not origin.line.text.strip():
            continue
        if origin.is_agent and origin.edit is not None:
            agent = writers[origin.edit.row.id]
            writer = LineWriter(True, agent.runtime, agent.model)
        else:
            writer = LineWriter(False, origin.commit.author)
        share.lines[writer] += 1
        share.uncertain += origin.confidence == "uncertain"
    return share


def group_by_folder(shares: dict[str, Share], folder: str) -> dict[str, Share]:
    """Return the shares of the folders directly below a folder, and of its own files.

    `shares`: by the path of a file. `folder`: empty for the top folder.
    """
    groups: dict[str, Share] = {}
    prefix = f"{folder}/" if folder else ""
    for path, share in sorted(shares.items()):
        first, slash, _ = path.removeprefix(prefix).partition("/")
        groups.setdefault(f"{prefix}{first}/" if slash else prefix or "./", Share()).add(share)
    return groups
