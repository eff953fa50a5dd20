"""The schemas of the structural actions as sent to models: names, descriptions, arguments.

`actions` implements them. Their order here is their order in requests.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from harken.core import structs
from harken.core.events import Place
from harken.core.verdict import BLOCKING_POINTS
from harken.world.tool import Tool, tool


@tool
def task(
    name: str,
    instructions: str | None = None,
    prompt: str | None = None,
    tools: list[str] | None = None,
    model: str | None = None,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
) -> None:
    """Create a subagent with a name and instructions (its system prompt).

    It lives until you terminate it and remembers what it heard. `instructions` is the text, or
    `file:PATH` for a file. With `prompt` it answers at once and its answer is the result.
    `tools` limits what it may use to some of your own tools; by default it has all of them.
    `model` is the language model that it uses, by default yours.
    """  # system_prompt and user_prompt are other names for instructions and prompt


@tool
def discuss(
    prompt: str | None = None,
    speakers: list[str] | None = None,
    listeners: list[str] | None = None,
    rounds: int = 1,
    until: str | None = None,
    order: str = "given",
) -> None:
    """Talk with your subagents, by name, and let them talk with each other.

    The prompt goes to all speakers and listeners. Then each speaker in turn answers; all others
    hear the answer as `[name]: answer`; the answers are the result. Without speakers and
    listeners, those of the last discussion are meant, or the newest subagent. Speakers alone clear
    the listeners. `user` among the speakers is the user. A good first prompt for a group is to ask
    everyone to introduce themselves.

    `rounds` is how many times each speaks at most (1 to 20). `until` ends it earlier: a phrase
    that an answer has, or `judge:NAME`, a subagent that does not speak and is asked after each
    round whether the discussion is done. `order` is `given`, `random`, `random:SEED`, or
    `moderator:NAME`, a subagent that does not speak and is asked before each turn who is next.
    """


@tool
def terminate(name: str) -> None:
    """End a subagent, with all subagents of its own, when it is no longer needed."""


@tool
def hook(
    name: str,
    instructions: str | None = None,
    points: list[Literal["input", "action", "result", "response"]] | None = None,
    tools: list[str] | None = None,
    model: str | None = None,
) -> None:
    """Put a hook above yourself: an agent that watches you, comments, blocks or rewrites.

    You have no authority over it: only it can end itself. `instructions` say what it watches for:
    the text, `file:PATH`, `template:NAME`, or `hook:NAME` for a hook that exists. `points` is
    where it is asked: what you hear, do, get back, answer; by default at all four. `tools` are
    those of yours that it may use besides its own. `model` is its language model, by default
    yours. If you are a hook yourself, it is put above
    the agent that you watch.
    """


@tool
def quit() -> None:  # noqa: A001 - the name of the action
    """Stop watching, for good: after the verdict that you give now you are no hook any more."""


@tool
def keep_note(text: str) -> None:
    """Keep a note for later questions, on a line or a few: what you are asked now is dropped.

    Notes have at most 1,000 characters each; the newest 20 are kept.
    """


@tool
def verdict(
    verdict: Literal["accept", "comment", "deny", "rewrite"],
    text: str | None = None,
    note: str | None = None,
    leave: bool = False,  # noqa: FBT001, FBT002 - the arguments of a tool
) -> None:
    """Give your verdict on the question. It ends your turn.

    `accept`: nothing is wrong with it. `comment`: the agent hears your `text`. `deny`: it must
    not be, and `text` says why. `rewrite`: `text` takes its place, the arguments as JSON or the
    whole response. `note` is kept as with `keep_note`; `leave` ends your watch as `quit` does.
    """


@tool
def read_log(
    agent: str | None = None,
    last: int = 10,
    query: str | None = None,
    message: str | None = None,
) -> None:
    """Read what the agent that you watch, or an agent below it, has heard, said and done.

    The `last` messages; with `query` the last ones that have all these words; with `message` this
    one, whole, by its id. `agent` is the name of a subagent, or a path such as `editor/critic`;
    without it the agent that you watch is meant.
    """


@tool
def meta() -> None:
    """Take the place of the agent that you watch: it becomes your subagent, and keeps its hooks.

    You answer in its place from then on, the user if it is the user who talks with it.
    """


@tool
def endo(
    subagent: str,
    prompt: str | None = None,
    points: list[Literal["input", "action", "result", "response"]] | None = None,
) -> None:
    """Let a subagent take your place; you become a hook that watches it.

    It answers in your place from then on, the user if it is you whom the user talks with. With
    `prompt` it hears that from you, and answers at once. As a hook you are asked at `points`,
    by default at all of input, action, result and response, and answer with a verdict: `OK`,
    `COMMENT: ...`, `DENY: ...` or `REWRITE: ...`. `meta` takes you back.
    """


@tool
def talk_with(name: str) -> None:
    """Let the user talk with a subagent of yours: it takes your place as you are.

    You wait as its silent hook. `name` may lead further down: `editor/critic`.
    """


@tool
def clone(name: str, into: str | None = None, as_name: str | None = None) -> None:
    """Copy a subagent with all that it remembers.

    The copy is a new subagent of yours or, with `into`, of another subagent of yours, which then
    has its experience at hand. `as_name` is what it is called; by default as the original.
    """


@tool
def dump(path: str, name: str | None = None) -> None:
    """Write yourself, or the subagent `name`, to a file, from which `restore` makes it again.

    All is in it: instructions, memory, hooks, subagents. An earlier dump is replaced; another
    file is not.
    """


@tool
def restore(path: str, name: str | None = None) -> None:
    """Make a subagent of an agent that was dumped to a file, with all that it had and remembered.

    It is told that it woke in a new world. `name` is what it is called here. It does nothing
    until you `discuss` with it; with `endo` it takes your place.
    """


@tool
def introduce(speakers: list[str] | None = None, listeners: list[str] | None = None) -> None:
    """Tell subagents who takes part in the discussions that follow: who speaks, who listens.

    Those named are whom `discuss` addresses next; who is meant where nobody is named is as there.
    """


@tool
def compact(keep: str | None = None) -> None:
    """Replace what you have read and done so far with a summary of it, before your next step.

    For the end of a piece of work whose details you need no more. `keep` is what the summary must
    not leave out. It is done when all your calls of this message have their results.
    """


@tool
def export(path: str, format: str = "narrative-v1", name: str | None = None) -> None:
    """Write your conversation, or that of the subagent `name`, to a new file, for others to read.

    `format` is `narrative-v1` (Markdown) or another format of conversations.
    """


ACTIONS: dict[str, Tool] = {
    action.name: action
    for action in (
        task,
        discuss,
        terminate,
        hook,
        quit,
        keep_note,
        verdict,
        read_log,
        meta,
        endo,
        talk_with,
        clone,
        dump.with_subject(by="path", edits_files=True),
        restore.with_subject(by="path", shows_files=True),
        introduce,
        compact,
        export.with_subject(by="path", edits_files=True),
    )
}
"""The structural actions by name, as sent to models."""

BASIC_ACTIONS = ("task", "discuss", "terminate")
"""The actions of an agent without a tool list, unless its runtime names others."""
VERDICT = verdict.name
HOOK_ACTIONS = frozenset({"quit", "keep_note", "read_log", "meta", VERDICT})
"""Actions that only an agent that is a hook now may use."""
GRANTED_HOOK_ACTIONS = frozenset({"hook"})
"""Actions that a hook may use only if its tool list names them."""


def may_use(
    name: str, allowed: Collection[str] | None, place: Place, actions: Collection[str]
) -> bool:
    """Whether an agent at a place, with a list of what it may use, may use a tool or an action.

    actions: those that an agent has that has no list.

    >>> may_use("quit", [], "hook", ()), may_use("quit", None, "primary", ["quit"])
    (True, False)
    >>> may_use("hook", None, "primary", ["hook"]), may_use("hook", None, "hook", ["hook"])
    (True, False)
    """
    if name in HOOK_ACTIONS:
        return place == "hook"
    if allowed is not None:
        return name in allowed
    if name in ACTIONS:
        return name in actions and not (place == "hook" and name in GRANTED_HOOK_ACTIONS)
    return True


def verdict_at(points: Collection[str]) -> Tool | None:
    """Return the action `verdict` of a hook asked at these points. Return None without points.

    At `input` and `result` a hook can only accept and comment.
    """
    if not points:
        return None
    if not BLOCKING_POINTS.isdisjoint(points):
        return verdict
    properties = dict(verdict.parameters["properties"])
    properties["verdict"] = {**properties["verdict"], "enum": ["accept", "comment"]}
    return structs.replace(verdict, parameters={**verdict.parameters, "properties": properties})


def is_action(tool: Tool | None) -> bool:
    """Whether a tool is a structural action, regardless of its description.

    A tool of another program may have the same name.
    """
    action = None if tool is None else ACTIONS.get(tool.name)
    return tool is not None and action is not None and tool.function is action.function


def with_listings(templates: str, hooks: str) -> dict[str, Tool]:
    """Return the structural actions, with templates in `task` and named hooks in `hook`.

    An empty listing changes nothing, neither schemas nor their hash.
    """
    listings = {task.name: templates, hook.name: hooks}
    described = {
        name: structs.replace(
            ACTIONS[name], description=f"{ACTIONS[name].description}{_HINTS[name]}{listing}"
        )
        for name, listing in listings.items()
        if listing
    }
    return {**ACTIONS, **described}


def parse_listing(name: str, description: str) -> str:
    """Parse the listing from the description of an action: the inverse of `with_listings`."""
    before, _, listing = description.partition(_HINTS[name])
    return listing if before == ACTIONS[name].description else ""


_HINTS = {
    "task": "\n\n`instructions` may also be `template:NAME`, for one of these kinds of agents:\n",
    "hook": "\n\n`instructions` may also be `hook:NAME`, for one of these hooks:\n",
}
"""The text between the description of an action and its listing."""
