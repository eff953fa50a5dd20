"""What is taken out of requests before they are compared: a function for each rule.

One idea: each gets a request and the one that it is compared with, and returns the first without
what its rule is about. Why, stands in `harken.capture.resume.allowed_differences`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from harken.capture.resume.request_diff import Message, Request, key
from harken.formats.images import image_of

Change: TypeAlias = Callable[[Request, Request], Request]
"""Takes something out of the first request; the second is the one that it is compared with."""
_MASKED = "<tool_output_masked>"
_CHANGED = {"SendMessage": frozenset({"to", "summary", "message"})}
"""Tools of Claude Code whose inputs had other members once, and what they take today."""
_LARGEST_SIDE = 2048
_ALIKE = 40
"""How many characters instructions begin alike with that are of one client."""


def unmarked(request: Request, _other: Request) -> Request:
    """Take out the marks that say how far to cache."""
    return [
        _with_blocks(message, _without(blocks_of(message), "cache_control")) for message in request
    ]


def listed(request: Request, _other: Request) -> Request:
    """Write each content that is a text as a list."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in request
    ]


def unsaid(request: Request, _other: Request) -> Request:
    """Take out members of blocks that say what their absence says."""

    def plain(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        empty = {"citations": (None, []), "is_error": (None, False)}
        return {n: v for n, v in block.items() if n not in empty or v not in empty[n]}

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in request]


def without_reminders(request: Request, expected: Request) -> Request:
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


def without_line_end(request: Request, expected: Request) -> Request:
    """Take the line's end from the last text, with which Claude Code parts it from a prompt."""
    wanted = [block for message in expected[-1:] for block in blocks_of(message)[-1:]]
    last = [block for message in request[-1:] for block in blocks_of(message)[-1:]]
    if not (wanted and last) or text_of_block(last[0]) != f"{text_of_block(wanted[0])}\n":
        return request
    return [*request[:-1], _with_blocks(request[-1], [*blocks_of(request[-1])[:-1], *wanted])]


def without_gone_tools(expected: Request, sent: Request) -> Request:
    """Take out references to tools, and members of their inputs, that the client knows no more."""
    blocks = [block for message in sent for block in blocks_of(message) if isinstance(block, dict)]
    named = {key(one) for block in blocks for one in _inner(block)}
    inputs = {key(block.get("id")): block.get("input") for block in blocks}

    def plain(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if str(block.get("name")) in _CHANGED and isinstance(block.get("input"), dict):
            known = inputs.get(key(block.get("id")))
            return {**block, "input": _as_now(block, known if isinstance(known, dict) else {})}
        if any(_is_reference(one) for one in _inner(block)):
            kept = [one for one in _inner(block) if not _is_reference(one) or key(one) in named]
            return {**block, "content": kept}
        return block

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in expected]


def _as_now(block: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return an input without members that were once, and say what stands in others, too."""
    taken = _CHANGED[block["name"]] | known.keys()
    kept = {name: value for name, value in block["input"].items() if name in taken}
    said = {key(value) for value in kept.values()} | {key("message")}
    return {n: v for n, v in block["input"].items() if n in kept or key(v) not in said}


def _inner(block: dict[str, Any]) -> list[Any]:
    content = block.get("content")
    return content if isinstance(content, list) else []


def _is_reference(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_reference"


def with_small_images(expected: Request, sent: Request) -> Request:
    """Put what was sent in place of images that Codex makes smaller."""
    ours, theirs = [*_images(expected)], [*_images(sent)]
    if len(ours) != len(theirs):
        return expected
    smaller = {
        one["image_url"]: other["image_url"]
        for one, other in zip(ours, theirs, strict=True)
        if _is_large(one["image_url"])
    }

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                n: smaller.get(v, v) if n == "image_url" and isinstance(v, str) else plain(v)
                for n, v in value.items()
            }
        return [*map(plain, value)] if isinstance(value, list) else value

    return [plain(message) for message in expected] if smaller else expected


def _images(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("image_url"), str):
            yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list) else ():
        yield from _images(inner)


def _is_large(url: str) -> bool:
    head, comma, data = url.partition(";base64,")
    try:
        image = image_of(b64decode(data)) if comma and head.startswith("data:") else None
    except ValueError:
        return False
    return image is not None and max(image.width, image.height) > _LARGEST_SIDE


def without_first_system(request: Request, expected: Request) -> Request:
    """Take out what a client says to the model before the conversation, in its own name."""
    known = {key(message) for message in expected}
    for at, message in enumerate(request):
        if message.get("role") not in ("system", "developer") or key(message) in known:
            return request[at:]
    return []


def with_own_sections(expected: Request, sent: Request) -> Request:
    """Put what was sent in place of Codex's own instructions, if that begins alike."""
    ours, theirs = (_instructions(request) for request in (expected, sent))
    is_own = ours is not None and ours[:_ALIKE] == (theirs or "")[:_ALIKE]
    return [*sent[:1], *expected[1:]] if is_own and len(ours or "") >= _ALIKE else expected


def _instructions(request: Request) -> str | None:
    """Return the instructions that a request begins with; None: it begins otherwise."""
    if not request or request[0].get("role") != "developer":
        return None
    return "".join(map(text_of_block, blocks_of(request[0])))


def without_new_ids(request: Request, expected: Request) -> Request:
    """Take out ids of messages that nobody expects."""
    known = {key(message.get("id")) for message in expected}
    return [
        message
        if key(message.get("id")) in known
        else {name: value for name, value in message.items() if name != "id"}
        for message in request
    ]


def without_told(request: Request, expected: Request) -> Request:
    """Take out messages at the end that nobody said."""
    known = {key(message) for message in expected}
    end = len(request)
    while end and _is_told(request[end - 1]) and key(request[end - 1]) not in known:
        end -= 1
    return request[:end]


def _is_told(message: Message) -> bool:
    return message.get("type") == "message" and message.get("role") in ("user", "developer")


def without_setting(request: Request, expected: Request) -> Request:
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


def unmasked(request: Request, expected: Request) -> Request:
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
