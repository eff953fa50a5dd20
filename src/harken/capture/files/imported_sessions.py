"""Imported sessions: what the catalogue knows of the conversations of other runtimes.

One idea: a session is all sources that say the same name, whatever files they are: its subagents,
copies of it, and itself at several moments. To list them nothing is read but what was told of the
sources; to look at one, its commits are retold.

Conversations: a commit, and what is known of the session that it was imported from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harken.capture.files.report import MAIN, ConversationTip
from harken.context.to_events.branches import BranchTip
from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.store.base import Store


class _Told(msgspec.Struct, frozen=True):
    """What of a report tells of its session."""

    source: str
    format: str | None = None
    runtime: str = ""
    tips: tuple[ConversationTip, ...] = ()
    session: str = ""
    title: str = ""
    folder: str = ""
    ended: str = ""
    agent_type: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent that has a transcript of its own."""

    agent: str
    agent_type: str
    """What kind it is; empty: that is not known."""
    task: str
    """What it was made for, in a few words; empty: that is not known."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A source of a session."""

    told: _Told
    mark: FileFingerprint

    @property
    def ended(self) -> str:
        """When the last of it was said; where nobody says it, when the file was written."""
        return self.told.ended or format_rfc3339(self.mark.mtime_ns // 1000)

    @property
    def is_aside(self) -> bool:
        """Whether it is a subagent's alone."""
        return self.told.tips[0].agent != MAIN


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session that another runtime wrote."""

    runtime: str
    native: str
    """What the runtime calls it; where it has no name, its file's."""
    parts: Sequence[_Part]
    """Its sources: the main conversation before subagents, the newest first."""

    @property
    def name(self) -> str:
        """What people call it here: `claude:0f1e...`."""
        return f"{self.runtime}:{self.native}"

    @property
    def title(self) -> str:
        """What it is about."""
        return next((part.told.title for part in self.parts if part.told.title), "")

    @property
    def project(self) -> str:
        """The folder in which the runtime worked."""
        return next((part.told.folder for part in self.parts if part.told.folder), "")

    @property
    def ended(self) -> str:
        """When the last of it was said: UTC, RFC 3339."""
        return max(part.ended for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """Of all its sources."""
        return sum(part.mark.size for part in self.parts)

    @property
    def sources(self) -> list[str]:
        """The files that it was read from."""
        return [part.told.source for part in self.parts]

    @property
    def subagents(self) -> list[Subagent]:
        """Its subagents that have transcripts of their own, each once."""
        asides = (part.told for part in self.parts if part.is_aside)
        found = {
            told.tips[0].agent: Subagent(told.tips[0].agent, told.agent_type, told.task)
            for told in asides
        }
        return [*found.values()]

    def is_of(self, path: str) -> bool:
        """Whether it was read from this file, too."""
        return os.path.abspath(path) in self.sources  # noqa: PTH100 - links stay as they are

    def tip_of(self, path: str) -> CommitId:
        """Return where the main conversation of one of its files ends."""
        at = self.sources.index(os.path.abspath(path))  # noqa: PTH100 - as above
        return CommitId(self.parts[at].told.tips[0].ctx)

    @property
    def ends(self) -> list[BranchTip]:
        """Where its conversations end, the main one first, each once."""
        tips = ((tip.agent, tip.ctx) for part in self.parts for tip in part.told.tips)
        return [BranchTip(agent, CommitId(ctx)) for agent, ctx in dict.fromkeys(tips)]


def imported_sessions(catalogue: Catalogue) -> list[ImportedSession]:
    """Return all imported sessions, the newest first."""
    parts: dict[tuple[str, str], list[_Part]] = {}
    for path, known in catalogue.every():
        try:
            told = _reports.decode(known.record)
        except msgspec.DecodeError:
            continue  # of another version: it is read again with the next import
        if told.format is not None and told.tips:
            key = (told.runtime or told.format, told.session or Path(path).stem)
            parts.setdefault(key, []).append(_Part(told, known.mark))
    found = [ImportedSession(*key, _in_order(some)) for key, some in parts.items()]
    return sorted(found, key=lambda one: (one.ended, one.name), reverse=True)


def ends_of(
    session: ImportedSession, others: Iterable[ImportedSession], catalogue: Catalogue
) -> list[BranchTip]:
    """Return where the conversations of a session end, and of those that it spawned.

    Some runtimes keep a subagent as a session of its own.
    """
    by_name = {one.name: one for one in others}
    found: dict[BranchTip, None] = {}
    waiting, seen = [session], {session.name}
    while waiting:
        one = waiting.pop(0)
        found |= dict.fromkeys(one.ends)
        for agent in catalogue.spawned(one.runtime, one.native):
            other = by_name.get(f"{one.runtime}:{agent}")
            if other is not None and other.name not in seen:
                seen.add(other.name)
                waiting.append(other)
    return list(found)


def _in_order(parts: Iterable[_Part]) -> list[_Part]:
    newest = sorted(parts, key=lambda part: part.ended, reverse=True)
    return sorted(newest, key=lambda part: part.is_aside)


_reports = msgspec.json.Decoder(_Told)


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A commit, and what is known of the file that it was read from."""

    ctx: CommitId
    runtime: str = ""
    """Empty: it was not imported."""
    folder: str = ""
    """Where the runtime worked, as the file says: hostile."""
    title: str = ""


def conversation_of(
    store: Store, sessions: Iterable[ImportedSession], ctx: CommitId
) -> ImportedConversation:
    """Return a commit with the runtime and folder of the imported session that it is of, if any."""
    stored = store.commits([ctx])
    principal = stored[ctx].commit.principal if ctx in stored else ""
    for session in sessions:
        if principal == session.name or principal.startswith(f"{session.name}/"):
            return ImportedConversation(ctx, session.runtime, session.project, session.title)
    return ImportedConversation(ctx)
