"""The tool `memory`: agents read, write and query their memories; each use is logged.

A result enters the context as the result of the call, like that of any other tool.
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

MAX_RESULTS = 10
"""The maximum number of results of a query."""


@check_arguments
def memory_tool(long_term: Memory, short_term: Memory | None = None) -> Tool:
    """Return the tool for two memories; the default short-term memory is the session transcript."""
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
        memory_call = _MemoryCall(memories[term], caller)
        match operation:
            case "read":
                return memory_call.read(path)
            case "write":
                return memory_call.write(path, text)
            case "append":
                return memory_call.append(path, text)
            case "query":
                return memory_call.query(query)
            case "list":
                return memory_call.list()

    return memory


class _MemoryCall:
    """One call of the tool."""

    def __init__(self, memory: Memory, caller: ToolContext) -> None:
        self.memory, self.caller = memory, caller

    def read(self, path: str) -> str:
        text = self.memory.read(_require_text(path, "path"), self.caller)
        self._log("READ", path, text)
        return text or "(empty)"

    def write(self, path: str, text: str) -> str:
        self.memory.write(_require_text(path, "path"), text, self.caller)
        self._log("WRITE", path, text)
        return f"Kept as {path}."

    def append(self, path: str, text: str) -> str:
        _require_text(path, "path")
        if self.memory.kind == "LTM":
            try:
                existing_text = self.memory.read(path, self.caller)
            except MemoryNotFound:
                existing_text = ""
            text = f"{existing_text.rstrip()}\n{text}" if existing_text else text
        return self.write(path, text)

    def query(self, words: str) -> str:
        hits = self.memory.query(_require_text(words, "query"), MAX_RESULTS, self.caller)
        result = "\n".join(f"- {hit.path}: {hit.excerpt}" for hit in hits)
        self._log("QUERY", None, result, query=words, count=len(hits))
        return result or "No matches; try fewer words."

    def list(self) -> str:
        names = self.memory.list(self.caller)
        result = "\n".join(names)
        self._log("QUERY", None, result, count=len(names))
        return result or "No notes yet."

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


def _require_text(value: str, name: str) -> str:
    if not value.strip():
        raise InvalidArguments(f"memory: this operation needs a `{name}`")
    return value
