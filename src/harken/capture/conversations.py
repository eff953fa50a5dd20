"""Conversations that were imported, by the names that people have for them.

One idea: a conversation is a commit. Whoever has another name for it, the runtime's own or that of
its file, is told by the catalogue which one; and of a commit it says where the runtime worked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harken.capture.importing import MAIN
from harken.capture.report import Report
from harken.context.names import PREFIX, find
from harken.core.commits import CommitId
from harken.errors import AmbiguousName, ConfigError, UnknownName
from harken.formats.natives import natives
from harken.index.catalogue import Catalogue
from harken.store.base import Store

_LISTED = 12


@dataclass(frozen=True, slots=True)
class Conversation:
    """A commit, and what is known of the file that it was read from."""

    ctx: CommitId
    runtime: str = ""
    """Empty: it was not imported."""
    folder: str = ""
    """Where the runtime worked, as the file says: hostile."""
    title: str = ""


def find_conversation(store: Store, catalogue: Catalogue, given: str) -> Conversation:
    """Return the conversation that a person means.

    given: a commit or its unique beginning; `claude:UUID`, the UUID, or their unique beginnings; or
    a file that was imported. Raises UnknownName, AmbiguousName, ConfigError.
    """
    if given.startswith(PREFIX):
        return _of_commit(store, catalogue, find(store, given))
    if given and (os.sep in given or Path(given).exists()):
        return _of_file(catalogue, given)
    names = _sessions(catalogue)
    fitting = {
        name: report
        for name, report in names.items()
        if given and (name.startswith(given) or report.session.startswith(given))
    }
    exact = {
        name: report for name, report in fitting.items() if given in (name, report.session)
    } or fitting
    if len(exact) > 1:
        raise AmbiguousName("session", given, sorted(exact))
    if not exact:
        known = [f"commits ({PREFIX}...)", *list(names)[: -_LISTED - 1 : -1]]
        raise UnknownName("session", given, known)
    ((name, report),) = exact.items()
    return _of_report(report, name)


def _of_commit(store: Store, catalogue: Catalogue, ctx: CommitId) -> Conversation:
    stored = store.commits([ctx])
    principal = stored[ctx].commit.principal if ctx in stored else ""
    for name, report in _sessions(catalogue).items():
        if principal == name or principal.startswith(f"{name}/"):
            return Conversation(ctx, name.partition(":")[0], report.folder, report.title)
    return Conversation(ctx)


def _of_file(catalogue: Catalogue, path: str) -> Conversation:
    name = os.path.abspath(path)  # noqa: PTH100 - links stay as they are, as where it was imported
    known = catalogue.known([name]).get(name)
    report = None if known is None else _read(known.record)
    if report is None or not report.tips:
        there = "holds no conversation" if report else "was not imported; see `harken import`"
        raise ConfigError(f"{path}: this {there}")
    return _of_report(report, _name(report))


def _of_report(report: Report, name: str) -> Conversation:
    ctx, runtime = CommitId(report.tips[0].ctx), name.partition(":")[0]
    return Conversation(ctx, runtime, report.folder, report.title)


def _sessions(catalogue: Catalogue) -> dict[str, Report]:
    """Return what was told last of each session, the newest last; of its main file, if known."""
    found: dict[str, Report] = {}
    for report in _reports(catalogue):
        name = _name(report)
        before = found.get(name)
        if before is None or not _is_main(before) or _is_main(report):
            found.pop(name, None)
            found[name] = report
    return found


def _reports(catalogue: Catalogue) -> Iterator[Report]:
    for record in catalogue.records():
        report = _read(record)
        if report is not None and report.tips and report.session:
            yield report


def _read(record: bytes) -> Report | None:
    try:
        return msgspec.json.decode(record, type=Report)
    except msgspec.DecodeError:
        return None


def _name(report: Report) -> str:
    runtimes = {native.name: native.runtime for native in natives()}
    return f"{runtimes.get(report.format or '', '?')}:{report.session}"


def _is_main(report: Report) -> bool:
    return report.tips[0].agent == MAIN
