"""The structural actions as a model is shown them: names, descriptions, arguments.

What they do is in `actions`. The order here is the order in which models see them.
"""

from __future__ import annotations

from dataclasses import replace

from harken.world.tool import Tool, tool


@tool
def task(
    name: str,
    instructions: str | None = None,
    prompt: str | None = None,
    tools: list[str] | None = None,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
) -> None:
    """Create a subagent with a name and instructions (its system prompt).

    It lives until you terminate it and remembers what it heard. `instructions` is the text, or
    `file:PATH` for a file. With `prompt` it answers at once and its answer is the result.
    `tools` limits what it may use to some of your own tools; by default it has all of them.
    """  # system_prompt and user_prompt are other names for instructions and prompt


@tool
def discuss(
    prompt: str | None = None,
    speakers: list[str] | None = None,
    listeners: list[str] | None = None,
) -> None:
    """Talk with your subagents, by name, and let them talk with each other.

    The prompt goes to all speakers and listeners. Then each speaker in turn answers, heard by
    all others; the answers are the result. Without speakers and listeners, those of the last
    discussion are meant, or the newest subagent. Speakers alone clear the listeners. A good
    first prompt for a group is to ask everyone to introduce themselves.
    """


@tool
def terminate(name: str) -> None:
    """End a subagent, with all subagents of its own, when it is no longer needed."""


ACTIONS: dict[str, Tool] = {action.name: action for action in (task, discuss, terminate)}
"""The structural actions by name, as a model is shown them."""


def is_action(tool: Tool | None) -> bool:
    """Whether a tool is a structural action, however it is described to a model.

    Another program may have a tool of its own that has the name of one.
    """
    action = None if tool is None else ACTIONS.get(tool.name)
    return tool is not None and action is not None and tool.function is action.function


def with_templates(listing: str) -> dict[str, Tool]:
    """Return the structural actions, `task` with these templates in its description.

    Without templates they are as ever: what a model is shown, and its hash, change only where
    there is something to show.
    """
    if not listing:
        return ACTIONS
    described = replace(task, description=f"{task.description}{_HINT}{listing}")
    return {**ACTIONS, task.name: described}


def listing_in(description: str) -> str:
    """Return the templates in what a model was told of `task`: the inverse of `with_templates`.

    >>> listing_in(with_templates("- cook: Cooks.")["task"].description), listing_in("Other.")
    ('- cook: Cooks.', '')
    """
    before, _, listing = description.partition(_HINT)
    return listing if before == task.description else ""


_HINT = "\n\n`instructions` may also be `template:NAME`, for one of these kinds of agents:\n"
