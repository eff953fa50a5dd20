"""Sessions of other runtimes, listed and resolved from catalogue records."""

from __future__ import annotations

import msgspec

from harken.capture.files.imported_sessions import (
    ImportedSession,
    find_branch_tips,
    list_imported_sessions,
)
from harken.capture.files.report import ConversationTip, Report
from harken.core.commits import CommitId
from harken.index.catalogue import Catalogue, FileFingerprint

ONE, OTHER = (CommitId("ctx-" + digit * 64) for digit in "12")


def create_catalogue(*reports: Report | bytes) -> Catalogue:
    """Return a catalogue with these reports; `bytes` reports are damaged or of a newer version."""
    catalogue = Catalogue(None)
    for number, report in enumerate(reports):
        name = report.source if isinstance(report, Report) else f"/odd/{number}"
        record = report if isinstance(report, bytes) else msgspec.json.encode(report)
        catalogue.note(name, FileFingerprint(100, number, b""), record)
    catalogue.commit()
    return catalogue


def report(name: str, session: str = "", **members: object) -> Report:
    report_record = Report(
        source=f"/files/{name}", format="codex-v1", runtime="codex", session=session, title="Tea"
    )
    tips = members.pop("tips", (ConversationTip("main", ONE),))
    return msgspec.structs.replace(report_record, tips=tips, **members)


def sessions(*reports: Report | bytes) -> list[ImportedSession]:
    return list_imported_sessions(create_catalogue(*reports))


def test_session_joins_all_sources_with_its_id() -> None:
    aside = report(
        "agent-ann", "s", title="", tips=(ConversationTip("ann", OTHER),), ended="2026-02-02T"
    )
    (session,) = sessions(aside, report("main", "s", folder="/cafe", ended="2026-02-01T"))
    assert (session.name, session.title, session.project) == ("codex:s", "Tea", "/cafe")
    assert session.sources == ["/files/main", "/files/agent-ann"]
    assert [(end.agent, end.ctx) for end in session.branch_tips] == [("main", ONE), ("ann", OTHER)]
    assert (session.size_bytes, session.last_message_time) == (200, "2026-02-02T")


def test_session_position_is_the_newest_of_its_positions() -> None:
    early, late = report("a", "s", ended="2026-02-01T"), report("b", "s", ended="2026-02-02T")
    (session,) = sessions(
        early, msgspec.structs.replace(late, tips=(ConversationTip("main", OTHER),))
    )
    assert [end.ctx for end in session.branch_tips] == [OTHER, ONE]


def test_sessions_are_sorted_by_last_message_else_file_time() -> None:
    found_sessions = sessions(
        report("a", "old", ended="2026-02-01T00:00:00Z"),
        report("b", "undated"),
        report("c", "new", ended="2026-02-02T00:00:00Z"),
    )
    assert [session.native for session in found_sessions] == ["new", "old", "undated"]
    assert found_sessions[-1].last_message_time.startswith("1970-01-01T")


def test_unread_or_outdated_sources_are_no_session() -> None:
    assert (
        sessions(report("a", "s", format=None), report("b", "s", tips=()), b"{", b'{"x":1}') == []
    )


def test_source_without_session_id_is_named_after_its_file() -> None:
    (session,) = sessions(report("tea.jsonl"))
    assert session.name == "codex:tea"


def test_subagent_session_is_part_of_its_parent_session() -> None:
    catalogue = create_catalogue(
        report("a", "above"),
        report("b", "below", tips=(ConversationTip("below", OTHER),)),
        report("c", "else"),
    )
    for above, below in (("above", "below"), ("below", "above"), ("above", "gone")):
        catalogue.note_spawner("codex", above, below, ONE)
    catalogue.commit()
    all_sessions = list_imported_sessions(catalogue)
    tips = find_branch_tips(
        next(session for session in all_sessions if session.native == "above"),
        all_sessions,
        catalogue,
    )
    assert [(end.agent, end.ctx) for end in tips] == [("main", ONE), ("below", OTHER)]


def test_raw_files_are_those_that_the_store_has_once_each() -> None:
    raw = "art-" + "3" * 64
    (session,) = sessions(
        report("a", "s", raw=raw), report("b", "s", raw=raw), report("c", "s", raw=None)
    )
    assert session.raw_files == [raw]
