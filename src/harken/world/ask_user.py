"""The tool `ask_user`: an agent asks the user and gets the answer.

Question and answer are logged as what the user heard and said; the result represents the answer.
It reads only, so that a question holds nobody else's tools up.
"""

from __future__ import annotations

from harken.world.result import BadArguments, Failed
from harken.world.tool import Caller, tool
from harken.world.user import Asked, NobodyThere


@tool(reads_only=True)
async def ask_user(question: str, caller: Caller, options: list[str] | None = None) -> str:
    """Ask the user something and wait for the answer.

    Ask what only the user can know or decide, one question at a time, and look first whether you
    can find it out yourself. `options` are answers to choose from; the user may give another one.
    """
    if not question.strip():
        raise BadArguments("ask_user: the question has no text")
    asked = Asked(agent=caller.agent.name, question=question, options=tuple(options or ()))
    try:
        if caller.user is None:
            raise NobodyThere("nobody is there to answer")
        return await caller.user.ask(asked)
    except NobodyThere as error:
        raise Failed(
            f"there is no answer: {error}. Go on without one: decide yourself, or say what you "
            f"could not do because of it"
        ) from None
