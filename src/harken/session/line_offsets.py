"""An index of the lines in a log that make up each agent's transcript.

With it the transcript of an evicted agent is read again in a time that does not grow with the
log. It is built when the first evicted agent is read again; a session that evicts none needs none.
The checksum of every line is verified; a reader of the complete log reports a mismatch in detail.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection
from pathlib import Path

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.session.fold import Resolver, fold, get_or_create_agent
from harken.session.log.checksum import CLOSE, DIGITS, is_valid_line, read_body
from harken.session.log.reader import LogReadReport, iter_records
from harken.session.state import AgentState, SessionState

_CONTEXT_EVENTS = (ev.TranscriptEntry, ev.TranscriptEdited, ev.ContextLoaded)
"""The events that determine a transcript and a context."""
_PREFIX_BYTES = DIGITS + len(CLOSE)
"""Bytes before a line that contain the checksum of the previous line."""


class LineOffsets:
    """The line offsets of one log, up to the last added line."""

    def __init__(self) -> None:
        self._starts = array("Q", [0])
        """Line, from 0 -> its first byte; the last item is the offset of the next line."""
        self._lines_by_agent: dict[AgentId, array[int]] = {}
        """Agent -> its lines, oldest first."""

    @classmethod
    def from_log(cls, path: Path) -> LineOffsets:
        """Read the offsets of a log. Raises as `records`."""
        offsets, report = cls(), LogReadReport()
        for event, _ in iter_records(path, report):
            offsets.add(event, report.end - offsets._starts[-1])
        return offsets

    def add(self, event: ev.Event, size_bytes: int) -> None:
        """Add the next line."""
        if isinstance(event, _CONTEXT_EVENTS) and event.agent_id is not None:
            self._lines_by_agent.setdefault(event.agent_id, array("Q")).append(
                len(self._starts) - 1
            )
        self._starts.append(self._starts[-1] + size_bytes)

    def read_agent(self, path: Path, agent_id: AgentId, resolver: Resolver | None) -> AgentState:
        """Return an agent's state with its transcript and context. Other fields are not valid.

        Raises ValueError if a line fails its checksum.
        """
        state = SessionState()
        line_numbers = self._lines_by_agent.get(agent_id, array("Q"))
        if line_numbers:
            lines = set(line_numbers)
            with path.open("rb") as file:
                for line in line_numbers:
                    event = self._read_event(file.fileno(), line)
                    if isinstance(event, ev.TranscriptEdited):
                        self._load_edit_entries(file.fileno(), state, event, lines)
                    fold(state, event, resolver)
        return get_or_create_agent(state, agent_id)

    def find_owner(self, path: Path, id_: MessageId) -> AgentId | None:
        """Return the agent of an entry. Return None if the id is unknown. Raises ValueError."""
        line = self._find_line(id_)
        if line is None:
            return None
        with path.open("rb") as file:
            return self._read_event(file.fileno(), line).agent_id

    def _load_edit_entries(
        self, fd: int, state: SessionState, edit: ev.TranscriptEdited, loaded_lines: Collection[int]
    ) -> None:
        """Load the entries that an edit takes from transcripts of other agents."""
        others = get_or_create_agent(state, AgentId("~others"))
        for segment in edit.segments:
            for id_ in segment.entries or ():
                line = self._find_line(id_)
                if line is not None and line not in loaded_lines:
                    event = self._read_event(fd, line)
                    if isinstance(event, ev.TranscriptEntry) and others.transcript is not None:
                        others.transcript.append(event)

    def _find_line(self, id_: MessageId) -> int | None:
        """Return the line of an event: ids are numbered in line order."""
        number = parse_id_number(id_, "msg_")
        return number if number is not None and number < len(self._starts) - 1 else None

    def _read_event(self, fd: int, line: int) -> ev.Event:
        start, end = self._starts[line], self._starts[line + 1]
        prefix_bytes = min(_PREFIX_BYTES, start)
        data = os.pread(fd, end - start + prefix_bytes, start - prefix_bytes)
        if not is_valid_line(data[:DIGITS] if prefix_bytes else b"", data[prefix_bytes:]):
            raise ValueError(f"line {line + 1} differs from what was written")
        return ev.decode_event(read_body(data[prefix_bytes:]))
