"""Files that a client keeps beside a transcript, in the folder of the session.

Claude Code has `<session>.jsonl` and a folder `<session>/` with `tool-results/*` (outputs that were
too large for the transcript), `subagents/agent-*.meta.json` (type and task of a subagent),
`workflows/journal.jsonl` and others; Copilot CLI has all of a session in one folder. Their bytes
are kept as they are.

File names come from transcripts, which are hostile: a name is only ever compared with the names of
a listed folder, and nothing is read through a link. So nothing outside the session's folder is.

Source: docs/formats/claude-code.md, "Beside the transcript".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from blake3 import blake3

from harken.core import canonical
from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_text
from harken.formats.runtimes.compressed import beginning_of
from harken.formats.runtimes.registry import LOOKED_AT_BYTES, native_of
from harken.formats.tool_calls import as_object

OUTPUTS, SUBAGENTS = "tool-results", "subagents"
_TRANSCRIPT, _EVENTS = ".jsonl", "events.jsonl"
_META, _AGENT = ".meta.json", "agent-"
_DEPTH = 4
"""How far below the folder of a session a file may lie."""
_META_BYTES = 64 * 1024
_READ_BYTES = 1 << 20
_POINTER_CHARACTERS = 4096
_POINTER = re.compile(r"(?:Full output saved to|Output has been saved to):?[ \t]*([^\r\n]+)")
"""How the text of a result says where the output is."""


def companions_of(transcript: Path) -> Iterator[Path]:
    """Yield the files that belong to a transcript, but for transcripts; no link is followed."""
    if not transcript.name.endswith(_TRANSCRIPT):
        return
    if transcript.name.startswith(_AGENT):
        meta = _meta_of(transcript)
        if _is_file(meta):
            yield meta
        return
    folder = transcript.parent if transcript.name == _EVENTS else transcript.with_suffix("")
    if not _is_folder(folder) or not _is_transcript(str(transcript)):
        return
    for at, folders, names in os.walk(folder):
        if len(Path(at).parts) - len(folder.parts) >= _DEPTH - 1:
            folders.clear()
        for path in (Path(at, name) for name in names):
            is_transcript = path == transcript or (
                path.name.startswith(_AGENT) and path.name.endswith(_TRANSCRIPT)
            )
            if not is_transcript and _is_file(path):
                yield path


def session_folder_of(path: Path) -> Path | None:
    """Return the folder of the session that a file lies in. Return None if it lies in none."""
    at = str(path)
    for _ in range(_DEPTH):  # as texts: each file of unknown kind in a large folder comes here
        at = os.path.dirname(at)  # noqa: PTH120
        if not at.strip(os.sep):
            break
        events = f"{at}{os.sep}{_EVENTS}"
        if _is_transcript(at + _TRANSCRIPT) or _is_transcript(events) or _has_subagents(at):
            return Path(at)
    beside = path.name.removesuffix(_META) + _TRANSCRIPT
    is_meta = path.name.startswith(_AGENT) and path.name.endswith(_META)
    return path.parent if is_meta and _is_transcript(str(path.with_name(beside))) else None


def is_output(path: Path) -> bool:
    """Whether a file is the output of a tool, whatever is in it: it may look like a transcript."""
    return path.parent.name == OUTPUTS and session_folder_of(path) == path.parent.parent


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file is a plain file inside a folder, and no link leads to it."""
    return _is_file(path) and path.resolve().is_relative_to(folder.resolve())


@dataclass(frozen=True, slots=True)
class AgentMeta:
    """What a client says of a subagent beside its transcript."""

    agent_type: str = ""
    task: str = ""


def agent_meta_of(transcript: Path) -> AgentMeta:
    """Return the type and the task of a subagent, as far as the file beside it says them."""
    path = _meta_of(transcript)
    if not transcript.name.startswith(_AGENT) or not _is_file(path):
        return AgentMeta()
    try:
        with path.open("rb") as file:
            data = file.read(_META_BYTES)
    except OSError:
        return AgentMeta()
    found = as_object(data.decode("utf-8-sig", "replace")) or {}
    return AgentMeta(get_text(found, "agentType"), get_text(found, "description"))


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs that a client moved out of the transcripts of a session."""

    folder: Path
    names: frozenset[str]

    @classmethod
    def of(cls, transcript: Path) -> Outputs | None:
        """Return the outputs of the session of a transcript. Return None if there are none."""
        if not transcript.name.endswith(_TRANSCRIPT):
            return None
        session = transcript.with_suffix("")
        if transcript.name.startswith(_AGENT):
            session = next(
                (at.parent for at in transcript.parents[:_DEPTH] if at.name == SUBAGENTS), session
            )
        folder = session / OUTPUTS
        if not _is_folder(session) or not _is_folder(folder):
            return None
        try:
            names = frozenset(path.name for path in folder.iterdir() if _is_file(path))
        except OSError:
            return None
        return cls(folder, names) if names else None

    def linked(self, entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
        """Return entries, with the artifact of its output in the source of each such result."""
        return [self._linked(one) if one.message.role == "tool" else one for one in entries]

    def _linked(self, entry: ConversationEntry) -> ConversationEntry:
        name = self._name(entry)
        found = None if name is None else _digest(self.folder / name)
        if found is None:
            return entry
        artifact, size = found
        output = {"file": name, "artifact": artifact, "bytes": size}
        return replace(entry, source={**(entry.source or {}), "output": output})

    def _name(self, entry: ConversationEntry) -> str | None:
        """Return the name of the file with the output of a result: what it says, or its call."""
        pointer = _POINTER.search(text_of(entry.message.content)[:_POINTER_CHARACTERS])
        if pointer is not None:
            name = re.split(r"[/\\]", pointer[1].rstrip())[-1]
            for one in (name, name.rstrip(".")):
                if one in self.names:
                    return one
        call = entry.message.tool_call_id or ""
        return next((f"{call}{end}" for end in (".txt", ".json") if call + end in self.names), None)


def _digest(path: Path) -> tuple[str, int] | None:
    """Return the name of the artifact with the bytes of a file, and how many there are."""
    hasher, size = blake3(canonical.RAW), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_READ_BYTES):
                hasher.update(piece)
                size += len(piece)
    except OSError:
        return None
    return f"art-{hasher.hexdigest()}", size


def _meta_of(transcript: Path) -> Path:
    return transcript.with_name(transcript.name.removesuffix(_TRANSCRIPT) + _META)


def _is_transcript(path: str) -> bool:
    """Whether a file is a transcript: any data set may have a folder of the same name beside it."""
    if not _is_file(path):
        return False
    try:
        return native_of(path, beginning_of(Path(path), LOOKED_AT_BYTES)) is not None
    except OSError:
        return False


def _has_subagents(folder: str) -> bool:
    """Whether a folder is that of a session whose own transcript is gone."""
    below = f"{folder}{os.sep}{SUBAGENTS}"
    try:
        return _is_folder(below) and any(
            path.name.startswith(_AGENT) for path in Path(below).iterdir()
        )
    except OSError:
        return False


def _is_file(path: Path | str) -> bool:
    try:
        return S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_folder(path: Path | str) -> bool:
    try:
        return S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
