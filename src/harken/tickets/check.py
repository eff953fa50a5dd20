"""Verify the tickets of a store: each version and each link. Nothing is changed.

That the objects of a version match their names is verified by `harken.store.fsck`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from harken.core.commits import ArtifactRef, TicketId
from harken.errors import HarkenError
from harken.store.base import Store
from harken.store.fsck import StoreFinding
from harken.tickets.query import find_cycle
from harken.tickets.record import decode_record, list_heads, list_members, ticket_id
from harken.tickets.ticket import ChangeStamp, TicketState, TicketVersion, check_change


def check_tickets(store: Store) -> list[StoreFinding]:
    """Read every version of every ticket and return the problems. Raises StoreError."""
    states, findings = _read_states(store)
    heads, _ = list_heads(store)
    findings += (
        StoreFinding(f"ticket {id_}", problem)
        for id_, state in states.items()
        for problem in _link_problems(state, heads)
    )
    findings += _cycle_findings(states)
    return findings


def check_versions(store: Store) -> list[StoreFinding]:
    """Return the problems of the versions themselves, as `check_tickets`, but not of the links.

    A copy of some tickets has links to others that it lacks.
    """
    return _read_states(store)[1]


def _read_states(
    store: Store,
) -> tuple[dict[TicketId, TicketState], list[StoreFinding]]:
    """Return the last states of the tickets that can be read, and the problems of the others."""
    states: dict[TicketId, TicketState] = {}
    heads, damaged = list_heads(store)
    findings = [StoreFinding(f"ticket {id_}", problem) for id_, problem in damaged.items()]
    for id_, head in heads.items():
        try:
            states[id_] = _check_chain(store, id_, head)
        except (HarkenError, ValueError, OverflowError) as error:
            findings.append(StoreFinding(f"ticket {id_}", str(error)))
    return states, findings


def _check_chain(store: Store, id_: TicketId, head: ArtifactRef) -> TicketState:
    """Return the last state of a ticket. Raises ValueError or HarkenError for a problem."""
    name: ArtifactRef | None = head
    state: TicketState | None = None
    stamps: list[ChangeStamp | None] = []
    while name is not None:
        version = _read_version(store, name)
        state = state or version.ticket
        if version.parent is not None:
            stamps.append(version.created)
        elif ticket_id(name) != id_:
            raise ValueError(f"its first version {name} belongs to another ticket")
        elif {*stamps} - {ChangeStamp(version.author, version.time, version.context_id)}:
            raise ValueError("a version names another author, time or context of the first one")
        name = version.parent
    if state is None:
        raise ValueError("it has no version")
    return state


def _read_version(store: Store, name: ArtifactRef) -> TicketVersion:
    members = store.sequences([name]).get(name)
    if not members:
        raise ValueError(f"its version {name} is missing")
    version = decode_record(name, store.raw(members[0]))
    if list_members(members[0], version) != members:
        raise ValueError(f"the members of its version {name} differ from those of the record")
    check_change(version)
    return version


def _link_problems(state: TicketState, existing: Container[TicketId]) -> Iterator[str]:
    links = [*state.blocked_by, *([] if state.parent is None else [state.parent])]
    for link in links:
        if link not in existing:
            yield f"it names {link}, which is not in the store"


def _cycle_findings(states: dict[TicketId, TicketState]) -> Iterator[StoreFinding]:
    blockers = {id_: state.blocked_by for id_, state in states.items()}
    parents = {id_: (state.parent,) for id_, state in states.items() if state.parent}
    for id_ in states:
        if find_cycle(id_, blockers):
            yield StoreFinding(f"ticket {id_}", "it blocks itself")
        if find_cycle(id_, parents):
            yield StoreFinding(f"ticket {id_}", "it is its own parent")
