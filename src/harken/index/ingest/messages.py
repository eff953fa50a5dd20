"""Messages as rows of facts, with the calls in them and the words that are looked for.

One idea: a call and its result are one row, from whenever the result is there: in the same commit,
in a later one, or after another reading of a log that grew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from harken.formats.json_records import title_of
from harken.formats.runtimes.user_text import typed
from harken.index.ingest.row_writer import RowWriter
from harken.index.message_text import MessageText, utf8, words_of


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, and where it was said."""

    commit: int | None
    position: int
    session: int
    agent: int
    kind: str
    time_us: int | None
    made_us: int | None = None
    """When its commit was made; asked for where nobody knows when it was said."""
    hash: bytes
    said: MessageText
    calls: Sequence[str] = ()
    """The ids of its calls, in order."""
    answers: str | None = None
    """The id of the call that it is the result of."""
    failed: bool | None = False
    """Of a result: whether the call failed; None: it does not say."""
    is_repeat: bool = False


@dataclass(slots=True)
class Messages:
    """Enters messages."""

    ledger: RowWriter
    _open: dict[tuple[int, str], tuple[int, int | None]] = field(default_factory=dict)
    """Agent and id of a call without a result -> its row and its time."""
    _loaded: set[int] = field(default_factory=set)
    """Sessions whose open calls are known."""
    _asked: dict[int, set[int]] = field(default_factory=dict)
    """Session -> calls in it that are new."""
    _results: list[tuple[int, bool | None, int | None, int]] = field(default_factory=list)
    _times: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Session -> its first and last message."""
    _titles: dict[int, str] = field(default_factory=dict)
    """Session -> the first that a person said in it."""

    def add(self, one: MessageRow) -> int:
        """Enter a message; return its row."""
        said, time = one.said, one.made_us if one.time_us is None else one.time_us
        row = self.ledger.message_number(time or 0)
        self.ledger.add(
            "messages",
            row,
            one.commit,
            one.position,
            one.session,
            one.agent,
            utf8(said.role),
            one.kind,
            one.time_us,
            one.hash,
            said.characters,
            said.thinking,
            said.images,
            None if one.answers is None else utf8(one.answers),
            one.failed,
            one.is_repeat,
        )
        if one.time_us is not None:
            first, last = self._times.get(one.session, (one.time_us, one.time_us))
            self._times[one.session] = min(first, one.time_us), max(last, one.time_us)
        if one.answers is not None:
            self._answer(row, one)
        if not one.is_repeat:
            if one.kind == "prompt" and one.session not in self._titles:
                self._titles[one.session] = title_of(utf8(typed("\n".join(said.texts))))
            self._call(row, one)
            words = words_of(said)
            if words:
                self.ledger.add("words", row, words)
        return row

    def write(self) -> None:
        """Write what was entered."""
        ledger = self.ledger
        ledger.write()
        ledger.database.executemany(_RESULT, self._results)
        self._look_back()
        times = [(first, last, session) for session, (first, last) in self._times.items()]
        ledger.database.executemany(_TIMES, times)
        titles = [(title, session) for session, title in self._titles.items()]
        ledger.database.executemany(_TITLE, titles)
        self._titles.clear()
        self._asked.clear()
        self._results.clear()
        self._times.clear()

    def _call(self, row: int, one: MessageRow) -> None:
        ids = [*one.calls, *[""] * (len(one.said.calls) - len(one.calls))]
        for (name, size), id_ in zip(one.said.calls, ids, strict=False):
            call = self.ledger.number("tool_calls")
            known = utf8(name), utf8(id_)
            where = one.session, one.agent
            self.ledger.add(
                "tool_calls", call, row, *where, *known, one.time_us, size, None, None, None
            )
            self._open[one.agent, id_] = call, one.time_us
            self._asked.setdefault(one.session, set()).add(call)

    def _answer(self, row: int, one: MessageRow) -> None:
        """Say of a call that this is its result."""
        key = (one.agent, one.answers or "")
        if key not in self._open and one.session not in self._loaded:
            self._loaded.add(one.session)
            query = (
                "SELECT agent_id, call_id, id, time FROM tool_calls "
                "WHERE session_id = ? AND result_id IS NULL"
            )
            for agent, id_, call, time in self.ledger.database.execute(query, (one.session,)):
                self._open.setdefault((agent, id_), (call, time))
        found = self._open.pop(key, None)
        if found is not None:
            call, time = found
            self._results.append((row, one.failed, _duration(time, one.time_us), call))

    def _look_back(self) -> None:
        """Find the results of new calls that were read before them, from another file."""
        for session, asked in self._asked.items():
            left = {key: one for key, one in self._open.items() if one[0] in asked}
            if not left:
                continue
            for agent, id_, row, is_error, time in self.ledger.database.execute(_LONE, (session,)):
                call, asked_at = left.get((agent, id_), (None, None))
                took = None if time is None or asked_at is None else time - asked_at
                if call is not None and (took is None or took >= 0):
                    del left[agent, id_], self._open[agent, id_]
                    self.ledger.database.execute(_RESULT, (row, is_error, took, call))


def _duration(call_us: int | None, result_us: int | None) -> int | None:
    """Return the time from a call to its result.

    Return None if it is not known: a runtime may log a result before the record of its call, with
    the times of logging.
    """
    if call_us is None or result_us is None or result_us < call_us:
        return None
    return result_us - call_us


_LONE = """
SELECT agent_id, call_id, id, is_error, time FROM messages m
WHERE session_id = ? AND call_id IS NOT NULL AND NOT is_repeat
AND NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.result_id = m.id)
"""
_RESULT = "UPDATE tool_calls SET result_id = ?, is_error = ?, duration = ? WHERE id = ?"
_TITLE = "UPDATE sessions SET title = ? WHERE id = ? AND title = ''"
_TIMES = """
UPDATE sessions SET began = min(ifnull(began, ?1), ?1), ended = max(ifnull(ended, ?2), ?2)
WHERE id = ?3
"""
