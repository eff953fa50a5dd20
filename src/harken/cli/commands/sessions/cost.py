"""The cost and the outcome of sessions, for a list of them.

Of a session that only has a log here, the log has the cost of each response: only these lines are
decoded. Otherwise the index of facts has it. The index is not brought up to date for a list: a
session that has grown since, or was never indexed, has no known cost and no known outcome.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harken.chat.usage import UsageTotal
from harken.config.home import Home
from harken.core.clock import parse_rfc3339
from harken.core.events import decode_event
from harken.errors import LogError
from harken.session.log.compressed import stat_log
from harken.session.log.origin import find_counted_origin
from harken.session.log.reader import open_log

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession
    from harken.index.session_facts import SessionFacts

MAX_LOG_BYTES = 32 * 1024 * 1024
"""The maximum size of a log whose cost is read for a list. Compressed logs are not read."""
_RESPONSE = b'"llm_response"'


def cost_of_log(path: Path) -> float | None:
    """Return the cost of a session in USD. Return None unless it is known of every response.

    The responses that a fork shares with the session that was forked are left out.
    """
    tally = UsageTotal()
    try:
        stat = stat_log(path)
        if stat.is_packed or stat.size_bytes > MAX_LOG_BYTES:
            return None
        with open_log(path) as file:
            origin = find_counted_origin(path, decode_event(file.readline()))
            for line in file:
                if _RESPONSE not in line:
                    continue
                event = decode_event(line)
                if origin is None or not origin.has_event(event.message_id):
                    tally.add(event)
    except (LogError, OSError, ValueError, RecursionError):  # `sessions check` reports the error
        return None
    return tally.cost_usd


class IndexedSession(NamedTuple):
    """A session in the index of facts."""

    outcome: str | None = None
    cost_usd: float | None = None
    """The cost in USD. None unless it is known of every response."""


class IndexedSessions:
    """Some sessions in the index of facts, as far as it is up to date."""

    def __init__(self, home: Home, names: Sequence[str]) -> None:
        """The rows of the sessions with these names are read on the first access."""
        self._home, self._names = home, names

    def find(
        self, name: str, *, imported: ImportedSession | None, logs: Sequence[Path]
    ) -> IndexedSession:
        """Return the session with these sources. It is empty if the index is older than one."""
        row = self._facts.sessions.get(name)
        if row is None:
            return IndexedSession()
        if imported is not None and row.ended_us < parse_rfc3339(imported.last_message_time):
            return IndexedSession()
        sizes = self._facts.log_sizes
        is_read = all(sizes.get(os.fsencode(path)) == stat_log(path).size_bytes for path in logs)
        if not is_read:
            return IndexedSession()
        return IndexedSession(row.outcome, self._costs.get(row.id))

    @cached_property
    def _facts(self) -> SessionFacts:
        from harken.index.session_facts import SessionFacts

        return SessionFacts(self._home.facts_file, self._names)

    @cached_property
    def _costs(self) -> Mapping[int, float | None]:
        return self._facts.find_costs([row.id for row in self._facts.sessions.values()])
