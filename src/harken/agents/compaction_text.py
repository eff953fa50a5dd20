"""The texts of compaction: the request for a summary, and the message that contains it."""

from __future__ import annotations

_QUESTION = """\
This conversation is about to be compacted: from your next answer on you will read your \
instructions and the summary that you write now, and not what came before. Nobody else reads it. \
Write it so that you can go on as if you remembered everything that still matters, and leave out \
what no longer does.

Use these headings, in this order; leave out one that has nothing:

## Goals
What the user wants, each request that still holds, in the user's own words where the wording \
matters. Constraints, preferences and corrections; a later word replaces an earlier one.
## Decisions
What was decided, each with its reason. What was tried and did not work, and why, so that it is \
not tried again.
## State
What is done and what is not. Files that were made, changed or read, by their full paths, with \
what in them matters. Commands and their results. Errors, and how they were mended. Other agents: \
their names, what they know and were asked. The list of things to do, as it stands now.
## Open questions
What is not known or not decided, and what the user was asked and has not answered.
## Next steps
What you were about to do, as exactly as you know it.

Copy names, paths, numbers, ids, addresses, commands and pieces of code that will be needed \
exactly as they are. Say nothing that was not said or seen; say where you are not sure. Answer \
with the summary alone and call no tool: no call is run now."""

_IN_PARTICULAR = "\n\nThe user asks you to keep in particular:\n{}"

_STANDS_IN = """\
[The conversation up to here was compacted. This is your summary of it; the rest is not in your \
context any more.]

"""

_GO_ON = """

[What follows is as it was: what you were asked last, and where you had begun, your last step. \
Go on from there; do not begin again what the summary says is done.]"""

CUT_OFF = "\n[the summary reached its greatest length and was cut off here]"
NOT_RUN = "Error: not run: the conversation is being summed up."
"""The result of a call in the answer to the request for a summary."""


def format_summary_request(instructions: str = "") -> str:
    """Format the request for a summary; `instructions` say what it must keep in particular."""
    stripped = instructions.strip()
    return _QUESTION + (_IN_PARTICULAR.format(stripped) if stripped else "")


def parse_summary_request(request: str) -> str:
    """Parse the instructions from a request: the inverse of `question`."""
    return request.removeprefix(_QUESTION).removeprefix(_IN_PARTICULAR.format(""))


def format_summary_message(summary: str, *, is_pending: bool) -> str:
    """Format the message with a summary; `is_pending`: the agent has not answered yet."""
    return f"{_STANDS_IN}{summary}{_GO_ON if is_pending else ''}"


def parse_summary_message(text: str) -> str:
    """Parse the summary from its message: the inverse of `stand_in`."""
    return text.removeprefix(_STANDS_IN).removesuffix(_GO_ON)
