"""Reading a file into commits that lack only their parents: all that needs no store.

One idea: what a step says, its messages, their names and its time, follows from the file alone. So
it can be made ready anywhere, by another process too, and only who knows what is there already
says which commit it becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from harken.capture.files.companions import AgentMeta, Outputs
from harken.capture.files.report import MOST_BAD, BadRecord, Report
from harken.context.checkpoint import CommitDraft, CommitOrigin, prepare, things_of
from harken.core import canonical
from harken.core.commits import Commit, CommitNotes, DeltaEntry
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.tool_calls import clean
from harken.store.base import StoredObject

NO_TIME = "1970-01-01T00:00:00Z"
"""The time of a step before which no record of its file has one."""
LONGEST_NAME = 500
_NO_META = AgentMeta()


class PreparedStep(msgspec.Struct, array_like=True, gc=False):
    """A step that is made ready."""

    step: str
    parent: str | None
    """The step before it; None: a conversation begins here."""
    agent: str
    spawned_in: str | None
    """Whose subagent begins with it, as the file names that session; None: none does."""
    commit: Commit
    """Without a parent."""
    notes: CommitNotes
    things: list[StoredObject]
    """Its messages, and its delta."""
    said: bytes
    """What is the same wherever the same was said: the canonical bytes of a JSON array, without
    the first bracket."""


class FileSummary(msgspec.Struct, array_like=True):
    """What a file told beside its steps."""

    report: Report
    """Without what the steps became."""
    tips: dict[str, str] = {}
    branches: list[tuple[str, str]] = []
    spawned: dict[str, str] = {}
    session: str = ""
    """As the file names it, as it is."""


@dataclass(slots=True)
class CommitReader:
    """Reads a file."""

    native: RuntimeFormat
    source: SessionFile
    reading: ReadReport = field(default_factory=ReadReport)
    outputs: Outputs | None = None
    """The outputs that are not in the file but beside it."""
    agent: AgentMeta = _NO_META
    """Of the transcript of a subagent."""
    _time: str = NO_TIME

    def steps(self) -> Iterator[PreparedStep]:
        """Yield its steps, made ready. Raises FormatError."""
        for step in self.native.steps(self.source, self.reading):
            draft = self._draft(step)
            made = prepare(draft)
            yield PreparedStep(
                step.id,
                step.parent,
                step.agent,
                self._session() if step.trigger == "spawn" else None,
                made.commit,
                made.notes,
                things_of(made.content),
                _said(step, made.content.entries),
            )

    def ending(self, report: Report) -> FileSummary:
        """Return what it told, once all steps were read."""
        reading = self.reading
        whole = msgspec.structs.replace(
            report,
            format=self.native.name,
            runtime=self.native.runtime,
            lines=reading.lines,
            bad_lines=len(reading.bad),
            bad=tuple(
                BadRecord(one.number, one.start, one.reason) for one in reading.bad[:MOST_BAD]
            ),
            kept=dict(reading.kept),
            session=sanitize_name(reading.session_id),
            title=sanitize_name(reading.title),
            folder=sanitize_name(reading.folder),
            version=sanitize_name(reading.version),
            ended="" if self._time == NO_TIME else self._time,
            notes=tuple(reading.notes),
            agent_type=sanitize_name(self.agent.agent_type),
            task=sanitize_name(self.agent.task),
        )
        session = reading.session_id
        return FileSummary(whole, reading.tips, reading.branches, reading.spawned, session)

    def _session(self) -> str:
        return self.reading.parent or self.reading.session_id

    def _draft(self, step: ImportStep) -> CommitDraft:
        """Return the commit of a step as a draft."""
        times = [step.time, *(entry.time for entry in reversed(step.entries))]
        self._time = next(filter(None, times), self._time)
        entries, kind, task = step.entries, "", ""
        if self.outputs is not None:
            entries = self.outputs.linked(entries)
        if step.agent:
            kind = sanitize_name(self.agent.agent_type)
            task = sanitize_name(self.agent.task) if step.trigger == "spawn" else ""
        return CommitDraft(
            entries=entries,
            type=step.type,
            trigger=step.trigger,
            origin=_origin(self.native.runtime, self.reading.session_id, step.agent, kind),
            summary=step.summary or task,
            created_at=self._time,
        )


@lru_cache(64)
def _origin(runtime: str, session: str, agent: str, kind: str) -> CommitOrigin:
    names = [f"{runtime}:{sanitize_name(session)}", sanitize_name(agent)]
    principal = "/".join(filter(None, names))
    return CommitOrigin(template=kind, principal=principal, session_id=sanitize_name(session))


def _said(step: ImportStep, entries: Sequence[DeltaEntry]) -> bytes:
    """Return what is the same wherever the same was said.

    Not in it: names of files and sessions, and ids that a runtime gives anew where it copies.
    A response has an id from its provider, which says more than a time, so times count only
    where there is none.
    """
    ids = [(entry.source or {}).get("id") for entry in entries]
    has_id = any(isinstance(id_, str) for id_ in ids)
    said = [(entry.message, None if has_id else entry.time) for entry in entries]
    return canonical.to_canonical_bytes([step.agent, step.type, step.trigger, said, ids])[1:]


def sanitize_name(text: str) -> str:
    """Return a name from a file as one can be kept: of a size, and without lone surrogates."""
    return clean(text[:LONGEST_NAME])
