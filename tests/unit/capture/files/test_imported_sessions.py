"""Sessions of other runtimes, listed and resolved from catalogue records."""

from __future__ import annotations

import msgspec

from harken.capture.files.imported_sessions import (
    ImportedConversation,
    ImportedSession,
    Subagent,
    find_branch_tips,
    find_conversation,
    list_imported_sessions,
)
from harken.capture.files.report import ConversationTip, Report
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.formats.base import ConversationEntry
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.store.memory import MemoryStore

NOON = "2026-01-31T12:00:00.000000Z"
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


def test_position_in_a_file_is_that_of_its_own_main_conversation() -> None:
    tips = (ConversationTip("main", ONE), ConversationTip("ann", OTHER))
    (session,) = sessions(
        report("a", "s", ended="2026-02-02T", tips=tips),
        report("b", "s", ended="2026-02-01T", tips=(ConversationTip("main", OTHER),)),
    )
    assert session.tip_of("/files/a") == ONE
    assert session.tip_of("/files/x/../b") == OTHER
    assert session.has_source("/files/./a")
    assert not session.has_source("/files/c")


def test_session_with_equal_times_is_sorted_by_name() -> None:
    names = [
        session.native
        for session in sessions(*(report(n, n, ended="2026-02-01T") for n in ("b", "c", "a")))
    ]
    assert names == ["c", "b", "a"]


def test_title_and_folder_are_those_of_the_first_source_that_has_one() -> None:
    (session,) = sessions(
        report("a", "s", ended="2026-02-02T", title="", folder="/new"),
        report("b", "s", ended="2026-02-01T", title="Old", folder="/old"),
    )
    assert (session.title, session.project) == ("Old", "/new")
    (session,) = sessions(report("a", "s", title=""))
    assert (session.title, session.project) == ("", "")


def test_subagents_are_those_with_a_transcript_of_their_own() -> None:
    aside = {"tips": (ConversationTip("ann", OTHER),), "agent_type": "cook", "task": "Tea"}
    (session,) = sessions(
        report("a", "s", ended="2026-02-03T"),
        report("b", "s", ended="2026-02-02T", **aside),
        report("c", "s", ended="2026-02-01T", **aside),
    )
    assert session.subagents == [Subagent("ann", "cook", "Tea")]
    assert [(tip.agent, tip.ctx) for tip in session.branch_tips] == [("main", ONE), ("ann", OTHER)]


def test_spawned_sessions_follow_level_by_level() -> None:
    commits = {
        name: CommitId("ctx-" + digit * 64) for name, digit in zip("abcd", "3456", strict=True)
    }
    catalogue = create_catalogue(
        *(report(n, n, tips=(ConversationTip(n, ctx),)) for n, ctx in commits.items())
    )
    for above, below in (("a", "b"), ("a", "c"), ("b", "d"), ("d", "a")):
        catalogue.note_spawner("codex", above, below, ONE)
    catalogue.commit()
    all_sessions = list_imported_sessions(catalogue)
    first = next(session for session in all_sessions if session.native == "a")
    tips = find_branch_tips(first, all_sessions, catalogue)
    assert [tip.agent for tip in tips] == ["a", "b", "c", "d"]


def test_conversation_of_a_commit_is_found_by_its_session() -> None:
    store = MemoryStore()
    entries = [ConversationEntry(Message("user", "Hi"))]
    origin = CommitOrigin(session_id="codex:s")
    ctx = checkpoint(store, CommitDraft(entries=entries, origin=origin, created_at=NOON))
    native = checkpoint(store, CommitDraft(entries=entries, created_at=NOON))
    (session,) = sessions(report("a", "s", folder="/cafe"))
    assert find_conversation(store, [session], ctx) == ImportedConversation(
        ctx, "codex", "/cafe", "Tea"
    )
    for other in (native, ONE):
        assert find_conversation(store, [session], other) == ImportedConversation(other)
