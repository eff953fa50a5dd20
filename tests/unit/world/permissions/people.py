"""Somebody to ask: a user who answers from a list and remembers what was asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from harken.world.user import Asked, Leave, NobodyThere, Wanted

YES = Leave(allowed=True)
NO = Leave(allowed=False)


@dataclass
class Person:
    """Answers in order; a NobodyThere among the answers is raised."""

    answers: list[str | Leave | NobodyThere] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def ask(self, asked: Asked) -> str:
        self.asked.append(asked)
        answer = await self._answer()
        assert isinstance(answer, str)
        return answer

    async def permit(self, wanted: Wanted) -> Leave:
        self.wanted.append(wanted)
        answer = await self._answer()
        assert isinstance(answer, Leave)
        return answer

    async def _answer(self) -> str | Leave:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.01)
        finally:
            self.at_once -= 1
        answer = self.answers.pop(0)
        if isinstance(answer, NobodyThere):
            raise answer
        return answer


class Silent(Person):
    """Somebody who thinks for ever."""

    async def _answer(self) -> str | Leave:
        await asyncio.Event().wait()
        raise AssertionError
