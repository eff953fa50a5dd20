"""Documents of messages in the form of OpenAI's chat, as research programs write them.

Most of these documents have no id of their session. It is then named after its content, so the same
file has the same name wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harken.core import canonical
from harken.core.commits import hash_raw
from harken.core.messages import Message
from harken.errors import FormatError
from harken.formats.json_records import Record, as_objects, get_count, get_text, to_safe_json
from harken.formats.providers.openai_chat import parse_request_messages

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_DIGEST_CHARS = 12


def parse_message(message: Record) -> Message | None:
    """Return a message of a chat. Return None for a record of another role."""
    if get_text(message, "role") not in ROLES:
        return None
    calls = message.get("tool_calls")
    members = message if isinstance(calls, list) else {**message, "tool_calls": None}
    [parsed] = parse_request_messages({"messages": [to_safe_json(members)]})
    return parsed


def digest_id(value: Any) -> str:
    """Return an id of a value: the beginning of its hash."""
    return hash_raw(canonical.to_json_line(to_safe_json(value)))[4 : 4 + _DIGEST_CHARS]


def add_unique(name: str, names: set[str]) -> str:
    """Add a name to others, with a number if it is among them. Return it.

    >>> names = {"run"}
    >>> add_unique("run", names), add_unique("run", names)
    ('run-2', 'run-3')
    """
    unique, number = name, 1
    while unique in names:
        number += 1
        unique = f"{name}-{number}"
    names.add(unique)
    return unique


def sum_usage(counts: Record, input_name: str, output_name: str, cost_name: str) -> Record:
    """Return the total usage of a session that only reports totals, or an empty object."""
    usage: Record = {}
    for name, own_name in (("input_tokens", input_name), ("output_tokens", output_name)):
        count = get_count(counts, own_name)
        if count:
            usage[name] = count
    cost = counts.get(cost_name)
    if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
        usage["cost_usd"] = cost
    return usage


def find_last_answer(messages: Iterable[Record]) -> int:
    """Return the position of the last answer, or -1 if there is none."""
    positions = [
        position
        for position, message in enumerate(messages)
        if get_text(message, "role") == "assistant"
    ]
    return max(positions, default=-1)


def objects_or_fail(value: Any, name: str, reason: str) -> list[Record]:
    """Return the objects of a list. Raises FormatError if it has none."""
    records = as_objects(value)
    if not records:
        raise FormatError(name, reason)
    return records
