"""Lines with the same origin and their explanation, as `harken why` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harken.attribution.attribution import Attribution
from harken.attribution.commit_record import CommitRecord, find_records
from harken.attribution.explanation import Explanation
from harken.attribution.line_groups import LineGroup, group_origins
from harken.attribution.line_origin import LineOrigin


class ExplainedLines(msgspec.Struct, frozen=True):
    """Lines of a file with the same origin, and the explanation of their edit."""

    path: str
    group: LineGroup
    explanation: Explanation | None
    record: CommitRecord | None = None
    """The records about the commit, of lines without an edit."""

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        group = self.group
        commit = None if group.commit.is_uncommitted else group.commit
        return {
            "path": self.path,
            "lines": sorted({origin.line.number for origin in group.origins}),
            "by": "agent" if group.is_agent else "author",
            "confidence": group.confidence,
            "ratio": round(group.ratio, 3),
            "commit": None
            if commit is None
            else {
                "id": commit.id,
                "author": commit.author,
                "email": commit.author_email,
                "time": datetime.fromtimestamp(commit.author_time, UTC).isoformat(),
                "summary": commit.summary,
            },
            "edit": None if self.explanation is None else _edit_row(self.explanation),
            "record": None if self.record is None else _record_row(self.record),
        }


def explain_origins(
    attribution: Attribution, origins: Mapping[str, Sequence[LineOrigin]]
) -> list[ExplainedLines]:
    """Return lines of files by their origin, those of agents and the largest groups first.

    `origins`: by the path of the file. Raises ConfigError, StoreError.
    """
    rows: list[ExplainedLines] = []
    for path, file_origins in origins.items():
        records = find_records(attribution.repository, file_origins)
        for group in group_origins(file_origins):
            edit = group.edit
            explanation = None if edit is None else attribution.explainer.explain(edit)
            numbers = [origin.line.number for origin in group.origins]
            record = next((records[number] for number in numbers if number in records), None)
            rows.append(ExplainedLines(path, group, explanation, record))
    return sorted(rows, key=lambda row: (not row.group.is_agent, -len(row.group.origins)))


def _record_row(record: CommitRecord) -> dict[str, Any]:
    trace = record.trace
    return {
        "contexts": [*record.contexts],
        "trace": None
        if trace is None
        else {
            "contributor": trace.contributor,
            "model": trace.model,
            "url": trace.url,
            "tool": trace.tool,
        },
    }


def _edit_row(explanation: Explanation) -> dict[str, Any]:
    row = explanation.edit.row
    return {
        "ctx": row.commit,
        "position": row.position,
        "call": explanation.edit.call_id,
        "session": explanation.session,
        "runtime": explanation.runtime,
        "title": explanation.title,
        "agent": explanation.agent or "main",
        "template": explanation.template,
        "model": explanation.model,
        "cost_usd": explanation.cost_usd,
        "time": datetime.fromtimestamp(row.time_us / 1e6, UTC).isoformat(),
        "tool": explanation.tool,
        "path": explanation.edit.edit.path,
        "request": explanation.request,
        "task": explanation.task,
        "reason": explanation.reason,
        "is_thinking": explanation.is_thinking,
    }
