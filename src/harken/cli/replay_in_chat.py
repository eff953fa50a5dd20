"""`/replay` in a chat: this session, or a past one, request by request.

In a terminal `harken replay` has it meanwhile, and keys move; else the steps are printed. It stands
apart from the other slash commands, since what it shows is drawn with the screen's own pieces, and
the screen knows all slash commands.
"""

from __future__ import annotations

from harken.cli.commands import Talk, printed, slash, words_of
from harken.cli.home import same_home

_PRINTS = frozenset({"--check", "--context", "--help", "--json", "-h"})
"""With these `harken replay` prints, also in a terminal."""


@slash(
    "replay",
    "a session request by request, as in `harken replay`",
    "[SESSION] [--at N]",
    group="session",
)
def replay(talk: Talk, rest: str) -> None:
    """Step through a session, this one where none is named; print the steps without a screen."""
    from harken.cli.replay import command

    words = words_of(talk, "/replay", rest)
    if words is None:
        return
    this = [] if words and not words[0].startswith("-") else [str(talk.session.path)]
    if not _PRINTS.isdisjoint(words) or not talk.lend(["replay", *this, *words, *same_home()]):
        talk.say(printed(command, "/replay", [*this, *words]))
