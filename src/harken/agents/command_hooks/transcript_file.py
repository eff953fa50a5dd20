"""Transcript files in the format of Claude Code, for hook commands that read them.

Each requested agent has a file, which is updated when a command is run: only new entries are
appended. Tools have their Claude Code names.

Source: docs/formats/claude-code.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakKeyDictionary, finalize

from harken.agents.templates.claude_code_tools import claude_names, to_claude_arguments
from harken.core import canonical
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import TextPart
from harken.formats.runtimes.claude_code.entries import build_block
from harken.formats.runtimes.claude_code.writer import VERSION
from harken.formats.tool_calls import iter_items
from harken.session.session import Session

_by_session: WeakKeyDictionary[Session, Transcripts] = WeakKeyDictionary()


class Transcripts:
    """The transcript files of a session, in a temporary folder that is removed with it."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._id = session.path.stem
        self._folder = folder
        self._temporary_folder = Path(mkdtemp(prefix="harken-transcripts-"))
        self._progress_by_agent: dict[AgentId, tuple[int, str | None]] = {}
        """The number of written entries and the id of the last record, by agent."""
        finalize(session, partial(shutil.rmtree, self._temporary_folder, ignore_errors=True))

    @classmethod
    def of(cls, session: Session, folder: Path) -> Transcripts:
        """Return the transcripts of a session."""
        if session not in _by_session:
            _by_session[session] = cls(session, folder)
        return _by_session[session]

    def update_file(self, session: Session, agent_id: AgentId) -> Path:
        """Update the file of an agent with its transcript. Return the path. Raises OSError."""
        state = session.agent(agent_id)
        entries = state.transcript or []
        written_count, last_id = self._progress_by_agent.get(agent_id, (0, None))
        path = self._temporary_folder / f"{self._id}.jsonl"
        if state.place != "primary":
            path = self._temporary_folder / self._id / "subagents" / f"agent-{agent_id}.jsonl"
        if written_count < len(entries) or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                for entry in entries[written_count:]:
                    for record in self._records(entry, last_id, is_side=state.place != "primary"):
                        file.write(canonical.to_json_line(record) + b"\n")
                        last_id = record["uuid"]
            self._progress_by_agent[agent_id] = (len(entries), last_id)
        return path

    def _records(
        self, entry: TranscriptEntry, last_id: str | None, *, is_side: bool
    ) -> Iterator[dict[str, Any]]:
        """Yield the records of an entry: an answer has a record for each of its blocks."""
        for index, message in enumerate(_messages(entry, self._folder)):
            record_id = str(uuid5(NAMESPACE_URL, f"{self._id} {entry.message_id} {index}"))
            yield {
                "parentUuid": last_id,
                "isSidechain": is_side,
                "userType": "external",
                "cwd": str(self._folder),
                "sessionId": self._id,
                "version": VERSION,
                "gitBranch": "",
                "type": message["role"],
                "message": message,
                "uuid": record_id,
                "timestamp": entry.time,
            }
            last_id = record_id


def _messages(entry: TranscriptEntry, folder: Path) -> Iterator[dict[str, Any]]:
    if entry.role == "assistant":
        for item in iter_items(entry):
            block = build_block(item)
            if block.get("type") == "tool_use":
                tool = str(block.get("name"))
                block["name"] = claude_names(tool)[0]
                block["input"] = to_claude_arguments(tool, block["input"], folder)
            body = {"id": entry.message_id, "type": "message", "role": "assistant"}
            yield {**body, "content": [block]}
    elif entry.role == "tool":
        result = {"type": "tool_result", "tool_use_id": entry.tool_call_id}
        error = {"is_error": True} if entry.is_error else {}
        yield {"role": "user", "content": [{**result, "content": _content(entry), **error}]}
    elif entry.role == "user":
        yield {"role": "user", "content": _content(entry)}


def _content(entry: TranscriptEntry) -> str | list[dict[str, Any]]:
    if not isinstance(entry.content, list):
        return entry.content or ""
    if all(isinstance(part, TextPart) for part in entry.content):
        return "".join(part.text for part in entry.content if isinstance(part, TextPart))
    return [build_block(item) for item in iter_items(entry)]
