"""The lines of a file with their agents, as `harken blame` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harken.attribution.attribution import Attribution
from harken.attribution.commit_record import CommitRecord, find_records
from harken.attribution.explanation import EditWriter
from harken.attribution.line_origin import LineOrigin


class BlamedFileLine(msgspec.Struct, frozen=True):
    """A line, the writer of its edit, and the contexts that its commit names."""

    origin: LineOrigin
    writer: EditWriter
    contexts: Sequence[str]

    @property
    def time(self) -> datetime | None:
        """The time of the edit, or of the commit. An uncommitted line of a person has None."""
        if self.origin.is_agent and self.origin.edit is not None:
            return datetime.fromtimestamp(self.origin.edit.row.time_us / 1e6, UTC)
        commit = self.origin.commit
        return None if commit.is_uncommitted else datetime.fromtimestamp(commit.author_time, UTC)

    @property
    def session(self) -> str | None:
        """The session of the edit that the line comes from."""
        return None if self.origin.edit is None else self.origin.edit.row.session

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        origin, time = self.origin, self.time
        edit, commit = origin.edit, origin.commit
        return {
            "line": origin.line.number,
            "text": origin.line.text,
            "by": "agent" if origin.is_agent else "author",
            "confidence": origin.confidence,
            "ratio": round(origin.ratio, 3),
            "time": None if time is None else time.isoformat(),
            "commit": None if commit.is_uncommitted else commit.id,
            "summary": "" if commit.is_uncommitted else commit.summary,
            "author": commit.author,
            "contexts": [*self.contexts],
            "edit": None
            if edit is None
            else {
                "ctx": edit.row.commit,
                "call": edit.call_id,
                "session": edit.row.session,
                "runtime": self.writer.runtime,
                "agent": self.writer.agent or "main",
                "model": self.writer.model,
                "time": datetime.fromtimestamp(edit.row.time_us / 1e6, UTC).isoformat(),
            },
        }


def blame_lines(
    attribution: Attribution,
    path: str,
    ranges: Sequence[tuple[int, int]] = (),
    revision: str = "",
) -> list[BlamedFileLine]:
    """Return the lines of a file, all without `ranges`, with their writers. Raises ConfigError."""
    origins = attribution.origins(path, ranges, revision)
    writers = attribution.find_writers(origins)
    records = find_records(attribution.repository, origins)
    unknown = EditWriter("", "", "")
    return [
        BlamedFileLine(
            origin,
            unknown if origin.edit is None else writers[origin.edit.row.id],
            records.get(origin.line.number, CommitRecord()).contexts,
        )
        for origin in origins
    ]
