"""The options that select sessions and times, for `search`, `stats` and `export-tables`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import click
import msgspec

from harken.cli.options.time import parse_time_us
from harken.config.home import current_folder
from harken.errors import NameNotFound

if TYPE_CHECKING:
    from harken.analytics.scope import Scope

_OPTIONS = (
    click.option(
        "--since", metavar="TIME", help="Start of the time range: 2026-03-05, today, 7d (ago)."
    ),
    click.option(
        "--until", metavar="TIME", help="End of the time range; a day includes all of it."
    ),
    click.option(
        "--project",
        metavar="FOLDER",
        help="Filter by working folder, or the last part of its path.",
    ),
    click.option("--runtime", metavar="NAME", help="Filter by runtime: claude, codex, harken, ..."),
)


def scope_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `ScopeOptions` to a command, except the zone and the session."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class ScopeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that select sessions and times."""

    since: str | None
    until: str | None
    project: str | None
    runtime: str | None
    zone: tzinfo
    """The time zone of days."""
    session: str | None = None

    def scope(self, database: apsw.Connection) -> Scope:
        """Return the scope. Raises ConfigError, and NameNotFound for unknown names."""
        from harken.analytics.scope import Scope, projects, runtimes, session_id

        if self.runtime is not None and self.runtime not in (names := [*runtimes(database)]):
            raise NameNotFound("runtime", self.runtime, names)
        return Scope(
            since_us=self._moment(self.since),
            until_us=self._moment(self.until, is_end=True),
            projects=None if self.project is None else projects(database, _folder(self.project)),
            runtime=self.runtime,
            session_id=None if self.session is None else session_id(database, self.session),
        )

    def _moment(self, text: str | None, *, is_end: bool = False) -> int | None:
        if text is None:
            return None
        return parse_time_us(text, self.zone, datetime.now(UTC), is_end=is_end)


def _folder(name: str) -> str:
    """Return an absolute path if the text begins with `.` or `~`, else the text itself."""
    if name.startswith((".", "~")):
        return str((current_folder() / Path(name).expanduser()).resolve())
    return name
