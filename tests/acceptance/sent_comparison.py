"""When what Claude Code sent, and what is said that it sends, are the same.

All that may differ is listed here, with its reason. Everything else must be equal: order, roles,
texts to the last byte, ids, inputs, signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNSAID: dict[str, Any] = {
    "citations": None,  # `null` and a list of none say what their absence says
    "is_error": False,  # so does a result that says it is no error
}


def differences(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> list[str]:
    """Return what differs, a line for each message."""
    found = [
        f"message {at}: {_plain(one)!r:.300} is not {_plain(other)!r:.300}"
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False))
        if _plain(one) != _plain(other)
    ]
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} messages are not {len(theirs)}")
    return found


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):  # a text is short for a list of one: the API makes no difference
        content = [{"type": "text", "text": content}]
    return {"role": message["role"], "content": [_block(block) for block in content]}


def _block(block: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return {n: v for n, v in plain.items() if n not in UNSAID or (v or None) != (UNSAID[n] or None)}
