"""All that may differ between what was materialized and what a client sends, and why.

One idea: what may differ is listed here and nowhere else, with its reason. Everything else must be
equal: order, roles, texts to the last byte, ids, inputs, signatures. A rule about what a client
says of the present takes away only what nobody expects, so it hides no loss.

There are two lists, since there are two steps: `LEFT_OUT` is what a written session may lack of the
conversation that it is made of; `RULES` in what the request of the client may differ from the
written session.

Source: docs/how-to/continue-anywhere.md, "What may differ".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harken.capture.difference import Message, Request, key

ANY = "*"
_MASKED = "<tool_output_masked>"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Something that may differ."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Allowed):
    """Something in which two requests may differ."""

    clients: tuple[str, ...]
    """By runtime, or `*`."""
    applied: Callable[[Request, Request], Request]
    """Takes it out of the first request; the second is what that is compared with."""
    is_expected: bool = False
    """Whether it is taken out of what is expected, too: it says nothing wherever it stands."""


def _unmarked(request: Request, _other: Request) -> Request:
    return [
        _with_blocks(message, _without(blocks_of(message), "cache_control")) for message in request
    ]


def _listed(request: Request, _other: Request) -> Request:
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in request
    ]


def _unsaid(request: Request, _other: Request) -> Request:
    def plain(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        empty = {"citations": (None, []), "is_error": (None, False)}
        return {n: v for n, v in block.items() if n not in empty or v not in empty[n]}

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in request]


def _without_reminders(request: Request, expected: Request) -> Request:
    """Take out blocks of reminders, and `system` messages, that nobody expects."""
    known = {key(block) for message in expected for block in blocks_of(message)}
    found = []
    for message in request:
        kept = [one for one in blocks_of(message) if key(one) in known or not _is_reminder(one)]
        if message.get("role") != "system" and (kept or not blocks_of(message)):
            found.append(_with_blocks(message, kept))
    return found


def _is_reminder(block: Any) -> bool:
    return text_of_block(block).startswith("<system-reminder>")


def _without_first_system(request: Request, expected: Request) -> Request:
    """Take out what a client says to the model before the conversation, in its own name."""
    known = {key(message) for message in expected}
    for at, message in enumerate(request):
        if message.get("role") not in ("system", "developer") or key(message) in known:
            return request[at:]
    return []


def _without_new_ids(request: Request, expected: Request) -> Request:
    known = {key(message.get("id")) for message in expected}
    return [
        message
        if key(message.get("id")) in known
        else {name: value for name, value in message.items() if name != "id"}
        for message in request
    ]


def _without_told(request: Request, expected: Request) -> Request:
    """Take out messages at the end that nobody said."""
    known = {key(message) for message in expected}
    end = len(request)
    while end and _is_told(request[end - 1]) and key(request[end - 1]) not in known:
        end -= 1
    return request[:end]


def _is_told(message: Message) -> bool:
    return message.get("type") == "message" and message.get("role") in ("user", "developer")


def _without_setting(request: Request, expected: Request) -> Request:
    """Take out what Gemini CLI says in front of the first text of the user."""
    known = {key(block) for message in expected for block in blocks_of(message)}
    if not request:
        return request
    first, *rest = request
    kept = [
        block
        for block in blocks_of(first)
        if key(block) in known or not text_of_block(block).startswith("<session_context>")
    ]
    return [_with_blocks(first, kept), *rest] if kept else rest


def _unmasked(request: Request, expected: Request) -> Request:
    """Put outputs that Gemini CLI masked back, where one is expected for the same call."""
    whole = {
        key(part["functionResponse"].get("id")): part
        for message in expected
        for part in blocks_of(message)
        if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)
    }

    def plain(part: Any) -> Any:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        is_masked = isinstance(response, dict) and _MASKED in key(response.get("response"))
        return whole.get(key(response.get("id")), part) if response and is_masked else part

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in request]


RULES = (
    Rule(
        name="cache marks",
        why="they say how far a provider should keep the request, not what the model reads",
        clients=("claude",),
        applied=_unmarked,
        is_expected=True,
    ),
    Rule(
        name="texts as lists",
        why="a text is short for a list with this text: the provider makes no difference",
        clients=("claude", "pi", "opencode"),
        applied=_listed,
        is_expected=True,
    ),
    Rule(
        name="members that say nothing",
        why="no citations, and a result that is no error, are what their absence says",
        clients=("claude",),
        applied=_unsaid,
        is_expected=True,
    ),
    Rule(
        name="reminders",
        why="what Claude Code says about the folder, the day and its tools when it is started",
        clients=("claude",),
        applied=_without_reminders,
    ),
    Rule(
        name="new ids",
        why="Codex names what has no id in the session, anew each time",
        clients=("codex",),
        applied=_without_new_ids,
    ),
    Rule(
        name="instructions",
        why="the client's own prompt, which it sends with whatever conversation",
        clients=("codex", "pi", "opencode"),
        applied=_without_first_system,
    ),
    Rule(
        name="the present",
        why="what Codex says about the folder, the day and its skills when it is started",
        clients=("codex",),
        applied=_without_told,
    ),
    Rule(
        name="the setting",
        why="what Gemini CLI says about the folder and the day in front of the first prompt",
        clients=("gemini",),
        applied=_without_setting,
    ),
    Rule(
        name="masked outputs",
        why="Gemini CLI sends previews of old outputs where there are many, in any session; "
        "the outputs themselves are in what is written",
        clients=("gemini",),
        applied=_unmasked,
    ),
)
"""All that may differ. They are applied in this order."""


THOUGHTS = Allowed("thoughts", "nobody said them, and only who thought them can sign them")
UNREAD = Allowed("errors", "what a client said of its own errors, which no model was to read")
BLOCKS = Allowed("blocks", "what only its own provider understands; its beginning is told")
IMAGES = Allowed("images", "what no other provider shows: another kind, or an address; it is told")
LEFT_OUT = (THOUGHTS, UNREAD, BLOCKS, IMAGES)
"""What a written session may lack. Beside that, ids and names have only letters that all providers
take, and what a provider demands is added: results of calls that nobody answered, turns."""


def blocks_of(message: Message) -> list[Any]:
    """Return the blocks of a message; none: it has no list of them."""
    for name in ("content", "parts"):
        if isinstance(message.get(name), list):
            return list(message[name])
    return []


def _with_blocks(message: Message, blocks: list[Any]) -> Message:
    name = "content" if isinstance(message.get("content"), list) else "parts"
    return {**message, name: blocks} if isinstance(message.get(name), list) else message


def _without(blocks: Sequence[Any], name: str) -> list[Any]:
    return [
        {n: v for n, v in block.items() if n != name} if isinstance(block, dict) else block
        for block in blocks
    ]


def text_of_block(block: Any) -> str:
    """Return the text of a block, which may be a text itself."""
    if isinstance(block, dict):
        block = block.get("text")
    return block if isinstance(block, str) else ""
