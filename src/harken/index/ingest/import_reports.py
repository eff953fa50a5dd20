"""Update sessions from import reports: title, folder, version, outcome, source file, and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

import apsw
import msgspec

from harken.formats.runtimes.evaluation import Label, Score
from harken.formats.runtimes.registry import list_runtime_formats
from harken.index.ingest.evaluations import write_labels, write_scores
from harken.index.ingest.outcomes import OutcomeSource, note_outcome
from harken.index.ingest.row_writer import time_us
from harken.index.message_text import to_utf8
from harken.index.report_sessions import split_report


class _Tip(msgspec.Struct, frozen=True):
    agent: str = ""
    session: str = ""


class _SessionOfSeveral(msgspec.Struct, frozen=True):
    session: str = ""
    title: str = ""
    end_time: str = msgspec.field(name="ended", default="")
    outcome: str = ""
    scores: tuple[Score, ...] = ()
    labels: tuple[Label, ...] = ()


class ImportedMetadata(msgspec.Struct, frozen=True):
    """The members of an import report that the index uses."""

    source: str = ""
    format: str | None = None
    session: str = ""
    title: str = ""
    folder: str = ""
    version: str = ""
    outcome: str = ""
    end_time: str = msgspec.field(name="ended", default="")
    tips: tuple[_Tip, ...] = ()
    scores: tuple[Score, ...] = ()
    labels: tuple[Label, ...] = ()
    sessions: tuple[_SessionOfSeveral, ...] = ()

    @property
    def is_main(self) -> bool:
        """Whether this is the file of the main conversation."""
        return self.tips[0].agent == "main"


_decoder = msgspec.json.Decoder(ImportedMetadata)


def update_sessions(database: apsw.Connection, records: Iterable[bytes]) -> None:
    """Update sessions from import reports; the file of the main conversation takes precedence."""
    runtimes = {native.name: native.runtime for native in list_runtime_formats()}
    reports: list[tuple[ImportedMetadata, str]] = []
    for record in records:
        try:
            report = _decoder.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        runtime = runtimes.get(report.format or "")
        if runtime is not None:
            reports += [(part, runtime) for part in split_report(report) if part.tips]
    reports.sort(key=lambda item: item[0].is_main)
    rows = [_build_row(*item) for item in reports]
    database.executemany(_UPDATE_SQL, rows)
    for row in filter(itemgetter("is_main"), rows):
        if row["outcome"]:
            _note_outcome(database, row)
    _write_evaluations(database, [*zip((report for report, _ in reports), rows, strict=True)])


def _write_evaluations(
    database: apsw.Connection,
    reports: Iterable[tuple[ImportedMetadata, Mapping[str, str | int | None]]],
) -> None:
    """Write the scores and labels of sessions, in place of earlier ones.

    Of several files of a session, the last one with scores or labels counts.
    """
    database.execute("DELETE FROM scores")
    database.execute("DELETE FROM labels")
    evaluated = {row["name"]: report for report, row in reports if report.scores or report.labels}
    for name, report in evaluated.items():
        for (session,) in database.execute("SELECT id FROM sessions WHERE name = ?", (name,)):
            write_scores(database, session, report.scores)
            write_labels(database, session, report.labels)


def _note_outcome(database: apsw.Connection, row: Mapping[str, str | int | None]) -> None:
    for (session,) in database.execute("SELECT id FROM sessions WHERE name = ?", (row["name"],)):
        time_us = None if row["ended"] is None else int(row["ended"])
        note_outcome(database, session, OutcomeSource.FILE, str(row["outcome"]), time_us)


def _build_row(report: ImportedMetadata, runtime: str) -> dict[str, str | int | None]:
    return {
        "name": to_utf8(f"{runtime}:{report.session}"),
        "source": to_utf8(report.source),
        "title": to_utf8(report.title),
        "project": to_utf8(report.folder),
        "version": to_utf8(report.version),
        "outcome": to_utf8(report.outcome) or None,
        "ended": time_us(report.end_time) if report.outcome and report.end_time else None,
        "is_main": report.is_main,
    }


_UPDATE_SQL = """
UPDATE sessions SET source = :source,
title = CASE WHEN :title <> '' AND (:is_main OR title = '') THEN :title ELSE title END,
project = CASE WHEN :project <> '' THEN :project ELSE project END,
version = CASE WHEN :version <> '' THEN :version ELSE version END
WHERE name = :name
"""
