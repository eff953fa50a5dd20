"""The table of changes of a store in PostgreSQL, which triggers fill in the same transactions.

The transactions with changes are committed one after the other: a trigger takes a lock, which ends
with the transaction. So the numbers of the rows are in the order of the commits, and a reader that
has seen a number misses none before it. This holds for stores whose changes were asked for only.

Source: docs/formats/store-postgresql.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.store.changes import ChangePage, build_page

if TYPE_CHECKING:
    from harken.store.postgresql.database import PostgresDatabase, Transaction

_STATEMENTS = (
    """CREATE TABLE change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind smallint NOT NULL, name bytea NOT NULL, head bytea)""",
    "INSERT INTO change (kind, name) SELECT 1, digest FROM history ORDER BY seq",
    "INSERT INTO change (kind, name, head) SELECT 4, name, head FROM head ORDER BY name",
    """CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('harken change'), hashtext(TG_TABLE_SCHEMA));
    IF TG_TABLE_NAME = 'tombstone' THEN
        INSERT INTO change (kind, name)
            VALUES (6, convert_to(NEW.prefix || encode(NEW.digest, 'hex'), 'UTF8'));
    ELSIF TG_TABLE_NAME = 'history' THEN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO change (kind, name) VALUES (1, NEW.digest);
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO change (kind, name) VALUES (3, OLD.digest);
        ELSE
            INSERT INTO change (kind, name) VALUES (2, NEW.digest);
        END IF;
    ELSE
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO change (kind, name, head) VALUES (5, OLD.name, OLD.head);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO change (kind, name, head) VALUES (4, NEW.name, NEW.head);
        END IF;
    END IF;
    RETURN NULL;
END $$""",
    """CREATE TRIGGER note_change AFTER INSERT OR DELETE ON history
    FOR EACH ROW EXECUTE FUNCTION note_change()""",
    """CREATE TRIGGER note_changed_commit AFTER UPDATE OF notes, principal ON history
    FOR EACH ROW WHEN (NEW.notes <> OLD.notes OR NEW.principal <> OLD.principal)
    EXECUTE FUNCTION note_change()""",
    """CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON head
    FOR EACH ROW EXECUTE FUNCTION note_change()""",
    """CREATE TRIGGER note_change AFTER INSERT ON tombstone
    FOR EACH ROW EXECUTE FUNCTION note_change()""",
)
_SELECT = "SELECT id, kind, name, head FROM change WHERE id > %s ORDER BY id LIMIT %s"
_EXISTS = "SELECT to_regclass('change') IS NOT NULL"


class PostgresChangeTable:
    """The changes of the store that inherits from it."""

    _database: PostgresDatabase
    _keeps_changes = False

    def changes(self, after: int = 0, limit: int = 1000) -> ChangePage:
        """As `ChangeStore.changes`."""
        if not self._keeps_changes:
            if not self._database.fetch(_EXISTS)[0][0]:
                self._database.write(_create_table, alone=True)
            self._keeps_changes = True
        rows = self._database.fetch(_SELECT, [after, limit + 2])
        return build_page([tuple(row) for row in rows], after, limit, lambda _, head: head)


def _create_table(tx: Transaction) -> None:
    if not _fetch_bool(tx, _EXISTS):  # Another process may have been faster.
        for statement in _STATEMENTS:
            tx.execute(statement)


def _fetch_bool(tx: Transaction, query: str) -> bool:
    row = tx.execute(query).fetchone()
    return row is not None and bool(row[0])
