"""`SearchableTranscript`: a short-term memory that is the session itself.

One idea: the log has all that an agent ever heard, said and did, also what a compaction took out of
its context. So nothing is kept beside it: what is written stands in the call that wrote it, and a
resumed session remembers the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from harken.core import canonical
from harken.core.events import TranscriptEntry
from harken.core.logged_string import preview
from harken.core.messages import text_of
from harken.world.memory.base import MemoryHit, MemoryKind, MemoryNotFound
from harken.world.result import ToolError
from harken.world.tool import ToolContext


class SearchableTranscript:
    """What the calling agent heard and said in this session."""

    kind: MemoryKind = "STM"

    def __init__(self, tool: str = "memory") -> None:
        """Remember what calls of this tool wrote."""
        self.tool = tool

    def read(self, path: str, caller: ToolContext) -> str:
        """Return what was written under a name, or a message by its id. Raises ToolError."""
        written = self._written(caller)
        if path in written:
            return written[path]
        for entry in _entries(caller):
            if entry.message_id == path:
                return entry_text(entry)
        there = ", ".join(written) or "none"
        raise MemoryNotFound(
            f"nothing is kept under {path[:80]!r}, and no message has this id; there is: {there}"
        )

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Keep a text: the call that says so stands in the log. Raises ToolError."""
        if not path.strip():
            raise ToolError("say under which name this shall be kept")

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return the messages with all these words, the last ones first. Raises ToolError."""
        others = [entry for entry in _entries(caller) if not self._is_own(entry, caller)]
        wanted = words.casefold().split()
        return [
            MemoryHit(entry.message_id, preview(_around(entry_text(entry), wanted)))
            for entry in islice(matching(others, words), limit)
        ]

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return the names under which something was written."""
        return list(self._written(caller))

    def _written(self, caller: ToolContext) -> dict[str, str]:
        """Return what was written, by name, the last text of each."""
        found: dict[str, str] = {}
        failed = {entry.tool_call_id for entry in _entries(caller) if entry.is_error}
        for entry in _entries(caller):
            for call in entry.tool_calls or ():
                given = _arguments(call.function.arguments)
                if call.function.name != self.tool or given.get("term") != "short":
                    continue
                path, text = given.get("path"), given.get("text")
                if call.id in failed or not isinstance(path, str) or not isinstance(text, str):
                    continue
                if given.get("operation") == "write":
                    found[path] = text
                elif given.get("operation") == "append":
                    found[path] = f"{found[path]}\n{text}" if path in found else text
        return found

    def _is_own(self, entry: TranscriptEntry, caller: ToolContext) -> bool:
        """Whether an entry is the call that asks, or what another one found."""
        asks = entry.message_id == caller.call.partition(".")[0]
        return asks or (entry.role == "tool" and entry.name == self.tool)


def matching(entries: Sequence[TranscriptEntry], words: str) -> Iterator[TranscriptEntry]:
    """Yield the entries that have all these words, in any case, the last ones first.

    Raises ToolError where there is no word.
    """
    wanted = words.casefold().split()
    if not wanted:
        raise ToolError("a query has at least one word")
    for entry in reversed(entries):
        text = entry_text(entry).casefold()
        if text and all(word in text for word in wanted):
            yield entry


def entry_text(entry: TranscriptEntry) -> str:
    """Return what an entry says, and the calls that it makes."""
    calls = [f"{one.function.name} {one.function.arguments}" for one in entry.tool_calls or ()]
    return "\n".join(filter(None, [text_of(entry.content), *calls]))


def _entries(caller: ToolContext) -> Iterator[TranscriptEntry]:
    """Yield all that the calling agent ever heard and said, oldest first."""
    agent = caller.agent
    yield from agent.session.agent(agent.agent_id).transcript or ()


def _around(text: str, words: Sequence[str]) -> str:
    """Return a text from a little before the first of some words."""
    at = min(filter(lambda at: at >= 0, (text.casefold().find(word) for word in words)), default=0)
    return text if at < 40 else f"…{text[at - 30 :]}"


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
