"""Importing: a folder of the exported form becomes session logs.

One idea: what was written is read again and compared. A log is made of requests and answers where
the rows tell of such, and row by row where that would not give the very rows back. Nothing gets
its name before it is whole. A folder may come from anybody: an id that is not that of its content
is an error, and nothing is taken.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from harken.context.bundle.create import put
from harken.core import canonical
from harken.core.clock import Clock, system_clock
from harken.core.messages import message_hash
from harken.errors import ConfigError, HarkenError, InvalidEvent
from harken.interactions.export.exporter import index_of
from harken.interactions.export.layout import ExportedThread, Layout, named_by
from harken.interactions.export.thread_replay import Retelling
from harken.interactions.open_threads import OpenThreads, check_name
from harken.interactions.records import LoggedMessage, ThreadEntry
from harken.interactions.thread import stand_ins, thread_rows
from harken.interactions.unit import message_of
from harken.session.log.compressed import is_packed
from harken.session.log.reader import events

_LARGEST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportedThreadSession:
    """A session that came from a folder."""

    name: str
    """The name of its log: another one where that was taken."""
    threads: int
    is_new: bool = True
    """False: the very same was here already."""


@dataclass(slots=True)
class _Thread:
    """A thread as it was read."""

    about: ExportedThread
    rows: list[ThreadEntry]


@dataclass(slots=True)
class _Folder:
    """A folder that is read."""

    layout: Layout
    messages: dict[str, LoggedMessage] = field(default_factory=dict)
    """By the id under which rows name them."""
    sessions: dict[str, list[_Thread]] = field(default_factory=dict)


def import_folder(
    folder: Path, sessions: Path, *, clock: Clock = system_clock
) -> list[ImportedThreadSession]:
    """Write the sessions of a folder to another one, of logs.

    Raises ConfigError where it is no such folder, or damaged; LogError.
    """
    found = _read(folder)
    sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
    return [
        _Import(
            session_id=session_id,
            threads=threads,
            messages=found.messages,
            sessions=sessions,
            clock=clock,
        ).run()
        for session_id, threads in found.sessions.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """A session that is to be written."""

    session_id: str
    threads: Sequence[_Thread]
    messages: Mapping[str, LoggedMessage]
    sessions: Path
    clock: Clock

    def run(self) -> ImportedThreadSession:
        """Write it under the first name that is free, unless it is here."""
        for n in count(1):
            name = self.session_id if n == 1 else f"{self.session_id}-{n}"
            path = self.sessions / f"{name}.jsonl"
            if path.exists() or is_packed(path):
                if _is_same(path, self.threads):
                    return ImportedThreadSession(name, len(self.threads), is_new=False)
                continue
            own = Path(tempfile.mkdtemp(prefix=".importing.", dir=self.sessions))
            try:
                put(self._written(name, own), path)
                return ImportedThreadSession(name, len(self.threads))
            except FileExistsError:
                continue  # somebody else was faster
            finally:
                shutil.rmtree(own, ignore_errors=True)
        raise AssertionError  # count() does not end

    def _written(self, name: str, own: Path) -> Path:
        """Write it to a folder of its own, in the way that gives the very rows back."""
        try:
            path = self._write(name, own / "retold", is_retold=True)
            if _is_same(path, self.threads):
                return path
        except InvalidEvent:
            pass
        try:
            path = self._write(name, own / "as-it-is", is_retold=False)
        except InvalidEvent as error:
            raise ConfigError(f"session {name}: is none that can be logged ({error})") from None
        if not _is_same(path, self.threads):
            raise ConfigError(f"session {name}: its rows cannot be written as they are")
        return path

    def _write(self, name: str, folder: Path, *, is_retold: bool) -> Path:
        into = OpenThreads(folder=folder, clock=self.clock, resolver=stand_ins, durability="none")
        try:
            for thread in self.threads:
                about = thread.about
                id_ = into.start(name, about.name, about.agent_id)
                writer = into.writer(id_)
                if is_retold:
                    Retelling(writer, thread.rows, self.messages).tell()
                    continue
                for row in thread.rows:
                    message = None if row.message_id is None else self.messages[row.message_id]
                    writer.add(row, message)
        finally:
            into.close()
        return folder / f"{name}.jsonl"


def _is_same(path: Path, threads: Iterable[_Thread]) -> bool:
    """Whether a log has these threads, row by row."""
    try:
        for thread in threads:
            rows = iter(thread.rows)
            for row in thread_rows(events(path), thread.about.agent_id, estimates=_counts(thread)):
                if row.entry != next(rows, None):
                    return False
            if next(rows, None) is not None:
                return False
    except HarkenError:
        return False
    return True


def _counts(thread: _Thread) -> bool:
    """Whether the snapshots of a thread say how many tokens a context took."""
    snapshots = (row.context_snapshot for row in thread.rows if row.context_snapshot is not None)
    first = next(snapshots, None)
    return first is None or first.estimated_tokens is not None


def _read(folder: Path) -> _Folder:
    """Read a whole folder. Raises ConfigError."""
    layout = Layout(folder)
    if not (folder / "threads").is_dir():
        raise ConfigError(f"{folder}: is no folder of exported interactions: it has no threads/")
    found = _Folder(layout)
    known = {one.file: one for one in index_of(layout).threads}
    names = sorted(one.name for one in (folder / "threads").iterdir())
    listed = [name for name in known if name in names]
    for name in [*listed, *(one for one in names if one not in known)]:
        if not name.endswith(".jsonl") or name.startswith("."):
            continue
        about = known.get(name) or _about(name)
        check_name(about.session_id)
        check_name(about.agent_id)
        found.sessions.setdefault(about.session_id, []).append(
            _Thread(about, _rows(found, layout.thread(name)))
        )
    return found


def _about(file: str) -> ExportedThread:
    session_id, agent_id = named_by(file)
    id_ = f"{session_id}/{agent_id}"
    return ExportedThread(thread_id=id_, session_id=session_id, agent_id=agent_id, file=file)


def _rows(found: _Folder, path: Path) -> list[ThreadEntry]:
    """Read the rows of a thread, and the messages that they name."""
    rows: list[ThreadEntry] = []
    if not path.is_file():  # a pipe would be waited for
        raise ConfigError(f"{path}: is no file")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LARGEST_BYTES), b""), 1):
                if line.strip():
                    rows.append(_row(found, path, number, line))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return rows


def _row(found: _Folder, path: Path, number: int, line: bytes) -> ThreadEntry:
    try:
        row = msgspec.convert(canonical.from_json(line), ThreadEntry)
    except ValueError as error:
        raise ConfigError(f"{path}: line {number} is no row of a thread ({error})") from None
    if not row.timestamp:
        raise ConfigError(f"{path}: line {number} is no row of a thread (it has no timestamp)")
    if row.message_id is None:
        return row
    if row.message_id not in found.messages:
        found.messages[row.message_id] = _message(found, row.message_id)
    ours = found.messages[row.message_id].id
    if ours == row.message_id:
        return row
    found.messages.setdefault(ours, found.messages[row.message_id])
    return msgspec.structs.replace(row, message_id=ours)


def _message(found: _Folder, id_: str) -> LoggedMessage:
    """Read a message by the id with which a row names it. Raises ConfigError."""
    folder = found.layout.folder
    if not id_ or not id_.isalnum() or not id_.isascii() or len(id_) > 128:
        raise ConfigError(f"{folder}: {id_[:80]!r} is no id of a message")
    places = [Layout(folder).message(id_), Layout(folder, is_sharded=True).message(id_)]
    path = next((one for one in places if one.is_file()), places[0])
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: is too large for a message")
        value: Any = canonical.from_json(path.read_bytes())
        record = msgspec.convert(value, LoggedMessage)
        if record.id == sha256(record.content.encode("utf-8", "surrogatepass")).hexdigest():
            record = msgspec.structs.replace(record, id="")  # of another program, as specified
        if record.id not in ("", id_):
            raise ConfigError(f"{path}: has the id of another message, {record.id[:80]!r}")
        return msgspec.structs.replace(record, id=message_hash(message_of(record)))
    except FileNotFoundError:
        raise ConfigError(f"{path}: is not there, and a row names it") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ConfigError:
        raise
    except (ValueError, HarkenError) as error:
        raise ConfigError(f"{path}: is no logged message ({error})") from None
