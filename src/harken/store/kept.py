"""The table of what is kept otherwise than usual."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from harken.store.base import Keeping, Name


def enter_retention(connection: sqlite3.Connection, names: Mapping[Any, Keeping | None]) -> None:
    """Say of names how they are kept; None: as all others."""
    leave(connection, names)
    connection.executemany(
        "INSERT INTO keeping (name, policy, until) VALUES (?, ?, ?)",
        [(name, one.policy, one.until) for name, one in names.items() if one is not None],
    )


def leave(connection: sqlite3.Connection, names: Iterable[Name]) -> None:
    """Forget how these are kept."""
    connection.executemany("DELETE FROM keeping WHERE name = ?", [(name,) for name in names])


def kept(connection: sqlite3.Connection) -> dict[Name, Keeping]:
    """Return all that was said."""
    rows = connection.execute("SELECT name, policy, until FROM keeping ORDER BY name").fetchall()
    return {name: Keeping(policy, until) for name, policy, until in rows}
