"""The tool `memory`: agents read, write and query what they remember; each use is an event.

What was found enters the context as the result of the call, like that of any other tool.
"""

from __future__ import annotations

from typing import Literal

from harken.core.arguments import check_arguments
from harken.core.events import MemoryOperation
from harken.core.logged_string import preview
from harken.world.memory.base import Memory, MemoryNotFound
from harken.world.memory.transcript import SearchableTranscript
from harken.world.result import InvalidArguments
from harken.world.tool import Tool, ToolContext, tool

MOST_FOUND = 10
"""A query tells so many things at most."""


@check_arguments
def memory_tool(long_term: Memory, short_term: Memory | None = None) -> Tool:
    """Return the tool over two memories. short_term: None: the transcript of the session."""
    memories = {"long": long_term, "short": short_term or SearchableTranscript()}

    @tool
    async def memory(
        *,
        operation: Literal["read", "write", "append", "query", "list"],
        caller: ToolContext,
        path: str = "",
        text: str = "",
        query: str = "",
        term: Literal["long", "short"] = "long",
    ) -> str:
        """Remember things, and recall them.

        `term` "long" lasts beyond this session: notes, each a Markdown file with a `path` such as
        `people/ann.md`. `term` "short" is this session: what was said in it, also what you do not
        see any more, and what you write there. Operations: "read" a `path`; "write" (replaces) or
        "append" a `text` to a `path`; "query" all of it for words (`query`); "list" all paths.
        Look here before you ask for something again, and write down what you will need later.
        """
        used = _Use(memories[term], caller)
        match operation:
            case "read":
                return used.read(path)
            case "write":
                return used.write(path, text)
            case "append":
                return used.append(path, text)
            case "query":
                return used.query(query)
            case "list":
                return used.list()

    return memory


class _Use:
    """One call of the tool."""

    def __init__(self, memory: Memory, caller: ToolContext) -> None:
        self.memory, self.caller = memory, caller

    def read(self, path: str) -> str:
        text = self.memory.read(_given(path, "path"), self.caller)
        self._log("READ", path, text)
        return text or "(empty)"

    def write(self, path: str, text: str) -> str:
        self.memory.write(_given(path, "path"), text, self.caller)
        self._log("WRITE", path, text)
        return f"Kept as {path}."

    def append(self, path: str, text: str) -> str:
        _given(path, "path")
        if self.memory.kind == "LTM":
            try:
                before = self.memory.read(path, self.caller)
            except MemoryNotFound:
                before = ""
            text = f"{before.rstrip()}\n{text}" if before else text
        return self.write(path, text)

    def query(self, words: str) -> str:
        found = self.memory.query(_given(words, "query"), MOST_FOUND, self.caller)
        told = "\n".join(f"- {one.path}: {one.excerpt}" for one in found)
        self._log("QUERY", None, told, query=words, count=len(found))
        return told or "Nothing was found; fewer words find more."

    def list(self) -> str:
        names = self.memory.list(self.caller)
        told = "\n".join(names)
        self._log("QUERY", None, told, count=len(names))
        return told or "Nothing is kept yet."

    def _log(
        self,
        operation: Literal["READ", "WRITE", "QUERY"],
        path: str | None,
        text: str,
        *,
        query: str | None = None,
        count: int | None = None,
    ) -> None:
        agent = self.caller.agent
        agent.session.append(
            MemoryOperation(
                agent_id=agent.agent_id,
                memory_type=self.memory.kind,
                operation=operation,
                file_path=path,
                query=query,
                result_count=count,
                content_preview=preview(text) or None,
                cause=self.caller.call,
            )
        )


def _given(value: str, name: str) -> str:
    if not value.strip():
        raise InvalidArguments(f"memory: this operation needs a `{name}`")
    return value
