"""Remove allowed differences from requests before they are compared: one function for each rule.

Each function takes a request and the one it is compared with, and returns the first without the
content of its rule. The reasons are in `harken.capture.resume.allowed_differences`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from harken.capture.resume.request_diff import Message, Request, comparison_key
from harken.formats.images import read_image_header
from harken.formats.runtimes.claude_code.resume_request import LOADED

RequestTransform: TypeAlias = Callable[[Request, Request], Request]
"""Removes content from the first request. The second is the one it is compared with."""
_MASKED_TAG = "<tool_output_masked>"
_CHANGED_TOOLS = {"SendMessage": frozenset({"to", "summary", "message"})}
"""Tools of Claude Code with changed input members -> the members of the current version."""
_MAX_SIDE_PX = 2048
_UNREAD_IMAGE = re.compile(
    r'ERROR: Cannot read (image|".*") \(this model does not support image input\)\. '
    r"Inform the user\."
)
"""The text that OpenCode sends in place of an image if the configuration of the model has none."""
_COMMON_CHARS = 40
"""The length of the common beginning that identifies the client of instructions."""


def without_cache_marks(request: Request, _other: Request) -> Request:
    """Remove cache markers."""
    return [
        _with_blocks(message, _without_member(blocks_of(message), "cache_control"))
        for message in request
    ]


def with_text_lists(request: Request, _other: Request) -> Request:
    """Convert each text content to a list with a text block."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in request
    ]


def without_default_members(request: Request, _other: Request) -> Request:
    """Remove members of blocks with values equal to the default."""

    def plain(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        empty = {"citations": (None, []), "is_error": (None, False)}
        return {n: v for n, v in block.items() if n not in empty or v not in empty[n]}

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in request]


def without_reminders(request: Request, expected: Request) -> Request:
    """Remove reminders and system messages, or the paragraphs of them, that are not expected."""
    expected_keys = {comparison_key(block) for message in expected for block in blocks_of(message)}
    texts = [text for message in expected for text in _reminder_texts(message)]
    messages = []
    for message in request:
        blocks = []
        for block in blocks_of(message):
            is_optional = message.get("role") == "system" or _is_reminder(block)
            if not is_optional or comparison_key(block) in expected_keys:
                blocks.append(block)
            elif text := next((t for t in texts if _has_paragraphs(text_of_block(block), t)), ""):
                blocks.append({**block, "text": text})
        if blocks or (not blocks_of(message) and message.get("role") != "system"):
            messages.append(_with_blocks(message, blocks))
    return messages


def _reminder_texts(message: Message) -> list[str]:
    is_system = message.get("role") == "system"
    return [text_of_block(b) for b in blocks_of(message) if is_system or _is_reminder(b)]


def _is_reminder(block: Any) -> bool:
    return text_of_block(block).startswith("<system-reminder>")


def _has_paragraphs(text: str, part: str) -> bool:
    """Whether a text contains all paragraphs of another one, in order."""
    paragraphs = iter(text.split("\n\n"))
    return all(paragraph in paragraphs for paragraph in part.split("\n\n"))


def without_line_end(request: Request, expected: Request) -> Request:
    """Remove the line end that Claude Code adds to the last text before a prompt."""
    expected_last = [block for message in expected[-1:] for block in blocks_of(message)[-1:]]
    last = [block for message in request[-1:] for block in blocks_of(message)[-1:]]
    if (
        not (expected_last and last)
        or text_of_block(last[0]) != f"{text_of_block(expected_last[0])}\n"
    ):
        return request
    return [
        *request[:-1],
        _with_blocks(request[-1], [*blocks_of(request[-1])[:-1], *expected_last]),
    ]


