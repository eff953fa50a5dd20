"""A fictitious format in one module, with its second version, as a plugin author writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harken.core.messages import Message, Role, text_of
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format

ROLES: dict[str, str] = {"user": "<", "assistant": ">"}
SIGNS: dict[str, Role] = {"<": "user", ">": "assistant"}


def read_v1(data: bytes) -> list[ConversationEntry]:
    r"""Parse lines such as `< Hi`.

    >>> read_v1(b"< Hi\n")[0].message.content
    'Hi'
    """
    entries_read = []
    for line in _text("toy-v1", data).splitlines():
        sign, _, text = line.partition(" ")
        if sign not in SIGNS:
            raise FormatError("toy-v1", f"a line begins with < or >, not {sign[:9]!a}")
        entries_read.append(ConversationEntry(Message(SIGNS[sign], text)))
    return entries_read


def write_v1(entries: Sequence[ConversationEntry]) -> bytes | None:
    """Format texts on one line. Other parts are losses."""
    lines = []
    for entry in entries:
        message = entry.message
        text = text_of(message.content)
        if message.role not in ROLES or message.tool_calls or len(text.splitlines()) > 1:
            return None
        lines.append(f"{ROLES[message.role]} {text}\n")
    return "".join(lines).encode("utf-8", "replace")


def read_v2(data: bytes) -> list[ConversationEntry]:
    """Parse lines of JSON such as `{"who": "user", "says": "Hi"}`."""
    entries_read = []
    for line in data.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError("toy-v2", f"{error}") from None
        match value:
            case {"who": "user" | "assistant" as role, "says": str(text)}:
                entries_read.append(ConversationEntry(Message(role, text)))
            case _:
                raise FormatError("toy-v2", "a line has who and says")
    return entries_read


def write_v2(entries: Sequence[ConversationEntry]) -> bytes:
    """Format the texts of messages."""
    messages = [entry.message for entry in entries if entry.message.role in ROLES]
    lines = [{"who": m.role, "says": text_of(m.content)} for m in messages]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def upgrade(data: bytes) -> bytes:
    """Convert the fields of version 1."""
    return write_v2(read_v1(data))


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(name, f"{error}") from None


TOY_1 = Format(
    name="toy-v1", media_type="text/plain", reads=read_v1, writes=write_v1, joins=b"".join
)
TOY_2 = Format(
    name="toy-v2",
    media_type="application/jsonl",
    reads=read_v2,
    writes=write_v2,
    joins=b"".join,
    upgrades={"toy-v1": upgrade},
)
