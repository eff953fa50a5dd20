"""`ImportedSession`: the conversations of other runtimes, as listed in the catalogue.

A session consists of all sources with the same session id: its subagents, copies of it, and itself
at several times. Listing sessions reads only the catalogue. Showing a session reads its commits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harken.capture.files.report import MAIN_AGENT, ConversationTip
from harken.core.clock import format_rfc3339
from harken.core.commits import ArtifactRef, CommitId
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.index.report_sessions import split_report
from harken.recording.from_commits.branches import BranchTip
from harken.store.base import Store


class _SessionOfSeveral(msgspec.Struct, frozen=True):
    session: str = ""
    title: str = ""
    ended: str = ""


class _SessionReport(msgspec.Struct, frozen=True):
    """The fields of a report that describe its session."""

    source: str
    format: str | None = None
    runtime: str = ""
    tips: tuple[ConversationTip, ...] = ()
    session: str = ""
    title: str = ""
    folder: str = ""
    ended: str = ""
    raw: str | None = None
    agent_type: str = ""
    task: str = ""
    sessions: tuple[_SessionOfSeveral, ...] = ()


class Subagent(msgspec.Struct, frozen=True):
    """A subagent with its own transcript."""

    agent: str
    agent_type: str
    """Its type. Empty if it is unknown."""
    task: str
    """A short description of its task. Empty if it is unknown."""


class _Part(msgspec.Struct, frozen=True):
    """A source of a session."""

    report: _SessionReport
    fingerprint: FileFingerprint

    @property
    def last_message_time(self) -> str:
        """The time of the last message.

        If the source has none, the modification time of the file.
        """
        return self.report.ended or format_rfc3339(self.fingerprint.mtime_ns // 1000)

    @property
    def is_aside(self) -> bool:
        """Whether it contains only a subagent."""
        return self.report.tips[0].agent != MAIN_AGENT


class ImportedSession(msgspec.Struct, frozen=True):
    """A session that another runtime wrote."""

    runtime: str
    native: str
    """The runtime's id of the session. If it has none, the name of its file."""
    parts: Sequence[_Part]
    """Its sources: the main conversation before subagents, the newest first."""

    @property
    def name(self) -> str:
        """The display name: `claude:0f1e...`."""
        return f"{self.runtime}:{self.native}"

    @property
    def title(self) -> str:
        """The title of the session. Empty if it has none."""
        return next((part.report.title for part in self.parts if part.report.title), "")

    @property
    def project(self) -> str:
        """The working folder of the runtime."""
        return next((part.report.folder for part in self.parts if part.report.folder), "")

    @property
    def last_message_time(self) -> str:
        """The time of the last message: UTC, RFC 3339."""
        return max(part.last_message_time for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """The total size of its sources."""
        return sum(part.fingerprint.size for part in self.parts)

    @property
    def sources(self) -> list[str]:
        """The files that it was read from."""
        return [part.report.source for part in self.parts]

    @property
    def subagents(self) -> list[Subagent]:
        """Its subagents that have their own transcripts, without duplicates."""
        reports = (part.report for part in self.parts if part.is_aside)
        by_agent = {
            report.tips[0].agent: Subagent(report.tips[0].agent, report.agent_type, report.task)
            for report in reports
        }
        return [*by_agent.values()]

    def has_source(self, path: str) -> bool:
        """Whether this file is one of its sources."""
        return os.path.abspath(path) in self.sources  # noqa: PTH100 - links stay as they are

    def tip_of(self, path: str) -> CommitId:
        """Return the last commit of the main conversation in one of its files."""
        index = self.sources.index(os.path.abspath(path))  # noqa: PTH100 - as above
        return CommitId(self.parts[index].report.tips[0].ctx)

    @property
    def raw_files(self) -> list[ArtifactRef]:
        """The artifacts with the bytes of its sources, without duplicates."""
        raw = (part.report.raw for part in self.parts if part.report.raw is not None)
        return [ArtifactRef(name) for name in dict.fromkeys(raw)]

    @property
    def branch_tips(self) -> list[BranchTip]:
        """The tips of its conversations, the main one first, without duplicates."""
        tips = ((tip.agent, tip.ctx) for part in self.parts for tip in part.report.tips)
        return [BranchTip(agent, CommitId(ctx)) for agent, ctx in dict.fromkeys(tips)]


def build_session(
    name: tuple[str, str],
    *,
    source: Path,
    tips: Sequence[BranchTip],
    title: str,
    ended: str,
    size_bytes: int,
) -> ImportedSession:
    """Return a session that another program keeps in a file of Harken, with commits of it.

    name: the runtime, and its id of the session.
    """
    report = _SessionReport(
        source=str(source),
        format=name[0],
        runtime=name[0],
        tips=tuple(ConversationTip(tip.agent, tip.ctx) for tip in tips),
        session=name[1],
        title=title,
        ended=ended,
    )
    return ImportedSession(*name, [_Part(report, FileFingerprint(size_bytes, 0, b""))])


def list_imported_sessions(catalogue: Catalogue, text: str = "") -> list[ImportedSession]:
    """Return all imported sessions, the newest first.

    With a text, return at least the sessions that have it in their ids or their runtimes, and of
    others at least the sources that have it in their paths.
    """
    # Each report has the runtime and the id of its session; or the id is in the path.
    parts: dict[tuple[str, str], list[_Part]] = {}
    for path, cached in catalogue.iter_entries(text):
        try:
            report = _reports.decode(cached.record)
        except msgspec.DecodeError:
            continue  # The record has another version. The next import reads the file again.
        for part in split_report(report):
            if part.format is not None and part.tips:
                key = (part.runtime or part.format, part.session or Path(path).stem)
                parts.setdefault(key, []).append(_Part(part, cached.fingerprint))
    sessions = [
        ImportedSession(*key, _sort_parts(session_parts)) for key, session_parts in parts.items()
    ]
    return sorted(
        sessions, key=lambda session: (session.last_message_time, session.name), reverse=True
    )


def find_branch_tips(
    session: ImportedSession, others: Iterable[ImportedSession], catalogue: Catalogue
) -> list[BranchTip]:
    """Return the tips of a session and of the sessions that it spawned.

    Some runtimes store a subagent as a separate session.
    """
    by_name = {current.name: current for current in others}
    tips: dict[BranchTip, None] = {}
    pending, seen = [session], {session.name}
    while pending:
        current = pending.pop(0)
        tips |= dict.fromkeys(current.branch_tips)
        for agent in catalogue.spawned(current.runtime, current.native):
            other = by_name.get(f"{current.runtime}:{agent}")
            if other is not None and other.name not in seen:
                seen.add(other.name)
                pending.append(other)
    return list(tips)


def _sort_parts(parts: Iterable[_Part]) -> list[_Part]:
    newest = sorted(parts, key=lambda part: part.last_message_time, reverse=True)
    return sorted(newest, key=lambda part: part.is_aside)


_reports = msgspec.json.Decoder(_SessionReport)


class ImportedConversation(msgspec.Struct, frozen=True):
    """A commit, and the session that it was imported from."""

    ctx: CommitId
    runtime: str = ""
    """Empty if it was not imported."""
    folder: str = ""
    """The working folder according to the file. Untrusted."""
    title: str = ""


def find_conversation(
    store: Store, sessions: Iterable[ImportedSession], ctx: CommitId
) -> ImportedConversation:
    """Return a commit with the runtime and the folder of its imported session, if there is one."""
    stored = store.commits([ctx])
    session_id = stored[ctx].commit.session_id if ctx in stored else ""
    for session in sessions:
        if session.name == session_id:
            return ImportedConversation(ctx, session.runtime, session.project, session.title)
    return ImportedConversation(ctx)
