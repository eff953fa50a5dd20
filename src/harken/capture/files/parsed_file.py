"""Parse a file into commits without parents. This needs no store.

The messages, names and times of a step depend only on the file. So it can be prepared anywhere,
also in another process. The parent is set by the importer, which knows the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import msgspec

from harken.capture.files.companions import AgentMeta, Outputs
from harken.capture.files.report import (
    MAIN_AGENT,
    MAX_BAD_RECORDS,
    BadRecord,
    ConversationTip,
    Report,
    SessionReport,
)
from harken.context.checkpoint import (
    CommitDraft,
    CommitIdentity,
    CommitOrigin,
    build_objects,
    prepare,
)
from harken.core import canonical, structs
from harken.core.commits import Commit, CommitId, CommitNotes, DeltaEntry
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.evaluation import Label
from harken.formats.runtimes.read_point import ReadPoint
from harken.formats.tool_calls import replace_surrogates
from harken.store.base import StoredObject

NO_TIME = "1970-01-01T00:00:00Z"
"""The time of a step if neither its record nor an earlier one has a time."""
MAX_NAME_CHARS = 500
_NO_META = AgentMeta()


class PreparedStep(msgspec.Struct, array_like=True, gc=False):
    """A prepared step."""

    step: str
    parent: str | None
    """The previous step. None if a conversation starts here."""
    agent: str
    spawned_in: str | None
    """The session whose subagent starts with this step, as named in the file.

    None if it starts none.
    """
    commit: Commit
    """The commit without a parent."""
    notes: CommitNotes
    things: list[StoredObject]
    """The objects of its messages and its delta."""
    said: bytes
    """Bytes that are equal for equal messages.

    They are the canonical bytes of a JSON array, without the first bracket.
    """


class SessionEnds(msgspec.Struct, array_like=True):
    """The ends of the conversations of a session, by step, and its labels."""

    session: str
    """Empty if the file has only one session."""
    tips: dict[str, str] = {}
    branches: list[tuple[str, str]] = []
    labels: list[Label] = []


class FileSummary(msgspec.Struct, array_like=True):
    """The metadata of a file, apart from its steps."""

    report: Report
    """The report, without the commits of the steps."""
    ends: list[SessionEnds] = []
    """The ends of each session."""
    spawned: dict[str, str] = {}
    session: str = ""
    """The session id exactly as in the file."""
    point: ReadPoint | None = None
    """The read point from which the file can be read when it has grown."""


class CommitReader(msgspec.Struct):
    """Parse a file into prepared steps."""

    native: RuntimeFormat
    source: SessionFile
    reading: ReadReport = msgspec.field(default_factory=ReadReport)
    outputs: Outputs | None = None
    """Outputs that are stored next to the file."""
    agent: AgentMeta = _NO_META
    """The metadata of a subagent's transcript."""
    _time: str = NO_TIME
    _times: dict[str, str] = msgspec.field(default_factory=dict)
    """Session -> the time of its last step, if the file has several sessions."""
    _steps: int = 0
    """The number of steps."""
    _point: ReadPoint | None = None

    def steps(self) -> Iterator[PreparedStep]:
        """Yield the prepared steps. Raises FormatError.

        Raises EarlierStepChanged if the source begins at a read point, and has to be read from its
        beginning.
        """
        if self.source.point is not None:
            self._time = self.source.point.time
        for step in self.native.steps(self.source, self.reading):
            self._note_point()
            self._steps += 1
            draft = self._create_draft(step)
            prepared = prepare(draft)
            yield PreparedStep(
                step.id,
                step.parent,
                step.agent,
                self._session(step) if step.trigger == "spawn" else None,
                prepared.commit,
                prepared.notes,
                build_objects(prepared.content),
                self._encode_identity(step, prepared.content.entries),
            )

    def _note_point(self) -> None:
        """Complete a read point that was set before the current step."""
        point = self.reading.point
        if point is not None and point is not self._point:
            point = structs.replace(point, steps=self._steps, time=self._time)
            self._point = self.reading.point = point

    def read_summary(self, report: Report) -> FileSummary:
        """Return the summary of the file, after all steps were read."""
        reading = self.reading
        full_report = structs.replace(
            report,
            format=self.native.name,
            runtime=self.native.runtime,
            lines=reading.lines,
            bad_lines=len(reading.bad),
            bad=tuple(
                BadRecord(bad_record.number, bad_record.start, bad_record.reason)
                for bad_record in reading.bad[:MAX_BAD_RECORDS]
            ),
            kept=dict(reading.uninterpreted),
            session=sanitize_name(reading.session_id),
            title=sanitize_name(reading.title),
            folder=sanitize_name(reading.folder),
            version=sanitize_name(reading.version),
            ended=max("" if self._time == NO_TIME else self._time, reading.end_time),
            outcome=sanitize_name(reading.outcome),
            scores=tuple(reading.scores),
            sessions=tuple(map(self._describe_session, reading.sessions)),
            notes=tuple(reading.notes),
            agent_type=sanitize_name(self.agent.agent_type),
            task=sanitize_name(self.agent.task),
        )
        self._note_point()
        ends = [
            SessionEnds(sanitize_name(part.session_id), part.tips, part.branches, part.labels)
            for part in reading.sessions
        ] or [SessionEnds("", reading.tips, reading.branches, reading.labels)]
        return FileSummary(full_report, ends, reading.spawned, reading.session_id, self._point)

    def _describe_session(self, reading: ReadReport) -> SessionReport:
        """Return the report of one session of several."""
        return SessionReport(
            session=sanitize_name(reading.session_id),
            title=sanitize_name(reading.title),
            ended=max(self._times.get(reading.session_id, ""), reading.end_time),
            outcome=sanitize_name(reading.outcome),
            scores=tuple(reading.scores),
        )

    def _session(self, step: ImportStep) -> str:
        return step.session or self.reading.parent or self.reading.session_id

    def _encode_identity(self, step: ImportStep, entries: Sequence[DeltaEntry]) -> bytes:
        identity = _encode_identity(step, entries)
        if self.native.copies_histories:
            return identity
        session = canonical.to_json_line(step.session or self.reading.session_id)
        return b"%b,%b" % (session, identity)

    def _create_draft(self, step: ImportStep) -> CommitDraft:
        """Return the commit draft of a step."""
        times = [step.time, *(entry.time for entry in reversed(step.entries))]
        earlier = self._times.get(step.session, NO_TIME) if step.session else self._time
        self._time = next(filter(None, times), earlier)
        if step.session and self._time != NO_TIME:
            self._times[step.session] = self._time
        entries, kind, task = step.entries, "", ""
        if self.outputs is not None:
            entries = self.outputs.link_outputs(entries)
        if step.agent:
            kind = sanitize_name(self.agent.agent_type)
            task = sanitize_name(self.agent.task) if step.trigger == "spawn" else ""
        return CommitDraft(
            entries=entries,
            type=step.type,
            trigger=step.trigger,
            origin=_create_origin(
                self.native.runtime, step.session or self.reading.session_id, step.agent, kind
            ),
            summary=step.summary or task,
            created_at=self._time,
        )


