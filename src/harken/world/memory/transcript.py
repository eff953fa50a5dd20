"""`SearchableTranscript`: a short-term memory that reads the session log.

The log contains every message and action of an agent, also what a compaction removed from its
context. So no further storage is needed: a written text is in the call that wrote it, and a resumed
session has the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from harken.core import canonical
from harken.core.arguments import format_existing
from harken.core.events import TranscriptEntry
from harken.core.logged_string import preview
from harken.core.messages import text_of
from harken.world.memory.base import MemoryHit, MemoryKind, MemoryNotFound
from harken.world.result import ToolError
from harken.world.tool import ToolContext


class SearchableTranscript:
    """The messages that the calling agent received and sent in this session."""

    kind: MemoryKind = "STM"

    def __init__(self, tool: str = "memory") -> None:
        """Read the texts that calls of this tool wrote."""
        self.tool = tool

    def read(self, path: str, caller: ToolContext) -> str:
        """Return the text written under a name, or a message by its id. Raises ToolError."""
        texts = self._read_written_texts(caller)
        if path in texts:
            return texts[path]
        for entry in _entries(caller):
            if entry.message_id == path:
                return entry_text(entry)
        existing = format_existing(texts, "notes")
        raise MemoryNotFound(f"note or message {path[:80]!r} not found{existing}")

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Validate the name.

        The call itself, which is in the log, stores the text. Raises ToolError.
        """
        if not path.strip():
            raise ToolError("a note needs a name")

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return the messages with all these words, the latest first. Raises ToolError."""
        others = [entry for entry in _entries(caller) if not self._is_own(entry, caller)]
        query_words = words.casefold().split()
        return [
            MemoryHit(entry.message_id, preview(_cut_before_match(entry_text(entry), query_words)))
            for entry in islice(find_matching_entries(others, words), limit)
        ]

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return the names under which a text was written."""
        return list(self._read_written_texts(caller))

    def _read_written_texts(self, caller: ToolContext) -> dict[str, str]:
        """Return the last text written under each name."""
        texts: dict[str, str] = {}
        failed = {entry.tool_call_id for entry in _entries(caller) if entry.is_error}
        for entry in _entries(caller):
            for call in entry.tool_calls or ():
                arguments = _parse_arguments(call.function.arguments)
                if call.function.name != self.tool or arguments.get("term") != "short":
                    continue
                path, text = arguments.get("path"), arguments.get("text")
                if call.id in failed or not isinstance(path, str) or not isinstance(text, str):
                    continue
                if arguments.get("operation") == "write":
                    texts[path] = text
                elif arguments.get("operation") == "append":
                    texts[path] = f"{texts[path]}\n{text}" if path in texts else text
        return texts

    def _is_own(self, entry: TranscriptEntry, caller: ToolContext) -> bool:
        """Whether an entry is the querying call, or a result of this tool."""
        is_query = entry.message_id == caller.call.partition(".")[0]
        return is_query or (entry.role == "tool" and entry.name == self.tool)


def find_matching_entries(
    entries: Sequence[TranscriptEntry], words: str
) -> Iterator[TranscriptEntry]:
    """Yield the entries that contain all these words, ignoring case, the latest first.

    Raises ToolError if there is no word.
    """
    query_words = words.casefold().split()
    if not query_words:
        raise ToolError("a query needs at least one word")
    for entry in reversed(entries):
        text = entry_text(entry).casefold()
        if text and all(word in text for word in query_words):
            yield entry


def entry_text(entry: TranscriptEntry) -> str:
    """Return the text of an entry, and its tool calls."""
    calls = [f"{call.function.name} {call.function.arguments}" for call in entry.tool_calls or ()]
    return "\n".join(filter(None, [text_of(entry.content), *calls]))


def _entries(caller: ToolContext) -> Iterator[TranscriptEntry]:
    """Yield all messages of the calling agent, oldest first."""
    agent = caller.agent
    yield from agent.session.agent(agent.agent_id).transcript or ()


def _cut_before_match(text: str, words: Sequence[str]) -> str:
    """Return a text from shortly before the first match of the words."""
    index = min(
        filter(lambda index: index >= 0, (text.casefold().find(word) for word in words)), default=0
    )
    return text if index < 40 else f"…{text[index - 30 :]}"


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        value = canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