def without_removed_tools(expected: Request, sent: Request) -> Request:
    """Remove references to tools, and members of their inputs, that the client no longer has.

    In place of the last reference of a result, the client sends a note.
    """
    blocks = [block for message in sent for block in blocks_of(message) if isinstance(block, dict)]
    sent_keys = {
        comparison_key(inner_block) for block in blocks for inner_block in _content_list(block)
    }
    inputs = {comparison_key(block.get("id")): block.get("input") for block in blocks}
    notes = {
        comparison_key(block.get("tool_use_id")): [
            inner for inner in _content_list(block) if _is_removal_note(inner)
        ]
        for block in blocks
    }

    def plain(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if str(block.get("name")) in _CHANGED_TOOLS and isinstance(block.get("input"), dict):
            sent_input = inputs.get(comparison_key(block.get("id")))
            return {
                **block,
                "input": _current_input(block, sent_input if isinstance(sent_input, dict) else {}),
            }
        if any(_is_reference(inner_block) for inner_block in _content_list(block)):
            content = [
                inner_block
                for inner_block in _content_list(block)
                if not _is_reference(inner_block) or comparison_key(inner_block) in sent_keys
            ]
            note = notes.get(comparison_key(block.get("tool_use_id")), [])
            return {**block, "content": content or note}
        return block

    def plain_message(message: Message) -> Message:
        converted = [*map(plain, blocks_of(message))]
        if _has_reference(blocks_of(message)) and not _has_reference(converted):
            converted = [block for block in converted if text_of_block(block) != LOADED]
        return _with_blocks(message, converted)

    return [*map(plain_message, expected)]


def _has_reference(blocks: Sequence[Any]) -> bool:
    results = [block for block in blocks if isinstance(block, dict)]
    return any(_is_reference(inner) for block in results for inner in _content_list(block))


def _is_removal_note(block: Any) -> bool:
    return text_of_block(block).startswith("[Tool references removed - ")


def _current_input(block: dict[str, Any], sent_input: dict[str, Any]) -> dict[str, Any]:
    """Return an input without old members whose values are repeated in current members."""
    current_names = _CHANGED_TOOLS[block["name"]] | sent_input.keys()
    current = {name: value for name, value in block["input"].items() if name in current_names}
    current_keys = {comparison_key(value) for value in current.values()} | {
        comparison_key("message")
    }
    return {
        n: v
        for n, v in block["input"].items()
        if n in current or comparison_key(v) not in current_keys
    }


def _content_list(block: dict[str, Any]) -> list[Any]:
    content = block.get("content")
    return content if isinstance(content, list) else []


def _is_reference(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_reference"


def with_small_images(expected: Request, sent: Request) -> Request:
    """Replace images that Codex scales down by the sent ones."""
    expected_images, sent_images = [*_iter_images(expected)], [*_iter_images(sent)]
    if len(expected_images) != len(sent_images):
        return expected
    smaller = {
        expected_image["image_url"]: sent_image["image_url"]
        for expected_image, sent_image in zip(expected_images, sent_images, strict=True)
        if _is_large(expected_image["image_url"])
    }

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                n: smaller.get(v, v) if n == "image_url" and isinstance(v, str) else plain(v)
                for n, v in value.items()
            }
        return [*map(plain, value)] if isinstance(value, list) else value

    return [plain(message) for message in expected] if smaller else expected


def _iter_images(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("image_url"), str):
            yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list) else ():
        yield from _iter_images(inner)


def with_unread_images(expected: Request, sent: Request) -> Request:
    """Replace the images of messages by the texts that OpenCode sends for a model without images.

    Images are replaced only if there is one such text for each of them.
    """
    texts = [block for message in sent for block in _blocks(message) if _is_unread_image(block)]
    images = [block for message in expected for block in _blocks(message) if _is_image(block)]
    if len(texts) != len(images):
        return expected
    remaining = iter(texts)
    return [
        {**message, "content": [next(remaining) if _is_image(b) else b for b in _blocks(message)]}
        if any(map(_is_image, _blocks(message)))
        else message
        for message in expected
    ]


def _blocks(message: Message) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "image_url"


