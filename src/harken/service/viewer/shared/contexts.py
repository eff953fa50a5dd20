"""`ContextPacker`: the messages that each model call read, packed.

A context usually begins with all messages of the agent's previous call. So only the messages after
them are looked at: their packed rows extend the ranges of the previous call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.core.ids import AgentId
from harken.service.viewer import answers
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.rows import to_json
from harken.service.viewer.shared.packing import Packed, Packer, extend_list, pack_list
from harken.views.model_calls import Key


class ContextPacker:
    """Packs the contexts of the model calls of a session, each message once."""

    def __init__(self, session: OpenSession, packer: Packer) -> None:
        """Nothing is packed yet."""
        self._session, self._packer = session, packer
        self._messages: dict[Key, Packed] = {}
        self._last: dict[AgentId | None, tuple[Sequence[Key], list[Any]]] = {}
        """Agent -> the keys of its last call, and the packed list of its messages."""

    def pack(self, number: int) -> tuple[Packed, Packed]:
        """Pack the messages of a context without position and `new`, and the new positions.

        Raises HarkenError if the log lacks some.
        """
        steps = self._session.steps()
        keys, agent = steps.keys(number), steps.requests[number - 1].agent_id
        last_keys, ranges = self._last.get(agent, ([], pack_list([])))
        if keys[: len(last_keys)] != last_keys:
            last_keys, ranges = [], pack_list([])
        new_keys = keys[len(last_keys) :]
        rows = [
            self._pack_message(number, key, position)
            for position, key in enumerate(new_keys, len(last_keys))
        ]
        ranges = extend_list(ranges, rows)
        self._last[agent] = keys, ranges
        new: list[int] = []
        for position in steps.find_new(number):
            new = extend_ranges(new, position)
        return ranges, self._packer.pack(new)

    def _pack_message(self, number: int, key: Key, position: int) -> Packed:
        row_place = self._messages.get(key)
        if row_place is None:
            [row] = answers.read_context(self._session, number, position, position + 1)
            members = to_json(row)
            row_place = self._messages[key] = self._packer.pack(
                {name: members[name] for name in members if name not in ("position", "new")}
            )
        return row_place


def extend_ranges(ranges: list[int], position: int) -> list[int]:
    """Return ranges, as pairs of a first position and a count, with the next position.

    >>> extend_ranges([0, 2], 2), extend_ranges([0, 2], 5)
    ([0, 3], [0, 2, 5, 1])
    """
    if ranges and ranges[-2] + ranges[-1] == position:
        return [*ranges[:-1], ranges[-1] + 1]
    return [*ranges, position, 1]
