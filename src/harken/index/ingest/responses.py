"""Write model responses to the index, each once, with its usage and cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from harken.index.ingest.row_writer import RowWriter
from harken.index.ingest.usage import Costs, TokenCounts
from harken.index.message_text import to_utf8


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


@dataclass(slots=True)
class StoredResponse:
    """A response that already has a row."""

    row: int
    message: int | None
    output: int


@dataclass(slots=True)
class ResponseIngest:
    """Write rows of responses."""

    ledger: RowWriter
    costs: Costs
    by_id: dict[str, StoredResponse] = field(default_factory=dict)
    _updates: list[tuple[object, ...]] = field(default_factory=list)

    def load_existing(self, ids: Iterable[str]) -> None:
        """Load the existing rows of these responses."""
        query = "SELECT response, id, message_id, output_tokens FROM requests WHERE response IN"
        for id_, row, message, output in self.ledger.rows(query, ids):
            self.by_id[id_] = StoredResponse(row, message, output or 0)

    def add(self, response: ResponseRow) -> None:
        """Add a response. It replaces the values of an existing row."""
        existing = None if response.id is None else self.by_id.get(response.id)
        row = self.ledger.number("requests") if existing is None else existing.row
        cost, counts = response.cost_usd, response.counts
        if cost is None:
            cost = self.costs.cost(counts, response.model, response.provider, response.time_us)
        values = (
            response.message,
            response.session,
            response.agent,
            response.id,
            to_utf8(response.model),
            response.time_us,
            None if response.stop_reason is None else to_utf8(response.stop_reason),
            counts.input,
            counts.cache_read,
            counts.cache_write,
            counts.output,
            counts.reasoning,
            cost,
            response.cost_usd is not None,
        )
        if existing is None:
            self.ledger.add("requests", row, *values)
        else:
            self._updates.append((*values, row))
        if response.id is not None:
            self.by_id[response.id] = StoredResponse(row, response.message, counts.output or 0)

    def write(self) -> None:
        """Write the updates of existing rows; the row writer has written the new ones."""
        self.ledger.database.executemany(_UPDATE_SQL, self._updates)
        self._updates.clear()


_UPDATE_SQL = """
UPDATE requests SET message_id = ?, session_id = ?, agent_id = ?, response = ?, model = ?, time = ?,
stop_reason = ?, input_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?, output_tokens = ?,
reasoning_tokens = ?, cost_usd = ?, is_cost_told = ? WHERE id = ?
"""
