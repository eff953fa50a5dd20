"""The tool `ask_user`: an agent asks the user and gets the answer.

The question and the answer are logged as messages of the user; the result represents the answer.
The tool is read-only, so that a pending question does not block the tools of other agents.
"""

from __future__ import annotations

from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import ToolContext, tool
from harken.world.user import UserQuestion, UserUnavailable


@tool(reads_only=True)
async def ask_user(question: str, caller: ToolContext, options: list[str] | None = None) -> str:
    """Ask the user something and wait for the answer.

    Ask what only the user can know or decide, one question at a time, and look first whether you
    can find it out yourself. `options` are answers to choose from; the user may give another one.
    """
    if not question.strip():
        raise InvalidArguments("ask_user: the question has no text")
    user_question = UserQuestion(
        agent=caller.agent.name, question=question, options=tuple(options or ())
    )
    try:
        if caller.user is None:
            raise UserUnavailable("no user is available to answer")
        return await caller.user.ask(user_question)
    except UserUnavailable as error:
        raise ToolError(
            f"no answer: {error}. Continue without one: decide yourself, or report "
            "what you could not do"
        ) from None
