"""`HistoryReader`: the versions of many tickets, with few requests to the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harken.core.commits import ArtifactRef, TicketId
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store
from harken.tickets.record import list_heads, read_versions
from harken.tickets.start import TicketHistory
from harken.tickets.ticket import TicketVersion, check_change


class HistoryReader:
    """Reads histories, and of those that it has read only the newer versions."""

    def __init__(self, store: Store, *, needs_blockers: bool) -> None:
        """Read from a store. `needs_blockers`: with a ticket those that block it, too."""
        self._store, self._needs_blockers = store, needs_blockers
        self._known: dict[TicketId, TicketHistory] = {}

    def read(
        self, only: Collection[TicketId] | None = None
    ) -> tuple[dict[TicketId, TicketHistory], dict[TicketId, str]]:
        """Return the histories of all tickets, or of these, and the problems of damaged ones.

        All tickets are read together, one version of each with a request. Raises StoreError.
        """
        heads, damaged = list_heads(self._store)
        if only is None:
            return self._read(heads, damaged), damaged
        damaged = {id_: problem for id_, problem in damaged.items() if id_ in only}
        histories = self._read({id_: heads[id_] for id_ in only if id_ in heads}, damaged)
        if self._needs_blockers:
            blockers = {
                blocker
                for history in histories.values()
                for blocker in history[-1][1].ticket.blocked_by
                if blocker in heads and blocker not in histories
            }
            histories |= self._read({id_: heads[id_] for id_ in blockers}, {})
        return histories, damaged

    def _read(
        self, heads: Mapping[TicketId, ArtifactRef], damaged: dict[TicketId, str]
    ) -> dict[TicketId, TicketHistory]:
        """Return the histories up to these heads. Add the problems of damaged tickets."""
        new: dict[TicketId, list[tuple[ArtifactRef, TicketVersion]]] = {id_: [] for id_ in heads}
        indexes = {
            id_: {name: index for index, (name, _) in enumerate(self._known.get(id_, ()))}
            for id_ in heads
        }
        ends: dict[TicketId, ArtifactRef | None] = dict(heads)
        while level := {
            id_: name for id_, name in ends.items() if name is not None and name not in indexes[id_]
        }:
            for id_, version in self._read_level(level).items():
                if isinstance(version, str):
                    damaged[id_] = version
                    del ends[id_], new[id_]
                else:
                    new[id_].append((level[id_], version))
                    ends[id_] = version.parent
        for id_, versions in new.items():
            end = ends[id_]
            count = 0 if end is None else indexes[id_][end] + 1
            self._known[id_] = [*self._known.get(id_, ())[:count], *reversed(versions)]
        return {id_: self._known[id_] for id_ in new}

    def _read_level(
        self, names: Mapping[TicketId, ArtifactRef]
    ) -> dict[TicketId, TicketVersion | str]:
        """Return a version of each ticket, or its problem."""
        try:
            versions = read_versions(self._store, list(dict.fromkeys(names.values())))
        except (ObjectNotFound, ObjectCorrupted) as error:
            if len(names) == 1:
                return dict.fromkeys(names, str(error))
            parts = [self._read_level({id_: name}) for id_, name in names.items()]
            return {id_: version for part in parts for id_, version in part.items()}
        return {id_: _check(versions[name]) for id_, name in names.items()}


def _check(version: TicketVersion) -> TicketVersion | str:
    """Return a version, or its problem: it may be from elsewhere, and a start's id names a file."""
    try:
        check_change(version)
    except (ValueError, OverflowError) as error:
        return str(error)
    return version
