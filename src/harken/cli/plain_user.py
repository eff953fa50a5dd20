"""The user at a terminal that can only print lines: questions are lines, and so are answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harken.world.user import Asked, Leave, NobodyThere, Wanted

Read = Callable[[str], str | None]
"""Shows a prompt and returns a line; None at the end of the input."""
CHOICES = "yes, no, or why not / what instead"


class PlainUser:
    """Answers by typing a line. Nothing else happens meanwhile: there is one place to type."""

    def __init__(
        self,
        read: Read,
        tell: Callable[[str], None],
        keep_type_ahead: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `keep_type_ahead` before a question is shown: what was typed is no answer to it."""
        self._read, self._tell = read, tell
        self._keep_type_ahead = keep_type_ahead
        self._one = asyncio.Lock()

    async def ask(self, asked: Asked) -> str:
        """Return the answer to a question. Raises NobodyThere at the end of the input."""
        async with self._one:
            self._keep_type_ahead()
            self._tell(f"{asked.agent} asks: {asked.question}")
            for number, option in enumerate(asked.options, 1):
                self._tell(f"  {number} {option}")
            answer = self._line("answer> ")
        is_number = answer.isascii() and answer.isdigit() and 0 < int(answer) <= len(asked.options)
        return asked.options[int(answer) - 1] if is_number else answer

    async def permit(self, wanted: Wanted) -> Leave:
        """Allow an action or not. Raises NobodyThere at the end of the input."""
        async with self._one:
            self._keep_type_ahead()
            self._tell(f"{wanted.agent} wants to use {wanted.tool}:\n{wanted.preview}")
            if wanted.note:
                self._tell(wanted.note)
            for number, rule in enumerate(wanted.rules, 1):
                self._tell(f"  {number} always, for {rule}")
            return _leave(self._line(f"{CHOICES}> "), wanted)

    def _line(self, prompt: str) -> str:
        while (line := self._read(prompt)) is not None:
            if line.strip():
                return line.strip()
        raise NobodyThere("the input has ended")


def _leave(said: str, wanted: Wanted) -> Leave:
    """Read what was typed: whatever is neither a yes nor a rule is a no, and says why."""
    if said.lower() in ("y", "yes"):
        return Leave(allowed=True)
    if said.lower() in ("n", "no"):
        return Leave(allowed=False)
    if said.isascii() and said.isdigit() and 0 < int(said) <= len(wanted.rules):
        return Leave(allowed=True, rule=wanted.rules[int(said) - 1])
    return Leave(allowed=False, reason=said)
