"""The main conversations of the real transcripts, of all runtimes, and what clients make of them.

The transcripts are beside the project; without them there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.errors import FormatError
from harken.formats.base import WholeEntry
from harken.formats.native import NewSession, conversation
from harken.formats.natives import LOOKED_AT_BYTES, native_of
from tests.acceptance.shared_data import DATA

PROMPT = "hi oracle"
"""What the lab says to a client that resumes."""
_SEND_MESSAGE = frozenset({"to", "summary", "message"})
"""What that tool of Claude Code takes today."""
_REMINDER = "<system-reminder>"


@dataclass(frozen=True)
class Conversation:
    """What a transcript says at its end."""

    source: Path
    runtime: str
    entries: list[WholeEntry]


def conversations() -> Iterator[Conversation]:
    """Yield them, in the order of their files; not those in which nothing was said."""
    yield from filter(None, map(_read, sorted(_files())))


def spread(count: int) -> list[Conversation]:
    """Return a short one with calls of so many runtimes."""
    found: dict[str, Conversation] = {}
    for path in sorted(_files(), key=lambda path: path.stat().st_size):
        one = _read(path)
        if one is not None and one.runtime not in found and _has_calls(one):
            found[one.runtime] = one
        if len(found) == count:
            break
    return list(found.values())


def new_session(number: int, title: str = "Tea") -> NewSession:
    """Return what a session is called, for the number of its conversation."""
    id_ = f"5e551011-0000-4000-8000-{number:012x}"
    return NewSession(id=id_, folder="/", time="2026-01-31T12:00:00.000000Z", title=title)


def less_present_of_claude(request: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Claude Code sent of a conversation, without what it says about the present.

    That is: messages of the system; at the end, the prompt and reminders beside it; and the line's
    end that the text before the prompt gets where both are in one message.
    """
    heard = [message for message in request if message["role"] != "system"]
    content = heard[-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kept = [dict(block) for block in blocks if not _is_present(block)]
    if kept and kept[-1]["type"] == "text":
        kept[-1]["text"] = kept[-1]["text"].removesuffix("\n")
    return [*heard[:-1], *([{"role": "user", "content": kept}] if kept else [])]


def less_tools_of_today(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages without what Claude Code fits to the tools that it offers where it resumes.

    References to others are taken away, and so are arguments that a tool takes no more; which they
    are depends on its version, its options and its servers.
    """
    return [{**one, "content": _less_tools(one["content"])} for one in messages]


def _less_tools(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [_less_tool(block) for block in content if block["type"] != "tool_reference"]


def _less_tool(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_result" and "content" in block:
        return {**block, "content": _less_tools(block["content"])}
    if block["type"] == "tool_use" and block["name"] == "SendMessage":
        kept = {name: value for name, value in block["input"].items() if name in _SEND_MESSAGE}
        return {**block, "input": kept}
    return block


def less_present_of_pi(request: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Pi sent of a conversation: all but its instructions and the prompt."""
    return [one for one in request if one["role"] not in ("system", "developer")][:-1]


def _is_present(block: dict[str, Any]) -> bool:
    text = str(block.get("text", ""))
    return block["type"] == "text" and (text == PROMPT or text.startswith(_REMINDER))


def _files() -> Iterator[Path]:
    folder = DATA / "transcripts"
    yield from (path for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> Conversation | None:
    """Return the main conversation of a file; None: it has none."""
    data = path.read_bytes()
    native = native_of(str(path), data[:LOOKED_AT_BYTES])
    if native is None or native.settled is not None:
        return None
    try:
        entries = conversation(native.steps, data)
    except FormatError:
        return None
    return Conversation(path, native.runtime, entries) if entries else None


def _has_calls(one: Conversation) -> bool:
    return any(entry.message.tool_calls for entry in one.entries)
