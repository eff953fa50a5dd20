"""`RunComparer`: the protocol through which the routes compare sessions.

The command implements it: this package does not know how runs are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from harken.core.events import Event
from harken.core.record import Record
from harken.views.steps import RequestSteps


class RunSource(NamedTuple):
    """A session that is compared."""

    name: str
    version: object
    """Another value when the session has other events."""
    steps: RequestSteps


class AgentAlignment(Protocol):
    """The transcripts of one agent of each run, aligned by position."""

    earlier: int
    """The number of equal messages before the compared ones."""
    position: int | None
    """The number of common messages after them. None if all runs are equal."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def build_row(self, index: int) -> Record:
        """Return a row by its index."""

    def read_text(self, index: int, run: int) -> str:
        """Return the whole text of a message by its row and run. Raises NameNotFound."""


class ComparedRuns(Protocol):
    """Sessions that are compared with the first of them."""

    def summarize(self) -> dict[str, Any]:
        """Return the outcomes, the agents, and the comparison with each other session, as JSON."""

    def align(self, agents: Sequence[str | None]) -> tuple[list[str], AgentAlignment]:
        """Align one agent of each session, and return their names.

        Of a session without a name, it is the agent with the name of that of the first session, or
        the first one. Without any name it is the first agent that differs. Raises NameNotFound.
        """


class RunComparer(Protocol):
    """Compares sessions. Its methods are called by several threads at a time."""

    def find_original(self, events: Iterable[Event]) -> str | None:
        """Return the session of the library that a session was forked from, if there is one."""

    def compare(self, runs: Sequence[RunSource]) -> ComparedRuns:
        """Compare two or more sessions. Raises HarkenError if one lacks part of a context."""
