"""`HomeForks`: forks of the sessions of a home, for the routes of the viewer."""

from __future__ import annotations

from harken.cli.commands.fork import ForkOptions, create_fork, parse_message
from harken.cli.commands.ui.home_library import HomeLibrary
from harken.config.home import Home
from harken.errors import ConfigError
from harken.service.viewer.session_forks import ForkRow, SessionForkRequest
from harken.views.tree import format_origin


class HomeForks:
    """Forks sessions of a home as `harken fork` does."""

    def __init__(self, home: Home, library: HomeLibrary) -> None:
        """Nothing is read yet. `library` finds the sessions."""
        self._home, self._library = home, library

    def fork(self, name: str, request: SessionForkRequest) -> ForkRow:
        """Fork a session. Raises NameNotFound, ConfigError, LogError."""
        log = self._library.find_log(name)
        if log is None:
            raise ConfigError(f"{name}: an imported session has no log to fork; continue it here")
        wish = ForkOptions(
            at=None if request.at is None else parse_message(request.at),
            before=request.before,
            edit=request.edit,
            model=request.model or None,
            without_hooks=tuple(request.without_hooks),
            name=request.name or None,
        )
        fork = create_fork(self._home, log, wish)
        return ForkRow(
            session=self._library.resolve(fork.name),
            origin=format_origin(fork.origin),
            disarmed=list(fork.disarmed),
        )
