"""Write messages to the index, with their tool calls and their searchable words.

A tool call and its result share one row as soon as the result is read: from the same commit, from a
later one, or from a later read of a log that has grown.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.formats.json_records import truncate_title
from harken.formats.runtimes.user_text import extract_typed_text
from harken.index.ingest.row_writer import RowWriter
from harken.index.message_text import MessageText, searchable_text, to_utf8


class MessageLinks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The id of a message in the log of Harken, with the links of its event."""

    event: str | None = None
    substance: str | None = None
    cause: str | None = None
    """References of messages and calls, with commas between."""
    purpose: str | None = None
    closed: str | None = None


NO_LINKS = MessageLinks()
"""For a message that is in no log."""


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message and its location."""

    commit: int | None
    position: int
    session: int
    agent: int
    kind: str
    time_us: int | None
    commit_time_us: int | None = None
    """Time of its commit. Used if the time of the message is unknown."""
    hash: bytes
    text: MessageText
    calls: Sequence[str] = ()
    """Native ids of its tool calls, in order."""
    answered_call_id: str | None = None
    """Native id of the call whose result this message is."""
    is_failed: bool | None = False
    """For a result: whether the call failed. None if unknown."""
    is_repeat: bool = False
    is_copied: bool = False
    """Whether a branch has it from the session that was branched."""
    links: MessageLinks = NO_LINKS


class Messages(msgspec.Struct):
    """Write message rows, tool calls and searchable words."""

    ledger: RowWriter
    _open: dict[tuple[int, str], tuple[int, int | None]] = msgspec.field(default_factory=dict)
    """Agent and native id of a call without a result -> its row and time."""
    _loaded: set[int] = msgspec.field(default_factory=set)
    """Sessions with open calls in `_open`."""
    _new_calls: dict[int, set[int]] = msgspec.field(default_factory=dict)
    """Session -> its new tool calls."""
    _results: list[tuple[int, bool | None, int | None, int]] = msgspec.field(default_factory=list)
    _times: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Session -> times of its first and last message."""
    _titles: dict[int, str] = msgspec.field(default_factory=dict)
    """Session -> the first prompt of a user in it."""

    def add(self, message: MessageRow) -> int:
        """Add a message and return its row id."""
        text, time = (
            message.text,
            message.commit_time_us if message.time_us is None else message.time_us,
        )
        row = self.ledger.message_number(time or 0)
        self.ledger.add(
            "messages",
            row,
            message.commit,
            message.position,
            message.session,
            message.agent,
            to_utf8(text.role),
            message.kind,
            message.time_us,
            message.hash,
            text.characters,
            text.thinking,
            text.images,
            None if message.answered_call_id is None else to_utf8(message.answered_call_id),
            message.is_failed,
            message.is_repeat,
            *msgspec.structs.astuple(message.links),
            None,
        )
        if message.time_us is not None and not message.is_copied:
            first, last = self._times.get(message.session, (message.time_us, message.time_us))
            self._times[message.session] = min(first, message.time_us), max(last, message.time_us)
        if message.answered_call_id is not None:
            self._add_result(row, message)
        if not message.is_repeat:
            if message.kind == "prompt" and message.session not in self._titles:
                self._titles[message.session] = truncate_title(
                    to_utf8(extract_typed_text("\n".join(text.texts)))
                )
            self._add_calls(row, message)
            words = searchable_text(text)
            if words:
                self.ledger.add("words", row, words)
        return row

    def write(self) -> None:
        """Write the added messages."""
        ledger = self.ledger
        ledger.write()
        ledger.database.executemany(_RESULT_SQL, self._results)
        self._match_earlier_results()
        times = [(first, last, session) for session, (first, last) in self._times.items()]
        ledger.database.executemany(_TIMES_SQL, times)
        titles = [(title, session) for session, title in self._titles.items()]
        ledger.database.executemany(_TITLE_SQL, titles)
        self._titles.clear()
        self._new_calls.clear()
        self._results.clear()
        self._times.clear()

    def _add_calls(self, row: int, message: MessageRow) -> None:
        ids = [*message.calls, *[""] * (len(message.text.calls) - len(message.calls))]
        for (name, size), id_ in zip(message.text.calls, ids, strict=False):
            call = self.ledger.number("tool_calls")
            names = to_utf8(name), to_utf8(id_)
            owner = message.session, message.agent
            self.ledger.add(
                "tool_calls", call, row, *owner, *names, message.time_us, size, None, None, None
            )
            self._open[message.agent, id_] = call, message.time_us
            self._new_calls.setdefault(message.session, set()).add(call)

    def _add_result(self, row: int, message: MessageRow) -> None:
        """Record this message as the result of its call."""
        key = (message.agent, message.answered_call_id or "")
        if key not in self._open and message.session not in self._loaded:
            self._loaded.add(message.session)
            query = (
                "SELECT agent_id, call_id, id, time FROM tool_calls "
                "WHERE session_id = ? AND result_id IS NULL"
            )
            for agent, id_, call, time in self.ledger.database.execute(query, (message.session,)):
                self._open.setdefault((agent, id_), (call, time))
        open_call = self._open.pop(key, None)
        if open_call is not None:
            call, time = open_call
            self._results.append((row, message.is_failed, _duration(time, message.time_us), call))

    def _match_earlier_results(self) -> None:
        """Match new calls with results that were read earlier, from another file."""
        for session, new_calls in self._new_calls.items():
            remaining = {
                key: open_call for key, open_call in self._open.items() if open_call[0] in new_calls
            }
            if not remaining:
                continue
            for agent, id_, row, is_error, time in self.ledger.database.execute(
                _UNMATCHED_RESULTS_SQL, (session,)
            ):
                call, call_time = remaining.get((agent, id_), (None, None))
                duration = None if time is None or call_time is None else time - call_time
                if call is not None and (duration is None or duration >= 0):
                    del remaining[agent, id_], self._open[agent, id_]
                    self.ledger.database.execute(_RESULT_SQL, (row, is_error, duration, call))


def _duration(call_us: int | None, result_us: int | None) -> int | None:
    """Return the time from a call to its result.

    Return None if it is not known: a runtime may log a result before the record of its call, with
    the times of logging.
    """
    if call_us is None or result_us is None or result_us < call_us:
        return None
    return result_us - call_us


_UNMATCHED_RESULTS_SQL = """
SELECT agent_id, call_id, id, is_error, time FROM messages m
WHERE session_id = ? AND call_id IS NOT NULL AND NOT is_repeat
AND NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.result_id = m.id)
"""
_RESULT_SQL = "UPDATE tool_calls SET result_id = ?, is_error = ?, duration = ? WHERE id = ?"
_TITLE_SQL = "UPDATE sessions SET title = ? WHERE id = ? AND title = ''"
_TIMES_SQL = """
UPDATE sessions SET began = min(ifnull(began, ?1), ?1), ended = max(ifnull(ended, ?2), ?2)
WHERE id = ?3
"""
