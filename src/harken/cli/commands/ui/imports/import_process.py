"""The process of an import that the page started: it imports, and reports its state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from harken.capture.files.report import ImportProgress, ImportResult, Report
from harken.capture.files.sources import find_histories, sort_for_import
from harken.cli.commands.import_.run import default_jobs, import_files
from harken.config.home import Home
from harken.config.identity import load_identity
from harken.config.index import read_facts
from harken.core import structs
from harken.executors.workers import Workers
from harken.service.viewer.home_pages.imports import ImportPhase, ImportProblem, ImportState

_REPORT_S = 0.2
"""The state is reported so often at most."""
_MAX_PROBLEMS = 200
_MAX_CHARS = 500


class ImportArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an import."""

    folder: str
    """The home."""
    user_folder: str
    environ: Mapping[str, str]
    runtimes: Sequence[str]
    began: str


class _Cancelled(Exception):
    """The user has cancelled the import, or the server has ended."""


def run_import(connection: Connection, arguments: ImportArguments) -> None:
    """Import the chosen runtimes, and index the new sessions. Raises HarkenError."""
    job = _Job(connection, arguments)
    try:
        job.run()
    except _Cancelled:
        job.end("cancelled")


class _Job:
    """A running import."""

    def __init__(self, connection: Connection, arguments: ImportArguments) -> None:
        self._connection, self._arguments = connection, arguments
        self._home = Home(arguments.folder)
        self._state = ImportState(
            phase="searching", runtimes=[*arguments.runtimes], began=arguments.began
        )
        self._sessions: set[tuple[str, str]] = set()
        self._report_at = 0.0

    def run(self) -> None:
        """Import, then index. Raises _Cancelled, HarkenError."""
        arguments = self._arguments
        identity = load_identity({}, arguments.environ, is_local=False)
        histories = find_histories(Path(arguments.user_folder), arguments.environ)
        files = sort_for_import(
            file
            for history in histories
            if history.place.runtime in arguments.runtimes
            for file in history.files
        )
        self._home.create_folders()
        size = sum(file.size for file in files)
        self._change(phase="reading", of_files=len(files), of_size_bytes=size)
        outcome = import_files(
            self._home,
            files,
            workers=Workers(jobs=default_jobs()),
            identity=identity,
            on_progress=self._on_progress,
            on_result=self._on_result,
        )
        if outcome.redacted is not None:
            self._change(redacted=sum(outcome.redacted.kinds.values()))
        self._change(phase="indexing")
        self._send()
        read_facts(self._home, lambda _facts, _store: None)
        self.end("done")

    def end(self, phase: ImportPhase) -> None:
        """Report the end of the import."""
        end_time = datetime.now(UTC).isoformat(timespec="seconds")
        self._state = structs.replace(self._state, phase=phase, ended=end_time)
        self._send()

    def _on_progress(self, to: ImportProgress) -> None:
        self._change(
            files=to.files,
            of_files=to.of_files,
            size_bytes=to.size_bytes,
            of_size_bytes=to.of_size_bytes,
        )

    def _on_result(self, result: ImportResult) -> None:
        report, state = result.report, self._state
        if result.new:
            self._sessions.add((report.runtime, report.session or report.source))
        problem = _find_problem(report)
        problems = state.problems
        if problem is not None and len(problems) < _MAX_PROBLEMS:
            problems = [*problems, problem]
        self._change(
            sessions=len(self._sessions),
            commits=state.commits + result.new,
            messages=state.messages + result.new_messages,
            unchanged=state.unchanged + result.is_unchanged,
            unknown=state.unknown + report.is_unknown,
            problems=problems,
            problem_count=state.problem_count + (problem is not None),
        )

    def _change(self, **members: Any) -> None:
        """Change the state, and report it if the last report was some time ago.

        Raises _Cancelled.
        """
        self._state = structs.replace(self._state, **members)
        if self._connection.poll():  # The user has cancelled, or the server has ended.
            raise _Cancelled
        if time.monotonic() >= self._report_at:
            self._send()

    def _send(self) -> None:
        self._connection.send(self._state)
        self._report_at = time.monotonic() + _REPORT_S


def _find_problem(report: Report) -> ImportProblem | None:
    """Return why a file was not imported completely. Return None if it was."""
    if report.has_failed:
        reason, is_partial = report.reason, False
    elif report.format is not None and report.bad_lines:
        first = report.bad[0]
        lines = "1 line" if report.bad_lines == 1 else f"{report.bad_lines} lines"
        reason = f"{lines} could not be parsed; the first is line {first.line} ({first.reason})"
        is_partial = True
    else:
        return None
    return ImportProblem(
        source=report.source[-_MAX_CHARS:], reason=reason[:_MAX_CHARS], is_partial=is_partial
    )
