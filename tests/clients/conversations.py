"""The main conversations of real transcripts of all runtimes.

The transcripts are beside the repository; without them the list is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from tests.acceptance.shared_data import DATA

PROMPT = "hi oracle"
"""What the lab says to a client that resumes."""


@dataclass(frozen=True)
class Conversation:
    """The last conversation of a transcript."""

    source: Path
    runtime: str
    entries: list[ConversationEntry]


def conversations() -> Iterator[Conversation]:
    """Yield the conversations with messages in the order of their files."""
    yield from filter(None, map(_read_conversation, sorted(_files())))


@cache
def spread(count: int) -> list[Conversation]:
    """Return a short one with calls of so many runtimes."""
    by_session: dict[str, Conversation] = {}
    for path in sorted(_files(), key=lambda path: path.stat().st_size):
        conversation = _read_conversation(path)
        if (
            conversation is not None
            and conversation.runtime not in by_session
            and _has_calls(conversation)
        ):
            by_session[conversation.runtime] = conversation
        if len(by_session) == count:
            break
    return list(by_session.values())


def new_session(number: int, title: str = "Tea") -> NewSessionInfo:
    """Return the session id for a conversation number."""
    id_ = f"5e551011-0000-4000-8000-{number:012x}"
    return NewSessionInfo(id=id_, folder="/", time="2026-01-31T12:00:00.000000Z", title=title)


def _files() -> Iterator[Path]:
    folder = DATA / "transcripts"
    yield from (path for path in folder.rglob("*") if path.is_file())


def _read_conversation(path: Path) -> Conversation | None:
    """Return the main conversation of a file. Return None if it has none."""
    data = path.read_bytes()
    native = detect_runtime_format(str(path), data[:CHECKED_BYTES])
    if native is None or native.copy_merged is not None:
        return None
    try:
        entries = read_conversation(native.steps, data)
    except FormatError:
        return None
    return Conversation(path, native.runtime, entries) if entries else None


def _has_calls(conversation: Conversation) -> bool:
    return any(entry.message.tool_calls for entry in conversation.entries)
