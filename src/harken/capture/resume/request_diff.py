"""Diff two requests message by message, for display.

Equal messages are aligned first, so that one missing message is one difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

import msgspec

Message: TypeAlias = dict[str, Any]
"""A message in the format of Anthropic, OpenAI or Gemini."""
Request: TypeAlias = list[Message]
State: TypeAlias = Literal["same", "changed", "missing", "added"]

_TEXT_MEMBERS = ("text", "thinking", "name", "arguments", "content", "output")
_MAX_VALUE_CHARS = 60
"""The maximum length of a value in a difference."""


class MessageComparison(msgspec.Struct, frozen=True):
    """The comparison of one message."""

    state: State
    number: int
    """Its position, from 1, in the expected request. For `added`, in the sent one."""
    role: str
    text: str
    difference: str = ""
    """The first difference."""


def compare_messages(expected: Request, sent: Request) -> Iterator[MessageComparison]:
    """Yield the comparison of each message, in order."""
    expected_keys, sent_keys = [*map(comparison_key, expected)], [*map(comparison_key, sent)]
    matcher = SequenceMatcher(None, expected_keys, sent_keys, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from (
                _compare_message("same", expected_index, expected[expected_index])
                for expected_index in range(i1, i2)
            )
            continue
        for expected_index, sent_index in zip_longest(range(i1, i2), range(j1, j2)):
            if expected_index is None:
                yield _compare_message("added", sent_index, sent[sent_index])
            elif sent_index is None:
                yield _compare_message("missing", expected_index, expected[expected_index])
            else:
                difference = first_difference(expected[expected_index], sent[sent_index])
                yield _compare_message(
                    "changed", expected_index, expected[expected_index], difference
                )


def _compare_message(
    state: State, index: int, message: Message, difference: str = ""
) -> MessageComparison:
    role = message.get("role") or message.get("type") or "?"
    return MessageComparison(
        state, index + 1, str(role), " ".join(_message_text(message).split()), difference
    )


def first_difference(ours: Any, theirs: Any, where: str = "") -> str:
    """Return the path and the values of the first difference. Return "" if the values are equal.

    >>> first_difference({"content": [{"text": "at one"}]}, {"content": [{"text": "at two"}]})
    'content[0].text: "one" is not "two", from character 3 on'
    """
    if comparison_key(ours) == comparison_key(theirs):
        return ""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            inner = f"{where}.{name}" if where else str(name)
            if name not in theirs or name not in ours:
                present, missing = ("expected", "sent") if name in ours else ("sent", "expected")
                return f"{inner}: {_truncate((ours | theirs)[name])} is {present} and not {missing}"
            if difference := first_difference(ours[name], theirs[name], inner):
                return difference
    if isinstance(ours, list) and isinstance(theirs, list):
        for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=False)):
            if difference := first_difference(our_item, their_item, f"{where}[{index}]"):
                return difference
        return f"{where}: {len(ours)} are expected, {len(theirs)} were sent"
    if isinstance(ours, str) and isinstance(theirs, str):
        pairs = enumerate(zip(ours, theirs, strict=False))
        index = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
        our_tail, their_tail = _truncate(ours[index:]), _truncate(theirs[index:])
        return f"{where}: {our_tail} is not {their_tail}, from character {index} on"
    return f"{where}: {_truncate(ours)} is not {_truncate(theirs)}"


def _truncate(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


def comparison_key(value: Any) -> str:
    """Return a comparison key: JSON, in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _message_text(value: Any, name: str = "text") -> str:
    """Return the text of a message, for display."""
    if isinstance(value, dict):
        return " ".join(filter(None, (_message_text(inner, name) for name, inner in value.items())))
    if isinstance(value, list):
        return " ".join(filter(None, (_message_text(inner, name) for inner in value)))
    return value if isinstance(value, str) and name in _TEXT_MEMBERS else ""
