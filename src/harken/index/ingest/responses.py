"""Answers of models as rows of facts: each response once, with what it took and cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from harken.index.ingest.row_writer import RowWriter
from harken.index.ingest.usage import Costs, TokenCounts
from harken.index.message_text import utf8


class ResponseRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a model answered."""

    id: str | None
    """From the provider, or what else tells it from all others."""
    session: int
    agent: int
    message: int | None
    model: str
    provider: str
    """As the runtime calls it, or the runtime."""
    time_us: int | None
    stop_reason: str | None
    took: TokenCounts
    cost_usd: float | None
    """As the runtime says; None: it does not."""


@dataclass(slots=True)
class StoredResponse:
    """A response that has a row."""

    row: int
    message: int | None
    output: int


@dataclass(slots=True)
class ResponseIngest:
    """Enters responses."""

    ledger: RowWriter
    costs: Costs
    known: dict[str, StoredResponse] = field(default_factory=dict)
    _replaced: list[tuple[object, ...]] = field(default_factory=list)

    def learn(self, ids: Iterable[str]) -> None:
        """Find out which of these responses have a row."""
        query = "SELECT response, id, message_id, output_tokens FROM requests WHERE response IN"
        for id_, row, message, output in self.ledger.rows(query, ids):
            self.known[id_] = StoredResponse(row, message, output or 0)

    def add(self, one: ResponseRow) -> None:
        """Enter a response; one that has a row takes its place, with what is said now."""
        before = None if one.id is None else self.known.get(one.id)
        row = self.ledger.number("requests") if before is None else before.row
        cost, took = one.cost_usd, one.took
        if cost is None:
            cost = self.costs.cost(took, one.model, one.provider, one.time_us)
        values = (
            one.message,
            one.session,
            one.agent,
            one.id,
            utf8(one.model),
            one.time_us,
            None if one.stop_reason is None else utf8(one.stop_reason),
            took.input,
            took.cache_read,
            took.cache_write,
            took.output,
            took.reasoning,
            cost,
            one.cost_usd is not None,
        )
        if before is None:
            self.ledger.add("requests", row, *values)
        else:
            self._replaced.append((*values, row))
        if one.id is not None:
            self.known[one.id] = StoredResponse(row, one.message, took.output or 0)

    def write(self) -> None:
        """Write what takes the place of others; the ledger has written those."""
        self.ledger.database.executemany(_REPLACE, self._replaced)
        self._replaced.clear()


_REPLACE = """
UPDATE requests SET message_id = ?, session_id = ?, agent_id = ?, response = ?, model = ?, time = ?,
stop_reason = ?, input_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?, output_tokens = ?,
reasoning_tokens = ?, cost_usd = ?, is_cost_told = ? WHERE id = ?
"""
