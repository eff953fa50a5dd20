"""`TreeChanges`: the changes of the tree of agents, for a page that has the tree as it was sent.

Each event of an agent changes its row, so the whole tree would be sent again and again. The first
value has all rows; the later ones have the rows that changed, and the order if that is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.service.viewer.rows import agents_of
from harken.views.tree import TreeRow


class TreeChanges:
    """The tree that a page has, and what it lacks."""

    def __init__(self) -> None:
        """The page has no tree."""
        self._rows: Sequence[TreeRow] | None = None
        self._values: dict[str, Any] = {}
        """Agent -> its row as it was sent, in the order of the tree."""

    def restart(self) -> None:
        """Send all rows again: the page has another reading of the log."""
        self._rows = None

    def compose(self, rows: Sequence[TreeRow]) -> dict[str, Any]:
        """Return the members of a line that bring a page to this tree. Empty if it has the tree.

        `agents` are all rows. `tree` has those that changed, and `order`, the ids of all agents, if
        agents were added, removed or moved.
        """
        if self._rows == rows:
            return {}
        is_first, old_values = self._rows is None, self._values
        answer = agents_of(rows)
        values = {row["agent_id"]: row for row in answer["agents"]}
        self._rows, self._values = rows, values
        if is_first or "agents_total" in answer or len(values) != len(rows):
            return answer
        tree: dict[str, Any] = {
            "rows": [row for id_, row in values.items() if old_values.get(id_) != row]
        }
        if [*values] != [*old_values]:
            tree["order"] = [*values]
        return {"tree": tree}
