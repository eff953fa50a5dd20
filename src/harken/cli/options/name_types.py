"""The types of command-line parameters for names of sessions, logs and commits.

They accept any text, because `NameResolver` resolves the names. They add shell completion, from
`completion_names`.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


class NameType(click.ParamType[str]):
    """A parameter type for names in the home folder."""

    def __init__(self, name: str) -> None:
        """Create the type of names of a `session`, `log`, `commit` or `ticket`."""
        self.name = name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names of this type with this prefix, newest first."""
        from harken.cli.completion_names import names_for

        del param
        home: str | None = None
        context: click.Context | None = ctx
        while context is not None and home is None:
            typed = context.params.get("home")
            home = None if typed is None else str(getattr(typed, "folder", typed))
            context = context.parent
        return [CompletionItem(name) for name in names_for(self.name, home, incomplete)]


SESSION = NameType("session")
"""A session, recorded or imported, or a commit; also SESSION/AGENT where the command takes it."""
LOG = NameType("log")
"""A recorded session."""
COMMIT = NameType("commit")
"""A commit or its label, or a session, meaning its last commit."""
TICKET = NameType("ticket")
"""A ticket."""
NAME_TYPES = {name_type.name: name_type for name_type in (SESSION, LOG, COMMIT, TICKET)}
