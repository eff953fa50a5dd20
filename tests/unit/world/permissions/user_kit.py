"""A user for tests with scripted answers, who records all questions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion, UserUnavailable

YES = ApprovalDecision(allowed=True)
NO = ApprovalDecision(allowed=False)


@dataclass
class ScriptedUser:
    """Returns its answers in order. A UserUnavailable among the answers is raised."""

    answers: list[str | ApprovalDecision | UserUnavailable] = field(default_factory=list)
    questions: list[UserQuestion] = field(default_factory=list)
    approvals: list[ApprovalRequest] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def ask(self, question: UserQuestion) -> str:
        self.questions.append(question)
        answer = await self._answer()
        assert isinstance(answer, str)
        return answer

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        self.approvals.append(request)
        answer = await self._answer()
        assert isinstance(answer, ApprovalDecision)
        return answer

    async def _answer(self) -> str | ApprovalDecision:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.01)
        finally:
            self.at_once -= 1
        answer = self.answers.pop(0)
        if isinstance(answer, UserUnavailable):
            raise answer
        return answer


class SilentUser(ScriptedUser):
    """A user who never answers."""

    async def _answer(self) -> str | ApprovalDecision:
        await asyncio.Event().wait()
        raise AssertionError