def complete_report(ending: FileSummary, find_commit: Callable[[str], CommitId | None]) -> Report:
    """Return the report of a file with its tips and labels, which name commits."""
    tips: list[ConversationTip] = []
    labels: dict[str, tuple[Label, ...]] = {}
    for part in ending.ends:
        for agent, step in (*part.tips.items(), *part.branches):
            ctx = find_commit(step)
            if ctx is not None:
                tips.append(ConversationTip(sanitize_name(agent) or MAIN_AGENT, ctx, part.session))
        labels[part.session] = tuple(
            structs.replace(label, step="", ctx=find_commit(label.step) or "")
            for label in part.labels
        )
    sessions = (
        structs.replace(part, labels=labels.get(part.session, ()))
        for part in ending.report.sessions
    )
    return structs.replace(
        ending.report, tips=tuple(tips), labels=labels.get("", ()), sessions=tuple(sessions)
    )


@lru_cache(64)
def _create_origin(runtime: str, session: str, agent: str, kind: str) -> CommitOrigin:
    session_id = f"{runtime}:{sanitize_name(session)}"
    return CommitIdentity().origin(session_id, sanitize_name(agent), template=kind)


def _encode_identity(step: ImportStep, entries: Sequence[DeltaEntry]) -> bytes:
    """Return bytes that are equal for equal messages.

    They do not contain names of files and sessions, or ids that a runtime changes when it copies a
    conversation. The id of a provider response is more precise than a time, so times are included
    only if there is no id.
    """
    ids = [(entry.source or {}).get("id") for entry in entries]
    has_id = any(isinstance(id_, str) for id_ in ids)
    messages = [(entry.message, None if has_id else entry.time) for entry in entries]
    return canonical.to_canonical_bytes([step.agent, step.type, step.trigger, messages, ids])[1:]


def sanitize_name(text: str) -> str:
    """Return a name from a file, truncated and without lone surrogates."""
    return replace_surrogates(text[:MAX_NAME_CHARS])
