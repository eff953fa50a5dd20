"""The exported form of interactions: which file has what, and what stands in it.

    messages/<id>.json                      (or messages/<2 digits>/<id>.json)
    threads/<session>--<agent>.jsonl
    index.json

Source: spec [S3] "Architecture"; docs/formats/interactions.md, "The exported form".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from harken.core import canonical
from harken.core.canonical import RAW, hash_bytes
from harken.errors import ConfigError

MESSAGES, THREADS, INDEX = "messages", "threads", "index.json"
VERSION = 1
_BETWEEN = "--"
_LONGEST_NAME = 180
_FIRST_AGENT = "agent_001"


class ExportedThread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A thread, as the index has it: all of it can be read from its rows, but for the names."""

    thread_id: str
    session_id: str
    agent_id: str
    name: str | None = None
    """What the agent is called."""
    file: str
    """In the folder of threads."""
    started_at: str = ""
    updated_at: str = ""
    entries: int = 0
    requests: int = 0
    model: str | None = None


class ExportedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a folder."""

    version: int = VERSION
    threads: list[ExportedThread] = []


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a folder."""

    folder: Path
    is_sharded: bool = False

    def message(self, id: str) -> Path:
        """Return where a message stands."""
        shard = (id[:2],) if self.is_sharded else ()
        return self.folder.joinpath(MESSAGES, *shard, f"{id}.json")

    def thread(self, file: str) -> Path:
        """Return where the rows of a thread stand."""
        return self.folder / THREADS / file

    @property
    def index(self) -> Path:
        """Where the index stands."""
        return self.folder / INDEX

    def make(self) -> None:
        """Make the folders. Raises ConfigError."""
        try:
            for folder in (self.folder, self.folder / MESSAGES, self.folder / THREADS):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{self.folder}: the folder cannot be made ({reason})") from None

    def put(self, path: Path, data: bytes) -> None:
        """Write a file, in one step, for its owner only. Raises ConfigError."""
        new = path.with_name(f".{path.name[:80]}.{os.getpid()}.new")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            new.unlink(missing_ok=True)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            new.replace(path)
        except OSError as error:
            new.unlink(missing_ok=True)
            reason = error.strerror or str(error)
            raise ConfigError(f"{path}: cannot be written ({reason})") from None


def file_of(session_id: str, agent_id: str) -> str:
    """Return the name of a thread's file.

    >>> file_of("claude:cafe", "agent_002")
    'claude%3Acafe--agent_002.jsonl'
    """
    stem = quote(session_id, safe=" ") + _BETWEEN + quote(agent_id, safe="")
    if len(stem) > _LONGEST_NAME:
        stem = stem[:_LONGEST_NAME] + hash_bytes(RAW, stem.encode())[:8].hex()
    return f"{stem}.jsonl"


def named_by(file: str) -> tuple[str, str]:
    """Return the session and the agent that a thread's file is named after.

    One of another program has the session alone.

    >>> named_by("session-2024-01-15T10-30-00.jsonl")
    ('session-2024-01-15T10-30-00', 'agent_001')
    """
    session_id, between, agent_id = file.removesuffix(".jsonl").rpartition(_BETWEEN)
    if not between:
        return unquote(agent_id), _FIRST_AGENT
    return unquote(session_id), unquote(agent_id)


def line_of(record: msgspec.Struct) -> bytes:
    """Return a record as one line of JSON."""
    return canonical.to_json_line(record) + b"\n"
