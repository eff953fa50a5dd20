"""Import a folder of exported interactions as session logs.

Each log is verified: it is read again and compared with the rows of the folder. It is built from
requests and responses where the rows describe them, and row by row where that would not reproduce
the same rows. A log is renamed to its final name only when complete. A folder is untrusted: a
message whose id does not match its content is an error, and nothing is imported.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core.clock import Clock, system_clock
from harken.core.messages import message_hash
from harken.core.secrets.redaction import find_kind
from harken.errors import ConfigError, HarkenError, InvalidEvent
from harken.interactions.export.exporter import read_index
from harken.interactions.export.layout import ExportedThread, Layout, parse_file_name
from harken.interactions.export.thread_replay import ThreadReplay
from harken.interactions.open_threads import OpenThreads, check_session_name
from harken.interactions.records import LoggedMessage, ThreadEntry
from harken.interactions.thread import placeholder_messages, thread_rows
from harken.interactions.unit import to_message
from harken.session.log.compressed import is_packed
from harken.session.log.disk import move_durably
from harken.session.log.reader import iter_events

_MAX_BYTES = 256 * 1024 * 1024


class ImportedThreadSession(msgspec.Struct, frozen=True):
    """A session that was imported from a folder."""

    name: str
    """Name of its log. It differs from the exported one if that name was taken."""
    threads: int
    is_new: bool = True
    """False if an identical session already exists."""


class _ImportedThread(msgspec.Struct):
    """An exported thread: its index entry and its rows."""

    about: ExportedThread
    rows: list[ThreadEntry]


class _ImportedFolder(msgspec.Struct):
    """The parsed contents of an export folder."""

    layout: Layout
    messages: dict[str, LoggedMessage] = msgspec.field(default_factory=dict)
    """Message id as used in rows -> message."""
    sessions: dict[str, list[_ImportedThread]] = msgspec.field(default_factory=dict)


def import_folder(
    folder: Path,
    sessions: Path,
    *,
    clock: Clock = system_clock,
    refuses_credentials: bool = False,
) -> list[ImportedThreadSession]:
    """Import all sessions of a folder as logs.

    Raises ConfigError if the folder is invalid or damaged, with `refuses_credentials` also if it
    contains a credential; LogError.
    """
    exported = _read_folder(folder)
    if refuses_credentials:
        _check_credentials(folder, exported)
    sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
    return [
        _SessionImport(
            session_id=session_id,
            threads=threads,
            messages=exported.messages,
            sessions=sessions,
            clock=clock,
        ).run()
        for session_id, threads in exported.sessions.items()
    ]


def _check_credentials(folder: Path, exported: _ImportedFolder) -> None:
    """Raise ConfigError if a message or a row contains a credential: a log would differ from it."""
    threads = [thread for threads in exported.sessions.values() for thread in threads]
    rows = [row for thread in threads for row in thread.rows]
    for value in (*exported.messages.values(), *(thread.about for thread in threads), *rows):
        if kind := find_kind(msgspec.json.encode(value)):
            raise ConfigError(
                f"{folder}: contains a credential ({kind}), and the configuration has "
                'redact = "store"; export the folder again without --no-redact'
            )


class _SessionImport(msgspec.Struct, frozen=True, kw_only=True):
    """One session to be imported."""

    session_id: str
    threads: Sequence[_ImportedThread]
    messages: Mapping[str, LoggedMessage]
    sessions: Path
    clock: Clock

    def run(self) -> ImportedThreadSession:
        """Write the log under the first free name, unless an identical session exists."""
        for number in count(1):
            name = self.session_id if number == 1 else f"{self.session_id}-{number}"
            path = self.sessions / f"{name}.jsonl"
            if path.exists() or is_packed(path):
                if _has_same_rows(path, self.threads):
                    return ImportedThreadSession(name, len(self.threads), is_new=False)
                continue
            temporary = Path(tempfile.mkdtemp(prefix=".importing.", dir=self.sessions))
            try:
                move_durably(self._build_log(name, temporary), path)
                return ImportedThreadSession(name, len(self.threads))
            except FileExistsError:
                continue  # Another process created this file first.
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        raise AssertionError  # count() does not end

    def _build_log(self, name: str, temporary: Path) -> Path:
        """Build the log in a temporary folder, so that its rows equal the exported ones."""
        try:
            path = self._write_log(name, temporary / "retold", is_replayed=True)
            if _has_same_rows(path, self.threads):
                return path
        except InvalidEvent:
            pass
        try:
            path = self._write_log(name, temporary / "as-it-is", is_replayed=False)
        except InvalidEvent as error:
            raise ConfigError(f"session {name}: cannot be logged ({error})") from None
        if not _has_same_rows(path, self.threads):
            raise ConfigError(f"session {name}: its rows cannot be written unchanged")
        return path

    def _write_log(self, name: str, folder: Path, *, is_replayed: bool) -> Path:
        threads = OpenThreads(
            folder=folder, clock=self.clock, resolver=placeholder_messages, durability="none"
        )
        try:
            for thread in self.threads:
                description = thread.about
                thread_id = threads.start(name, description.name, description.agent_id)
                writer = threads.writer(thread_id)
                if is_replayed:
                    ThreadReplay(writer, thread.rows, self.messages).tell()
                    continue
                for row in thread.rows:
                    message = None if row.message_id is None else self.messages[row.message_id]
                    writer.log_row(row, message)
        finally:
            threads.close()
        return folder / f"{name}.jsonl"


def _has_same_rows(path: Path, threads: Iterable[_ImportedThread]) -> bool:
    """Whether a log reproduces the rows of these threads exactly."""
    try:
        for thread in threads:
            rows = iter(thread.rows)
            for row in thread_rows(
                iter_events(path), thread.about.agent_id, estimates=_has_token_counts(thread)
            ):
                if row.entry != next(rows, None):
                    return False
            if next(rows, None) is not None:
                return False
    except HarkenError:
        return False
    return True


def _has_token_counts(thread: _ImportedThread) -> bool:
    """Whether the context snapshots of a thread have token counts."""
    snapshots = (row.context_snapshot for row in thread.rows if row.context_snapshot is not None)
    first = next(snapshots, None)
    return first is None or first.estimated_tokens is not None


def _read_folder(folder: Path) -> _ImportedFolder:
    """Read an export folder completely. Raises ConfigError."""
    layout = Layout(folder)
    if not (folder / "threads").is_dir():
        raise ConfigError(f"{folder}: not a folder of exported interactions: it has no threads/")
    exported = _ImportedFolder(layout)
    descriptions = {item.file: item for item in read_index(layout).threads}
    names = sorted(item.name for item in (folder / "threads").iterdir())
    indexed_names = [name for name in descriptions if name in names]
    for name in [*indexed_names, *(item for item in names if item not in descriptions)]:
        if not name.endswith(".jsonl") or name.startswith("."):
            continue
        description = descriptions.get(name) or _describe_thread(name)
        check_session_name(description.session_id)
        check_session_name(description.agent_id)
        exported.sessions.setdefault(description.session_id, []).append(
            _ImportedThread(description, _read_rows(exported, layout.thread(name)))
        )
    return exported


def _describe_thread(file: str) -> ExportedThread:
    session_id, agent_id = parse_file_name(file)
    id_ = f"{session_id}/{agent_id}"
    return ExportedThread(thread_id=id_, session_id=session_id, agent_id=agent_id, file=file)


def _read_rows(exported: _ImportedFolder, path: Path) -> list[ThreadEntry]:
    """Read the rows of a thread and the messages that they refer to. Raises ConfigError."""
    rows: list[ThreadEntry] = []
    if not path.is_file():  # Opening a pipe would block.
        raise ConfigError(f"{path}: not a regular file")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_BYTES), b""), 1):
                if line.strip():
                    rows.append(_parse_row(exported, path, number, line))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return rows


def _parse_row(exported: _ImportedFolder, path: Path, number: int, line: bytes) -> ThreadEntry:
    try:
        row = msgspec.convert(canonical.from_json(line), ThreadEntry)
    except ValueError as error:
        raise ConfigError(f"{path}: line {number} is not a row of a thread ({error})") from None
    if not row.timestamp:
        raise ConfigError(f"{path}: line {number} is not a row of a thread (it has no timestamp)")
    if row.message_id is None:
        return row
    if row.message_id not in exported.messages:
        exported.messages[row.message_id] = _read_message(exported, row.message_id)
    message_id = exported.messages[row.message_id].id
    if message_id == row.message_id:
        return row
    exported.messages.setdefault(message_id, exported.messages[row.message_id])
    return structs.replace(row, message_id=message_id)


def _read_message(exported: _ImportedFolder, id_: str) -> LoggedMessage:
    """Read and verify a message by the id that a row refers to. Raises ConfigError."""
    folder = exported.layout.folder
    if not id_ or not id_.isalnum() or not id_.isascii() or len(id_) > 128:
        raise ConfigError(f"{folder}: {id_[:80]!r} is not the id of a message")
    candidates = [Layout(folder).message(id_), Layout(folder, is_sharded=True).message(id_)]
    path = next((candidate for candidate in candidates if candidate.is_file()), candidates[0])
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path}: is too large for a message")
        value: Any = canonical.from_json(path.read_bytes())
        record = msgspec.convert(value, LoggedMessage)
        if record.id not in ("", id_):
            raise ConfigError(f"{path}: has the id of another message, {record.id[:80]!r}")
        return structs.replace(record, id=message_hash(to_message(record)))
    except FileNotFoundError:
        raise ConfigError(f"{path}: missing, but a row refers to it") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ConfigError:
        raise
    except (ValueError, HarkenError) as error:
        raise ConfigError(f"{path}: not a logged message ({error})") from None
