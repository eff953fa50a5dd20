"""Import files of other runtimes into a home: the work of `harken import` and of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from harken.config.home import Home
from harken.config.imported_sessions import open_catalogue, repair_imports
from harken.config.settings import load_settings
from harken.config.store import open_or_create_store

if TYPE_CHECKING:
    from harken.capture.files.report import ImportProgress, ImportResult
    from harken.capture.files.sources import File
    from harken.context.checkpoint import CommitIdentity
    from harken.core.secrets.redaction import Credentials
    from harken.executors.workers import Workers

MAX_JOBS = 4
"""The maximum number of readers. More are not faster: a single process writes."""


class ImportOutcome(NamedTuple):
    """The results of an import, and the credentials that were removed from the files."""

    results: list[ImportResult]
    redacted: Credentials | None
    lost_workers: int
    """The number of times that work was repeated because a worker had died."""


def default_jobs() -> int:
    """Return the number of reader processes for this machine."""
    return min(os.cpu_count() or 1, MAX_JOBS)


def import_files(
    home: Home,
    files: Sequence[File],
    *,
    workers: Workers,
    identity: CommitIdentity,
    on_progress: Callable[[ImportProgress], None],
    on_result: Callable[[ImportResult], None],
) -> ImportOutcome:
    """Import files into the store of a home, which is created if it does not exist.

    `on_progress` is called after each file that was read, `on_result` when it is in the store. An
    exception of either ends the import; what is in the store stays. A damaged catalogue is
    repaired, and all files are then tried again. Raises ConfigError, StoreError.
    """
    from harken.capture.files.importer import Importer
    from harken.index.database import run_with_repair

    def run() -> ImportOutcome:
        results: list[ImportResult] = []
        redact = load_settings(home).credentials()
        with open_or_create_store(home) as store, closing(open_catalogue(home)) as catalogue:
            importer = Importer(store, catalogue, workers=workers, identity=identity, redact=redact)
            for result in importer.run(files, on_progress):
                results.append(result)
                on_result(result)
            catalogue.mark_complete()
        return ImportOutcome(results, redact, importer.lost_workers)

    return run_with_repair(run, {home.index_file: repair_imports})
