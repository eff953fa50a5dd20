"""The place where a session continues: its log, or a new session from its last commit."""

from __future__ import annotations

from pathlib import Path

from harken.config.home import Home
from harken.config.name_resolver import NamedLogFile, NameResolver, SessionLog


def find_resumed(home: Home, name: str) -> tuple[Path | None, str | None]:
    """Return the log to continue, or the commit from which a new session continues.

    Only sessions of Harken have a log. An imported session or a commit continues in a new session.
    Raises NameNotFound, AmbiguousName, ConfigError.
    """
    resolver = NameResolver(home)
    resolved = resolver.resolve(name)
    if isinstance(resolved, SessionLog | NamedLogFile):
        return resolved.path, None
    return None, resolver.commit_of(resolved)
