"""The cost of sessions, for a list of them.

Of a session with a log here, the log has the cost of each response: only these lines are decoded.
Of an imported session the index of facts has it. The index is not brought up to date for a list:
a session that has grown since, or was never indexed, has no known cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.chat.usage import UsageTotal
from harken.config.home import Home
from harken.core.events import decode_event
from harken.errors import HarkenError, LogError
from harken.session.log.compressed import stat_log
from harken.session.log.origin import find_counted_origin
from harken.session.log.reader import open_log

if TYPE_CHECKING:
    import apsw

    from harken.capture.files.imported_sessions import ImportedSession

MAX_LOG_BYTES = 32 * 1024 * 1024
"""The maximum size of a log whose cost is read for a list. Compressed logs are not read."""
_RESPONSE = b'"llm_response"'
_COSTS = """
    SELECT sessions.name, sessions.ended, sum(requests.cost_usd),
        count(*) FILTER (WHERE requests.cost_usd IS NULL AND requests.output_tokens > 0)
    FROM sessions JOIN requests ON requests.session_id = sessions.id
    WHERE sessions.runtime <> 'harken' GROUP BY sessions.id
"""


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


class ImportedCosts:
    """The costs of imported sessions, as far as the index of facts has them."""

    def __init__(self, home: Home) -> None:
        """The costs are read on the first access."""
        self._home = home
        self._by_name: Mapping[str, tuple[int, float]] | None = None

    def cost_of(self, session: ImportedSession, ended_us: int) -> float | None:
        """Return the cost of a session in USD. Return None if the index is older than it."""
        if self._by_name is None:
            self._by_name = self._read()
        indexed_us, cost_usd = self._by_name.get(session.name, (0, None))
        return cost_usd if indexed_us >= ended_us else None

    def _read(self) -> Mapping[str, tuple[int, float]]:
        if not self._home.facts_file.exists():
            return {}
        from harken.index.session_index import SessionIndex

        try:
            with closing(SessionIndex(self._home.facts_file)) as facts:
                return _costs(facts.database)
        except HarkenError:  # Commands that need the index repair it.
            return {}


def _costs(database: apsw.Connection) -> Mapping[str, tuple[int, float]]:
    """Return the end and the cost of each session with a known cost, by name."""
    rows: list[Any] = database.execute(_COSTS).fetchall()
    return {
        name: (ended_at or 0, cost_usd)
        for name, ended_at, cost_usd, unpriced in rows
        if cost_usd is not None and not unpriced
    }
