"""`/replay` in a chat: this session, or a past one, request by request.

It stands apart from the other slash commands, since what it shows is drawn with the screen's own
pieces, and the screen knows all slash commands.
"""

from __future__ import annotations

from harken.cli.commands import Talk, printed, slash, words_of


@slash(
    "replay",
    "a session request by request, as in `harken replay`",
    "[SESSION] [--at N]",
    group="session",
)
def replay(talk: Talk, rest: str) -> None:
    """Print the steps of a session, of this one where none is named."""
    from harken.cli.replay import command

    words = words_of(talk, "/replay", rest)
    if words is not None:
        this = [] if words and not words[0].startswith("-") else [str(talk.session.path)]
        talk.say(printed(command, "/replay", [*this, *words]))
