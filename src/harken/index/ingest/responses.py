"""Write model responses to the index, each once, with its usage and cost.

A response that a log and a file contain has one row: its message is that of the log, since the log
has the request, too. Its values are those of the log, unless only the file has the usage or
the cost. So the row does not depend on the order in which they are read.

Source: docs/formats/facts.md, "Requests".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from harken.index.ingest.row_writer import RowWriter
from harken.index.ingest.usage import Costs, TokenCounts
from harken.index.message_text import to_utf8

MIN_GLOBAL_ID_CHARS = 16
"""Minimum length of a response id that is unique over all sessions.

A shorter one, as Pi assigns them, is unique in its session only.
"""


def format_response_key(id_: str, session: str) -> str:
    """Return a key of a response that is unique over all sessions.

    >>> format_response_key("msg_1", "claude:0f1e"), format_response_key("msg_" + 12 * "0", "")
    ('claude:0f1e/msg_1', 'msg_000000000000')
    """
    return id_ if len(id_) >= MIN_GLOBAL_ID_CHARS else f"{session}/{id_}"


class ResponseRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response of a model."""

    id: str | None
    """Response id of the provider, or another unique key."""
    session: int
    agent: int
    message: int | None
    model: str
    provider: str
    """The runtime's name for the provider, or the runtime."""
    time_us: int | None
    stop_reason: str | None
    counts: TokenCounts
    cost_usd: float | None
    """Cost reported by the runtime, or None if it reports none."""
    is_recorded: bool = False
    """Whether a log has it."""


class StoredResponse(msgspec.Struct):
    """A response that already has a row."""

    row: int
    message: int | None
    output: int
    is_recorded: bool
    has_usage: bool


class Repeat(NamedTuple):
    """Two messages that are the same answer."""

    message: int
    original: int
    """The message that counts."""


class ResponseIngest(msgspec.Struct):
    """Write rows of responses."""

    ledger: RowWriter
    costs: Costs
    by_id: dict[str, StoredResponse] = msgspec.field(default_factory=dict)
    _owners: list[tuple[object, ...]] = msgspec.field(default_factory=list)
    _values: list[tuple[object, ...]] = msgspec.field(default_factory=list)
    _missing_costs: list[tuple[object, ...]] = msgspec.field(default_factory=list)

    def load_existing(self, ids: Iterable[str]) -> None:
        """Load the existing rows of these responses."""
        for id_, row, message, output, is_recorded, has_usage in self.ledger.rows(
            _EXISTING_SQL, ids
        ):
            self.by_id[id_] = StoredResponse(
                row, message, output, bool(is_recorded), bool(has_usage)
            )

    def add(self, response: ResponseRow) -> Repeat | None:
        """Add a response, or complete its existing row.

        Return the message that repeats the other one, if both a log and another source have it.
        """
        existing = None if response.id is None else self.by_id.get(response.id)
        if existing is None:
            self._insert(response)
            return None
        repeat = _find_repeat(existing, response)
        has_usage = response.counts.is_reported
        if existing.is_recorded:
            if existing.message is None and response.message is not None:
                existing.message = response.message
                self._owners.append((response.message, *[None] * 4, existing.row))
            has_values = has_usage and not existing.has_usage
        else:
            existing.message = response.message or existing.message
            owner = response.session, response.agent, response.time_us, response.is_recorded
            self._owners.append((existing.message, *owner, existing.row))
            has_values = has_usage or not existing.has_usage
        is_other_source = response.is_recorded != existing.is_recorded
        values = self._format_values(response)
        if has_values:
            self._values.append((*values, is_other_source, existing.row))
            existing.output = response.counts.output or 0
        elif is_other_source:
            self._missing_costs.append((*values[-2:], existing.row))
        existing.is_recorded |= response.is_recorded
        existing.has_usage |= has_usage
        return repeat

    def write(self) -> None:
        """Write the updates of existing rows; the row writer has written the new ones."""
        self.ledger.database.executemany(_OWNER_SQL, self._owners)
        self.ledger.database.executemany(_VALUES_SQL, self._values)
        self.ledger.database.executemany(_COST_SQL, self._missing_costs)
        self._owners.clear()
        self._values.clear()
        self._missing_costs.clear()

    def _insert(self, response: ResponseRow) -> None:
        row = self.ledger.number("requests")
        model, *values = self._format_values(response)
        self.ledger.add(
            "requests",
            row,
            response.message,
            response.session,
            response.agent,
            response.id,
            model,
            response.time_us,
            *values,
            response.is_recorded,
        )
        if response.id is not None:
            counts = response.counts
            self.by_id[response.id] = StoredResponse(
                row,
                response.message,
                counts.output or 0,
                response.is_recorded,
                counts.is_reported,
            )

    def _format_values(self, response: ResponseRow) -> tuple[object, ...]:
        cost, counts = response.cost_usd, response.counts
        if cost is None:
            cost = self.costs.cost(counts, response.model, response.provider, response.time_us)
        return (
            to_utf8(response.model),
            None if response.stop_reason is None else to_utf8(response.stop_reason),
            counts.input,
            counts.cache_read,
            counts.cache_write,
            counts.output,
            counts.reasoning,
            cost,
            response.cost_usd is not None,
        )


def _find_repeat(existing: StoredResponse, response: ResponseRow) -> Repeat | None:
    """Return the pair of messages of a response that is read from a second source."""
    if existing.message is None or response.message is None:
        return None
    if existing.is_recorded:
        return Repeat(response.message, existing.message)
    return Repeat(existing.message, response.message) if response.is_recorded else None


_EXISTING_SQL = """
SELECT response, id, message_id, ifnull(output_tokens, 0), is_recorded,
input_tokens IS NOT NULL OR output_tokens IS NOT NULL FROM requests WHERE response IN"""
_OWNER_SQL = """
UPDATE requests SET message_id = ?1, session_id = ifnull(?2, session_id),
agent_id = ifnull(?3, agent_id), time = ifnull(?4, time), is_recorded = ifnull(?5, is_recorded)
WHERE id = ?6
"""
_VALUES_SQL = """
UPDATE requests SET model = ?1, stop_reason = ?2, input_tokens = ?3, cache_read_tokens = ?4,
cache_write_tokens = ?5, output_tokens = ?6, reasoning_tokens = ?7,
cost_usd = CASE WHEN ?10 THEN ifnull(?8, cost_usd) ELSE ?8 END,
is_cost_told = CASE WHEN ?10 AND ?8 IS NULL THEN is_cost_told ELSE ?9 END WHERE id = ?11
"""
_COST_SQL = """
UPDATE requests SET cost_usd = ?1, is_cost_told = ?2
WHERE id = ?3 AND cost_usd IS NULL AND ?1 IS NOT NULL
"""
