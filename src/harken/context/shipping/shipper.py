"""The shipper: sends the new lines of a log to a service, after the commits that they name.

The client does not decide what the service has. The service reports the size of a log, and compares
overlapping lines; names of commits follow from their contents. So either end may be killed at any
time, and a repeated run has the same result without duplicates.

Commits are staged for redaction: a copy of them is made without credentials. Names stay valid, as
in a bundle: an object with a credential has a stand-in, and its tombstone gives the reason. The
local store is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from harken.context.bundle.redact import WHY
from harken.context.materialize import make_resolver
from harken.context.purge import find_in_store
from harken.context.shipping.log_stream import LineBatch, LogStream
from harken.context.shipping.outbox import Outbox, ShipState
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.core.events import ContextLoaded
from harken.core.messages import ChatMessage
from harken.core.secrets.redaction import Credentials
from harken.errors import InvalidLog, LogError, StoreError
from harken.session.log.compressed import LogStat, log_path, stat_log
from harken.session.rewrite import PartOfStructure
from harken.store.base import Store, Tombstone
from harken.store.copying.commits import copy_commits
from harken.store.remote.wire import LogEndBody
from harken.store.sqlite.store import SqliteStore

BY = "harken push"


@contextmanager
def open_redacted_copy(
    store: Store, names: Iterable[CommitId], credentials: Credentials, folder: Path, clock: Clock
) -> Iterator[Store]:
    """Yield a redacted copy of commits with all their ancestors, in a store in `folder`.

    Raises PartOfStructure if an object would be invalid without a credential; StoreError.
    """
    with closing(SqliteStore(folder / "store.db")) as copy:
        copy_commits(store, copy, names)
        purge = find_in_store(copy, credentials)
        for name, notes in purge.notes.items():
            copy.update_notes(name, notes)
        if purge.stand_ins:
            tombstone = Tombstone(when=format_rfc3339(clock()), by=BY, why=WHY)
            copy.purge(purge.stand_ins, tombstone)
        yield copy


_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_MAX_STREAMS = 32
"""The number of open log streams. Other logs are read again from their beginning."""
_DIFFERENT_LOG_TEXT = (
    "the service has another log of this name, or this one changed since it was shipped"
)
_LONGER_LOG_TEXT = "the service has a longer log: the session was continued there"


class RemoteLogStore(Store, Protocol):
    """A remote store that also accepts logs: `RemoteStore`."""

    def log_end(self, name: str) -> LogEndBody:
        """Return the size of a log on the service. Raises StoreError."""
        ...

    def append_log(self, name: str, at: int, lines: bytes) -> LogEndBody:
        """Append lines to a log. Raises LogError, StoreError."""
        ...


class ShipResult(msgspec.Struct):
    """The lines and commits of one session that were sent."""

    name: str
    lines: int = 0
    size_bytes: int = 0
    commits: int = 0
    lacking: set[str] = msgspec.field(default_factory=set)
    """Commits in the log that are missing from the local store."""

    @property
    def is_new(self) -> bool:
        """Whether anything was sent."""
        return bool(self.lines or self.commits or self.size_bytes)


class Shipper(msgspec.Struct):
    """Ships sessions to one service.

    `credentials` collects redacted credentials; None disables redaction. All methods raise
    StoreUnavailable if the service does not respond: then ship again.
    """

    store: Store
    remote: RemoteLogStore
    outbox: Outbox
    credentials: Credentials | None
    clock: Clock = system_clock
    is_on_remote: Callable[[CommitId], bool] = lambda _: False
    """Whether the service is known to have a commit already."""
    _streams: dict[Path, LogStream] = msgspec.field(default_factory=dict)
    _staged_store: Store | None = None
    """The redacted commits, while the lines that name them are processed."""

    def check(self) -> None:
        """Raise StoreError if the service is unreachable, lacks logs, or denies access."""
        self.remote.log_end("harken")

    def estimate(self, path: Path) -> ShipResult:
        """Return about how much `ship` would send of a log, without a comparison of its lines.

        Raises LogError, StoreError.
        """
        result = ShipResult(log_path(path).stem)
        note, stat = self.outbox.read_state(result.name), _stat_log(path)
        end = self.remote.log_end(result.name)
        if not self._is_up_to_date(note, end, stat):
            is_continued = (note.there_bytes, note.last_sum) == (end.size_bytes, end.last_sum)
            start = note.read_bytes if is_continued else min(end.size_bytes, stat.size_bytes)
            result.size_bytes = stat.size_bytes - start
        return result

    def ship(self, path: Path) -> ShipResult:
        """Send the new lines of a log and the commits that they name. On return they are durable.

        Raises LogError, also if the service has another log of this name; StoreError.
        """
        result = ShipResult(log_path(path).stem)
        if not _NAME_PATTERN.fullmatch(result.name):
            raise InvalidLog(
                path, "a log elsewhere is named with letters, digits, '.', '_', '-' only"
            )
        note, stat, end = (
            self.outbox.read_state(result.name),
            _stat_log(path),
            self.remote.log_end(result.name),
        )
        if self._is_up_to_date(note, end, stat):
            return result
        is_valid = note.last_sum and note.there_bytes <= end.size_bytes
        shipped_commits = set(note.commits) if is_valid else set()
        log = self._get_stream(path, end)
        self._send_commits(
            path, LineBatch((), frozenset(map(CommitId, note.lacking))), shipped_commits, result
        )
        for piece in log.iter_batches():
            with ExitStack() as staging:
                self._send_commits(path, piece, shipped_commits, result, staging)
                end = self._send_lines(log, piece, end, result)
        if log.redacted_bytes < end.size_bytes:
            raise LogError(path, _LONGER_LOG_TEXT)
        self._record(log, stat, shipped_commits, result)
        return result

    def _is_up_to_date(self, note: ShipState, end: LogEndBody, stat: LogStat) -> bool:
        return (
            note.last_sum != ""
            and (note.there_bytes, note.last_sum) == (end.size_bytes, end.last_sum)
            and (note.read_bytes, note.written_ns) == (stat.size_bytes, stat.modified_ns)
            and note.is_redacted == (self.credentials is not None)
            and not (note.lacking and self.store.commits(map(CommitId, note.lacking)))
        )

    def _get_stream(self, path: Path, end: LogEndBody) -> LogStream:
        """Return the open stream of a log if the service is at its position, else a new one."""
        log = self._streams.pop(path, None)
        if (
            log is not None
            and log.redacted_bytes == end.size_bytes
            and log.redacted_sum == end.last_sum
        ):
            return log
        return LogStream(
            path, None if self.credentials is None else self.credentials.replace, self._resolve
        )

    def _record(
        self, log: LogStream, stat: LogStat, shipped_commits: set[str], result: ShipResult
    ) -> None:
        """Record the state of the service, and keep the stream open."""
        self.outbox.write_state(
            result.name,
            ShipState(
                read_bytes=log.read_bytes,
                written_ns=stat.modified_ns,
                lines=log.line_count,
                there_bytes=log.redacted_bytes,
                last_sum=log.redacted_sum,
                is_redacted=self.credentials is not None,
                commits=tuple(sorted(shipped_commits)),
                lacking=tuple(sorted(result.lacking)),
            ),
        )
        self._streams[log.path] = log
        while len(self._streams) > _MAX_STREAMS:
            del self._streams[next(iter(self._streams))]

    def _send_lines(
        self, log: LogStream, piece: LineBatch, end: LogEndBody, result: ShipResult
    ) -> LogEndBody:
        """Send the lines of a batch that the service lacks, and return its new state."""
        start_bytes = log.redacted_bytes
        data = log.redact(piece)
        if log.redacted_bytes < end.size_bytes:
            return end
        new_end = end
        if log.redacted_bytes > end.size_bytes:
            try:
                overlap = _find_overlap(data, end.size_bytes - start_bytes)
                new_end = self.remote.append_log(result.name, start_bytes + overlap, data[overlap:])
            except LogError as error:
                raise LogError(log.path, f"is not taken; {error}") from None
        if (new_end.size_bytes, new_end.last_sum) != (log.redacted_bytes, log.redacted_sum):
            raise LogError(log.path, _DIFFERENT_LOG_TEXT)
        new_data = data[max(end.size_bytes - start_bytes, 0) :]
        result.lines += new_data.count(b"\n")
        result.size_bytes += len(new_data)
        return new_end

    def _send_commits(
        self,
        path: Path,
        piece: LineBatch,
        shipped_commits: set[str],
        result: ShipResult,
        staging: ExitStack | None = None,
    ) -> None:
        """Send the commits in lines, and all their ancestors.

        The redacted copy exists until `staging` ends.
        """
        new_names = {
            name
            for name in piece.committed
            if name not in shipped_commits and not self.is_on_remote(name)
        }
        names = sorted(new_names | piece.loaded if self.credentials is not None else new_names)
        existing = sorted(self.store.commits(names)) if names else []
        result.lacking |= {*names} - {*existing}
        if not existing:
            return
        if self.credentials is None:
            result.commits += copy_commits(self.store, self.remote, existing).commits
        else:
            with ExitStack() as local_stack:
                result.commits += self._send_redacted(
                    path, existing, self.credentials, staging or local_stack
                )
        shipped_commits.update(existing)

    def _send_redacted(
        self, path: Path, names: Sequence[CommitId], credentials: Credentials, staging: ExitStack
    ) -> int:
        """Send redacted commits, and return how many were new on the service."""
        folder = staging.enter_context(self.outbox.staging())
        try:
            copy = staging.enter_context(
                open_redacted_copy(self.store, names, credentials, folder, self.clock)
            )
        except PartOfStructure:
            reason = "a credential is part of the structure of its commits; --no-redact ships it"
            raise InvalidLog(path, reason) from None
        staging.callback(self._unstage)
        self._staged_store = copy
        return copy_commits(copy, self.remote, names).commits

    def _unstage(self) -> None:
        self._staged_store = None

    def _resolve(self, event: ContextLoaded) -> Sequence[ChatMessage]:
        if self._staged_store is None:
            raise StoreError(event.ctx, "is not in this store")
        return make_resolver(self._staged_store)(event)


def _find_overlap(data: bytes, existing_bytes: int) -> int:
    """Return the offset of the last line that the service has, which it compares.

    existing_bytes: the part of the data that it has. If that is no line end, it is another log, and
    all is compared.
    """
    if existing_bytes <= 0 or data[existing_bytes - 1 : existing_bytes] != b"\n":
        return 0
    return data.rfind(b"\n", 0, existing_bytes - 1) + 1


def _stat_log(path: Path) -> LogStat:
    """Return the size and time of a log. Raises InvalidLog."""
    try:
        return stat_log(path)
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {error.strerror or error}") from None
