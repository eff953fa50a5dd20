"""The file layout of exported interactions.

    messages/<id>.json                      (or messages/<2 digits>/<id>.json)
    threads/<session>--<agent>.jsonl
    index.json

Source: spec [S3] "Architecture"; docs/formats/interactions.md, "The exported form".
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from harken.core import canonical
from harken.core.canonical import RAW_DOMAIN, hash_bytes
from harken.core.events import Evidence
from harken.errors import ConfigError

MESSAGES, THREADS, INDEX = "messages", "threads", "index.json"
VERSION = 1
_SEPARATOR = "--"
_MAX_NAME_CHARS = 180
_DEFAULT_AGENT_ID = "agent_001"


class ExportedThread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A thread in the index. Its members, except the names, can be derived from its rows."""

    thread_id: str
    session_id: str
    agent_id: str
    name: str | None = None
    """Name of the agent."""
    file: str
    """File name in the folder of threads."""
    started_at: str = ""
    updated_at: str = ""
    entries: int = 0
    requests: int = 0
    model: str | None = None
    evidence: Evidence | None = None
    """How its requests are known, if any of them was not recorded as it was made."""


class ExportedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The index of an export folder."""

    version: int = VERSION
    threads: list[ExportedThread] = []


class Layout(msgspec.Struct, frozen=True):
    """The paths of an export folder."""

    folder: Path
    is_sharded: bool = False

    def message(self, id: str) -> Path:
        """Return the path of a message."""
        shard = (id[:2],) if self.is_sharded else ()
        return self.folder.joinpath(MESSAGES, *shard, f"{id}.json")

    def thread(self, file: str) -> Path:
        """Return the path of a thread."""
        return self.folder / THREADS / file

    @property
    def index(self) -> Path:
        """The path of the index."""
        return self.folder / INDEX

    def create_folders(self) -> None:
        """Create the folders. Raises ConfigError."""
        try:
            for folder in (self.folder, self.folder / MESSAGES, self.folder / THREADS):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{self.folder}: the folder cannot be created ({reason})") from None

    def put(self, path: Path, data: bytes) -> None:
        """Write a file atomically, readable by its owner only. Raises ConfigError."""
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


def thread_file_name(session_id: str, agent_id: str) -> str:
    """Return the file name of a thread.

    >>> thread_file_name("claude:cafe", "agent_002")
    'claude%3Acafe--agent_002.jsonl'
    """
    stem = quote(session_id, safe=" ") + _SEPARATOR + quote(agent_id, safe="")
    if len(stem) > _MAX_NAME_CHARS:
        stem = stem[:_MAX_NAME_CHARS] + hash_bytes(RAW_DOMAIN, stem.encode())[:8].hex()
    return f"{stem}.jsonl"


def parse_file_name(file: str) -> tuple[str, str]:
    """Parse the session id and agent id from the file name of a thread.

    A file name of another program has the session id only.

    >>> parse_file_name("session-2024-01-15T10-30-00.jsonl")
    ('session-2024-01-15T10-30-00', 'agent_001')
    """
    session_id, separator, agent_id = file.removesuffix(".jsonl").rpartition(_SEPARATOR)
    if not separator:
        return unquote(agent_id), _DEFAULT_AGENT_ID
    return unquote(session_id), unquote(agent_id)


def encode_line(record: msgspec.Struct) -> bytes:
    """Encode a record as one line of JSON."""
    return canonical.to_json_line(record) + b"\n"
