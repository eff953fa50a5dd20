"""Find the files that a client stores next to a transcript, in the folder of the session.

Claude Code has `<session>.jsonl` and a folder `<session>/` with `tool-results/*` (outputs that were
too large for the transcript), `subagents/agent-*.meta.json` (type and task of a subagent),
`workflows/journal.jsonl` and others. Copilot CLI has all files of a session in one folder. Their
bytes are stored unchanged.

File names in transcripts are untrusted. A name is only compared with the names in a listed folder,
and links are not followed, so nothing outside the session's folder is read.

Source: docs/formats/claude-code.md, "Companion files".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import msgspec
from blake3 import blake3

from harken.capture.redacted_file import iter_file
from harken.core import canonical, structs
from harken.core.messages import text_of
from harken.core.secrets.redaction import Credentials
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_text
from harken.formats.runtimes.compressed import read_beginning
from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from harken.formats.tool_calls import parse_json_object

OUTPUTS, SUBAGENTS = "tool-results", "subagents"
_TRANSCRIPT, _EVENTS = ".jsonl", "events.jsonl"
_META, _AGENT = ".meta.json", "agent-"
_MAX_DEPTH = 4
"""The maximum depth of a file below the folder of a session."""
_META_BYTES = 64 * 1024
_MAX_POINTER_CHARS = 4096
_POINTER_PATTERN = re.compile(
    r"(?:Full output saved to|Output has been saved to):?[ \t]*([^\r\n]+)"
)
"""Matches the path of the output file in the text of a tool result."""


def iter_companions(transcript: Path) -> Iterator[Path]:
    """Yield the files that belong to a transcript, except other transcripts.

    Links are not followed.
    """
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
    for directory, folders, names in os.walk(folder):
        if len(Path(directory).parts) - len(folder.parts) >= _MAX_DEPTH - 1:
            folders.clear()
        for path in (Path(directory, name) for name in names):
            is_transcript = path == transcript or (
                path.name.startswith(_AGENT) and path.name.endswith(_TRANSCRIPT)
            )
            if not is_transcript and _is_file(path):
                yield path


def find_session_folder(path: Path) -> Path | None:
    """Return the folder of the session that a file is in. Return None if there is none."""
    directory = str(path)
    for _ in range(
        _MAX_DEPTH
    ):  # Strings are faster than paths: this runs for each unknown file in a large folder.
        directory = os.path.dirname(directory)  # noqa: PTH120
        if not directory.strip(os.sep):
            break
        events = f"{directory}{os.sep}{_EVENTS}"
        if (
            _is_transcript(directory + _TRANSCRIPT)
            or _is_transcript(events)
            or _has_subagents(directory)
        ):
            return Path(directory)
    transcript_name = path.name.removesuffix(_META) + _TRANSCRIPT
    is_meta = path.name.startswith(_AGENT) and path.name.endswith(_META)
    return path.parent if is_meta and _is_transcript(str(path.with_name(transcript_name))) else None


def is_output(path: Path) -> bool:
    """Whether a file is the output of a tool, regardless of its content."""
    return path.parent.name == OUTPUTS and find_session_folder(path) == path.parent.parent


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file is a regular file inside a folder, not reached through a link."""
    return _is_file(path) and path.resolve().is_relative_to(folder.resolve())


class AgentMeta(msgspec.Struct, frozen=True):
    """The metadata of a subagent, from the file next to its transcript."""

    agent_type: str = ""
    task: str = ""


def read_agent_meta(transcript: Path, credentials: Credentials | None) -> AgentMeta:
    """Return the type and the task of a subagent. Missing fields are empty."""
    path = _meta_of(transcript)
    if not transcript.name.startswith(_AGENT) or not _is_file(path):
        return AgentMeta()
    try:
        with path.open("rb") as file:
            data = file.read(_META_BYTES)
    except OSError:
        return AgentMeta()
    data = data if credentials is None else credentials.replace_in_bytes(data)
    record = parse_json_object(data.decode("utf-8-sig", "replace")) or {}
    return AgentMeta(get_text(record, "agentType"), get_text(record, "description"))


class Outputs(msgspec.Struct, frozen=True):
    """The tool outputs that a client moved out of the transcripts of a session."""

    folder: Path
    names: frozenset[str]
    credentials: Credentials | None = None
    """Removes credentials from the outputs."""

    @classmethod
    def from_transcript(
        cls, transcript: Path, credentials: Credentials | None = None
    ) -> Outputs | None:
        """Return the outputs of the session of a transcript. Return None if there are none."""
        if not transcript.name.endswith(_TRANSCRIPT):
            return None
        session = transcript.with_suffix("")
        if transcript.name.startswith(_AGENT):
            session = next(
                (
                    parent.parent
                    for parent in transcript.parents[:_MAX_DEPTH]
                    if parent.name == SUBAGENTS
                ),
                session,
            )
        folder = session / OUTPUTS
        if not _is_folder(session) or not _is_folder(folder):
            return None
        try:
            names = frozenset(path.name for path in folder.iterdir() if _is_file(path))
        except OSError:
            return None
        return cls(folder, names, credentials) if names else None

    def link_outputs(self, entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
        """Return the entries, with the artifact of its output in the source of each tool result."""
        return [
            self._link_output(entry) if entry.message.role == "tool" else entry for entry in entries
        ]

    def _link_output(self, entry: ConversationEntry) -> ConversationEntry:
        name = self._find_output_name(entry)
        output_digest = None if name is None else _digest(self.folder / name, self.credentials)
        if output_digest is None:
            return entry
        artifact, size = output_digest
        output = {"file": name, "artifact": artifact, "bytes": size}
        return structs.replace(entry, source={**(entry.source or {}), "output": output})

    def _find_output_name(self, entry: ConversationEntry) -> str | None:
        """Return the name of the output file of a tool result, from its text or its call id."""
        pointer = _POINTER_PATTERN.search(text_of(entry.message.content)[:_MAX_POINTER_CHARS])
        if pointer is not None:
            name = re.split(r"[/\\]", pointer[1].rstrip())[-1]
            for candidate in (name, name.rstrip(".")):
                if candidate in self.names:
                    return candidate
        call = entry.message.tool_call_id or ""
        return next(
            (f"{call}{suffix}" for suffix in (".txt", ".json") if call + suffix in self.names), None
        )


def _digest(path: Path, credentials: Credentials | None) -> tuple[str, int] | None:
    """Return the artifact name and the size of a file. Return None if it cannot be read."""
    hasher, size = blake3(canonical.RAW_DOMAIN), 0
    try:
        for piece in iter_file(path, credentials):
            hasher.update(piece)
            size += len(piece)
    except OSError:
        return None
    return f"art-{hasher.hexdigest()}", size


def _meta_of(transcript: Path) -> Path:
    return transcript.with_name(transcript.name.removesuffix(_TRANSCRIPT) + _META)


def _is_transcript(path: str) -> bool:
    """Whether a file is a transcript. Other data may have a folder of the same name, too."""
    if not _is_file(path):
        return False
    try:
        return detect_runtime_format(path, read_beginning(Path(path), CHECKED_BYTES)) is not None
    except OSError:
        return False


def _has_subagents(folder: str) -> bool:
    """Whether a folder belongs to a session whose main transcript was removed."""
    subagents_folder = f"{folder}{os.sep}{SUBAGENTS}"
    try:
        return _is_folder(subagents_folder) and any(
            path.name.startswith(_AGENT) for path in Path(subagents_folder).iterdir()
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
