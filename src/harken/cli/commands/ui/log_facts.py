"""Facts of logs that the index lacks, for search hits: the main agent's name, and the drafts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec

from harken.cli.commands.sessions.listing import MAX_PEEKED_EVENTS
from harken.core.ids import MessageId
from harken.errors import LogError
from harken.session.log.compressed import stat_log
from harken.session.log.reader import iter_events
from harken.views.dialogs.answers import Answers
from harken.views.dialogs.dialog import find_primary_agents
from harken.views.links import Links

_MAX_LOG_BYTES = 4 << 20
"""The size up to which a log is read completely for a hit."""


class LogFacts(msgspec.Struct, frozen=True):
    """Facts of a log."""

    main_agent: str | None = None
    """The name of the first agent that the user talked with."""
    unheard: frozenset[MessageId] | None = None
    """The answers that no other agent received as they are. None if the log is too large."""


class LogFactsCache:
    """The facts of the logs with hits of one search."""

    def __init__(self) -> None:
        self._facts: dict[Path, LogFacts] = {}

    def find(self, path: Path) -> LogFacts:
        """Return the facts of a log, without any if it cannot be read."""
        if path not in self._facts:
            self._facts[path] = _read_facts(path)
        return self._facts[path]


def _read_facts(path: Path) -> LogFacts:
    try:
        is_large = stat_log(path).size_bytes > _MAX_LOG_BYTES
        links = Links.of(islice(iter_events(path), MAX_PEEKED_EVENTS if is_large else None))
    except (LogError, OSError):
        return LogFacts()
    primary = next(iter(find_primary_agents(links)), None)
    name = None if primary is None else links.names.latest_name(primary)
    return LogFacts(name, None if is_large else frozenset(Answers.of(links).outcomes))
