"""Marks the objects that are needed, in a temporary table of one connection.

The graph of needs is in the table of objects, so the server follows it, and no pack is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harken.store.postgresql.database import Connection

_CREATE = (
    "CREATE TEMP TABLE IF NOT EXISTS {0} (digest bytea PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS {0}_edge (digest bytea)",
    "TRUNCATE {0}, {0}_edge",
)
_ADD_ROOTS = """
WITH new AS (
    INSERT INTO {0} SELECT DISTINCT root.digest FROM ({1}) root (digest)
    WHERE root.digest IS NOT NULL ON CONFLICT DO NOTHING RETURNING digest
)
INSERT INTO {0}_edge SELECT digest FROM new
"""
_ADD_ANCESTORS = """
WITH RECURSIVE up (digest) AS (
    SELECT h.parent FROM {0}_edge e JOIN history h ON h.digest = e.digest
    WHERE h.parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {0} m WHERE m.digest = h.parent)
    UNION
    SELECT h.parent FROM up JOIN history h ON h.digest = up.digest
    WHERE h.parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {0} m WHERE m.digest = h.parent)
), new AS (
    INSERT INTO {0} SELECT digest FROM up ON CONFLICT DO NOTHING RETURNING digest
)
INSERT INTO {0}_edge SELECT digest FROM new
"""
_ADD_NEEDS = """
WITH edge AS (DELETE FROM {0}_edge RETURNING digest), need AS (
    SELECT DISTINCT unnest(
        CASE WHEN t.digest IS NULL THEN o.needs ELSE ARRAY[t.stand_in] END
    ) AS digest
    FROM edge e LEFT JOIN tombstone t ON t.digest = e.digest
    LEFT JOIN object o ON o.digest = e.digest
), new AS (
    INSERT INTO {0} SELECT digest FROM need WHERE digest IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING digest
)
, added AS (INSERT INTO {0}_edge SELECT digest FROM new RETURNING 1)
SELECT count(*) FROM added
"""


class Marks:
    """The marked objects. Roots are added with all that they need."""

    def __init__(self, connection: Connection, table: str) -> None:
        """Begin without marks. `table`: the name of the temporary table."""
        self._connection, self.table = connection, table
        for statement in _CREATE:
            connection.execute(statement.format(table))

    def add(self, roots: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> None:
        """Mark the digests that a query selects, and all that they need."""
        execute = self._connection.execute
        execute(_ADD_ROOTS.format(self.table, roots), parameters)
        # Long chains of commits are followed in one statement, all else is a few levels deep.
        execute(_ADD_ANCESTORS.format(self.table))
        while self._add_needs():
            pass

    def _add_needs(self) -> bool:
        row = self._connection.execute(_ADD_NEEDS.format(self.table)).fetchone()
        return row is not None and row[0] > 0

    def analyze(self) -> None:
        """Let the planner know the size of the table."""
        self._connection.execute(f"ANALYZE {self.table}")