def _is_unread_image(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and _UNREAD_IMAGE.fullmatch(text) is not None


def _is_large(url: str) -> bool:
    head, comma, data = url.partition(";base64,")
    try:
        image = read_image_header(b64decode(data)) if comma and head.startswith("data:") else None
    except ValueError:
        return False
    return image is not None and max(image.width, image.height) > _MAX_SIDE_PX


def without_first_system(request: Request, expected: Request) -> Request:
    """Remove the client's own system messages at the beginning."""
    expected_keys = {comparison_key(message) for message in expected}
    for index, message in enumerate(request):
        if (
            message.get("role") not in ("system", "developer")
            or comparison_key(message) in expected_keys
        ):
            return request[index:]
    return []


def with_own_sections(expected: Request, sent: Request) -> Request:
    """Replace Codex's own instructions by the sent ones, if they start alike."""
    expected_text, sent_text = (_developer_text(request) for request in (expected, sent))
    is_own = (
        expected_text is not None
        and expected_text[:_COMMON_CHARS] == (sent_text or "")[:_COMMON_CHARS]
    )
    return (
        [*sent[:1], *expected[1:]]
        if is_own and len(expected_text or "") >= _COMMON_CHARS
        else expected
    )


def _developer_text(request: Request) -> str | None:
    """Return the developer instructions at the beginning of a request.

    Return None if there are none.
    """
    if not request or request[0].get("role") != "developer":
        return None
    return "".join(map(text_of_block, blocks_of(request[0])))


def without_new_ids(request: Request, expected: Request) -> Request:
    """Remove message ids that are not expected."""
    expected_ids = {comparison_key(message.get("id")) for message in expected}
    return [
        message
        if comparison_key(message.get("id")) in expected_ids
        else {name: value for name, value in message.items() if name != "id"}
        for message in request
    ]


def without_context_messages(request: Request, expected: Request) -> Request:
    """Remove user and developer messages at the end that are not expected."""
    expected_keys = {comparison_key(message) for message in expected}
    end = len(request)
    while (
        end
        and _is_context_message(request[end - 1])
        and comparison_key(request[end - 1]) not in expected_keys
    ):
        end -= 1
    return request[:end]


def _is_context_message(message: Message) -> bool:
    return message.get("type") == "message" and message.get("role") in ("user", "developer")


def without_session_context(request: Request, expected: Request) -> Request:
    """Remove the session context that Gemini CLI adds before the first user text."""
    expected_keys = {comparison_key(block) for message in expected for block in blocks_of(message)}
    if not request:
        return request
    first, *others = request
    blocks = [
        block
        for block in blocks_of(first)
        if comparison_key(block) in expected_keys
        or not text_of_block(block).startswith("<session_context>")
    ]
    return [_with_blocks(first, blocks), *others] if blocks else others


def with_unmasked_outputs(request: Request, expected: Request) -> Request:
    """Restore outputs that Gemini CLI masked, if one is expected for the same call."""
    expected_parts = {
        comparison_key(part["functionResponse"].get("id")): part
        for message in expected
        for part in blocks_of(message)
        if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)
    }

    def plain(part: Any) -> Any:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        is_masked = isinstance(response, dict) and _MASKED_TAG in comparison_key(
            response.get("response")
        )
        return (
            expected_parts.get(comparison_key(response.get("id")), part)
            if response and is_masked
            else part
        )

    return [_with_blocks(message, [*map(plain, blocks_of(message))]) for message in request]


def blocks_of(message: Message) -> list[Any]:
    """Return the blocks of a message. Return an empty list if its content is not a list."""
    for name in ("content", "parts"):
        if isinstance(message.get(name), list):
            return list(message[name])
    return []


def _with_blocks(message: Message, blocks: list[Any]) -> Message:
    name = "content" if isinstance(message.get("content"), list) else "parts"
    return {**message, name: blocks} if isinstance(message.get(name), list) else message


def _without_member(blocks: Sequence[Any], name: str) -> list[Any]:
    return [
        {n: v for n, v in block.items() if n != name} if isinstance(block, dict) else block
        for block in blocks
    ]


def text_of_block(block: Any) -> str:
    """Return the text of a block, which may be a text itself."""
    if isinstance(block, dict):
        block = block.get("text")
    return block if isinstance(block, str) else ""
