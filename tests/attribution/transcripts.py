"""The transcripts of agents that edit files, in the shapes of three runtimes.

Each agent has one session. `edit`, `write` and `append` return the id of the call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.commits import CommitId
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.base import ConversationEntry
from harken.store.base import Store


def rfc3339(time: int) -> str:
    """Return a time as transcripts have it."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Agent(Protocol):
    """An agent with a transcript."""

    calls: int
    """The number of its calls."""

    def ask(self, time: int, prompt: str) -> None:
        """Add a prompt."""
        ...

    def edit(self, time: int, path: str, old: str, new: str, *, fails: bool = False) -> str:
        """Add an edit that replaces a text."""
        ...

    def write(
        self, time: int, path: str, text: str, before: str | None, *, fails: bool = False
    ) -> str:
        """Add an edit that writes a file. `before`: its content, which the agent reads first."""
        ...

    def append(self, time: int, path: str, text: str) -> str:
        """Add a shell command that appends a text to a file."""
        ...


@dataclass
class _Transcript:
    """A transcript of JSON lines, and the folder where its agent works."""

    folder: Path
    number: int
    records: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def write_records(self, file: Path) -> None:
        """Write the transcript."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in self.records))


class ClaudeAgent(_Transcript):
    """A session of Claude Code."""

    @property
    def session(self) -> str:
        return f"c1a0de{self.number:02d}-0000-4000-8000-000000000001"

    def _add(self, time: int, kind: str, message: dict[str, Any]) -> None:
        number = len(self.records) + 1
        parent = self.records[-1]["uuid"] if self.records else None
        self.records.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "cwd": str(self.folder),
                "sessionId": self.session,
                "version": "2.1.42",
                "type": kind,
                "uuid": f"{self.session[:8]}-0000-4000-8000-{number:012d}",
                "timestamp": rfc3339(time),
                "message": message,
            }
        )

    def ask(self, time: int, prompt: str) -> None:
        self._add(time, "user", {"role": "user", "content": prompt})

    def _call(
        self, time: int, name: str, result: str, *, fails: bool = False, **arguments: Any
    ) -> str:
        self.calls += 1
        id_ = f"toolu_{self.number:04d}{self.calls:016d}"
        body = {
            "id": f"msg_{self.number:04d}{self.calls:016d}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-5-20251101",
            "content": [
                {"type": "text", "text": f"I call {name} for step {self.calls}."},
                {"type": "tool_use", "id": id_, "name": name, "input": arguments},
            ],
            "stop_reason": None,
            "usage": {"input_tokens": 10, "output_tokens": 20},
        }
        self._add(time, "assistant", body)
        block = {"type": "tool_result", "tool_use_id": id_, "content": result, "is_error": fails}
        self._add(time + 1, "user", {"role": "user", "content": [block]})
        return id_

    def edit(self, time: int, path: str, old: str, new: str, *, fails: bool = False) -> str:
        file = str(self.folder / path)
        if self.calls % 5 == 4 and not fails:
            edits = [{"old_string": old, "new_string": new}]
            return self._call(time, "MultiEdit", "Applied", file_path=file, edits=edits)
        return self._call(
            time, "Edit", "Updated", fails=fails, file_path=file, old_string=old, new_string=new
        )

    def write(
        self, time: int, path: str, text: str, before: str | None, *, fails: bool = False
    ) -> str:
        file = str(self.folder / path)
        if before is not None:
            rows = enumerate(before.splitlines(), start=1)
            numbered = "\n".join(f"{number:>6}\u2192{row}" for number, row in rows)
            self._call(time - 5, "Read", numbered, file_path=file)
        return self._call(time, "Write", "Written", fails=fails, file_path=file, content=text)

    def append(self, time: int, path: str, text: str) -> str:
        command = f"cd {self.folder} && cat >> {path} <<'EOF'\n{text}EOF"
        return self._call(time, "Bash", "", command=command, description="Append")

    def save(self, folder: Path) -> None:
        """Write the transcript."""
        self.write_records(folder / f"{self.session}.jsonl")


class CodexAgent(_Transcript):
    """A session of Codex."""

    @property
    def session(self) -> str:
        return f"019f00{self.number:02d}-0000-7000-8000-000000000001"

    def _add(self, time: int, payload: dict[str, Any], kind: str = "response_item") -> None:
        if not self.records:
            meta = {
                "id": self.session,
                "timestamp": rfc3339(time),
                "cwd": str(self.folder),
                "cli_version": "0.141.0",
            }
            self.records.append(
                {"timestamp": rfc3339(time), "type": "session_meta", "payload": meta}
            )
            context = {"cwd": str(self.folder), "model": "gpt-5-codex"}
            self.records.append(
                {"timestamp": rfc3339(time), "type": "turn_context", "payload": context}
            )
        self.records.append({"timestamp": rfc3339(time), "type": kind, "payload": payload})

    def ask(self, time: int, prompt: str) -> None:
        content = [{"type": "input_text", "text": prompt}]
        self._add(time, {"type": "message", "role": "user", "content": content})

    def _reason(self, time: int) -> str:
        self.calls += 1
        text = [{"type": "output_text", "text": f"Step {self.calls}."}]
        self._add(time, {"type": "message", "role": "assistant", "content": text})
        return f"call_{self.number:04d}{self.calls:018d}"

    def _patch(self, time: int, patch: str, *, fails: bool = False) -> str:
        id_ = self._reason(time)
        output = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."
        if fails:
            output = "apply_patch verification failed: Failed to find expected lines"
        kind = self.calls % 3
        if kind == 0:
            call = {
                "type": "custom_tool_call",
                "call_id": id_,
                "name": "apply_patch",
                "input": patch,
            }
            result = {"type": "custom_tool_call_output", "call_id": id_, "output": output}
        else:
            arguments: dict[str, Any] = {"input": patch}
            name = "apply_patch"
            if kind == 1:
                name = "shell"
                script = f"apply_patch <<'EOF'\n{patch}\nEOF"
                arguments = {"command": ["bash", "-lc", script], "workdir": str(self.folder)}
            call = {
                "type": "function_call",
                "call_id": id_,
                "name": name,
                "arguments": json.dumps(arguments),
            }
            result = {"type": "function_call_output", "call_id": id_, "output": output}
        self._add(time, {**call, "status": "completed"})
        self._add(time + 1, result)
        return id_

    def edit(self, time: int, path: str, old: str, new: str, *, fails: bool = False) -> str:
        old_lines, new_lines = old.split("\n"), new.split("\n")
        start = end = 0
        while start < min(len(old_lines), len(new_lines)) and old_lines[start] == new_lines[start]:
            start += 1
        while (
            end < min(len(old_lines), len(new_lines)) - start
            and old_lines[-1 - end] == new_lines[-1 - end]
        ):
            end += 1
        hunk = [f" {line}" for line in old_lines[:start]]
        hunk += [f"-{line}" for line in old_lines[start : len(old_lines) - end]]
        hunk += [f"+{line}" for line in new_lines[start : len(new_lines) - end]]
        hunk += [f" {line}" for line in old_lines[len(old_lines) - end :]]
        rows = ["*** Begin Patch", f"*** Update File: {path}", "@@", *hunk, "*** End Patch"]
        return self._patch(time, "\n".join(rows), fails=fails)

    def write(
        self, time: int, path: str, text: str, before: str | None, *, fails: bool = False
    ) -> str:
        if before is not None:
            hunk = [f"-{line}" for line in before.splitlines()] + [
                f"+{line}" for line in text.splitlines()
            ]
            rows = ["*** Begin Patch", f"*** Update File: {path}", "@@", *hunk, "*** End Patch"]
        else:
            rows = [
                "*** Begin Patch",
                f"*** Add File: {path}",
                *(f"+{line}" for line in text.splitlines()),
                "*** End Patch",
            ]
        return self._patch(time, "\n".join(rows), fails=fails)

    def append(self, time: int, path: str, text: str) -> str:
        id_ = self._reason(time)
        arguments = {"cmd": f"cat <<'EOF' >> {path}\n{text}EOF", "workdir": str(self.folder)}
        call = {
            "type": "function_call",
            "call_id": id_,
            "name": "exec_command",
            "arguments": json.dumps(arguments),
        }
        self._add(time, call)
        output = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
        self._add(time + 1, {"type": "function_call_output", "call_id": id_, "output": output})
        return id_

    def save(self, folder: Path) -> None:
        """Write the transcript."""
        self.write_records(folder / f"rollout-2026-01-05T09-00-00-{self.session}.jsonl")


@dataclass
class HarkenAgent:
    """A session of Harken, with paths relative to the working folder."""

    number: int
    entries: list[ConversationEntry] = field(default_factory=list)
    calls: int = 0

    def ask(self, time: int, prompt: str) -> None:
        self.entries.append(ConversationEntry(Message("user", prompt), rfc3339(time)))

    def _call(
        self, time: int, name: str, result: str, *, fails: bool = False, **arguments: Any
    ) -> str:
        self.calls += 1
        id_ = f"call_harken_{self.number:04d}{self.calls:010d}"
        call = ToolCall(id_, FunctionCall(name, json.dumps(arguments)))
        answer = Message("assistant", f"Step {self.calls}.", [call])
        self.entries.append(ConversationEntry(answer, rfc3339(time)))
        message = Message("tool", result, tool_call_id=id_, is_error=fails)
        self.entries.append(ConversationEntry(message, rfc3339(time + 1)))
        return id_

    def edit(self, time: int, path: str, old: str, new: str, *, fails: bool = False) -> str:
        return self._call(
            time, "edit", "Edited", fails=fails, path=path, old_string=old, new_string=new
        )

    def write(
        self, time: int, path: str, text: str, before: str | None, *, fails: bool = False
    ) -> str:
        if before is not None:
            rows = enumerate(before.splitlines(), start=1)
            self._call(
                time - 5,
                "read",
                "\n".join(f"{number:>6}\t{row}" for number, row in rows),
                path=path,
            )
        return self._call(time, "write", "Wrote", fails=fails, path=path, content=text)

    def append(self, time: int, path: str, text: str) -> str:
        command = f"cat >> {path} <<'EOF'\n{text}EOF"
        return self._call(time, "bash", "", command=command)

    def save(self, store: Store) -> None:
        """Commit the conversation, one commit for each answer with its results."""
        origin = CommitOrigin(
            session_id=f"session_{self.number}", principal=f"session_{self.number}"
        )
        parent: CommitId | None = None
        pending: list[ConversationEntry] = []
        for index, entry in enumerate(self.entries):
            pending.append(entry)
            is_last = index + 1 == len(self.entries)
            if is_last or self.entries[index + 1].message.role == "assistant":
                draft = CommitDraft(
                    entries=pending, parent=parent, trigger="turn_boundary", origin=origin
                )
                parent = checkpoint(store, draft)
                pending = []
