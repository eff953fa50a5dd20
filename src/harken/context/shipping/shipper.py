"""The shipper: what a service has not of a log goes there, commits before the lines that name them.

One idea: nothing here decides what is there. The service says how much of a log it has, and
compares what overlaps; names of commits follow from their contents. So either end may be killed
anywhere, and whoever begins again ends with the same, once.

Staging: a copy of commits as they will be seen elsewhere, without credentials.

Names stay, as in a bundle: what held a credential has a stand-in, and its tombstone says why. What
is here does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harken.context.bundle.redact import WHY
from harken.context.materialize import resolver
from harken.context.purge import found_in_store
from harken.context.shipping.log_stream import Lines, LogStream
from harken.context.shipping.outbox import Outbox, ShipState
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.core.events import ContextLoaded
from harken.core.messages import ChatMessage
from harken.core.secrets.redaction import Credentials
from harken.errors import InvalidLog, LogError, StoreError
from harken.session.log.compressed import LogStat, log_of, stat_log
from harken.session.rewrite import PartOfStructure
from harken.store.base import Store, Tombstone
from harken.store.copy import copy_commits
from harken.store.remote.wire import LogEndBody
from harken.store.sqlite.store import SqliteStore

BY = "harken ship"


@contextmanager
def staged(
    store: Store, names: Iterable[CommitId], found: Credentials, folder: Path, clock: Clock
) -> Iterator[Store]:
    """Give a copy of commits with all before them, redacted, in a file in `folder`.

    Raises PartOfStructure where one would be none without a credential; StoreError.
    """
    with closing(SqliteStore(folder / "store.db")) as copy:
        copy_commits(store, copy, names)
        held = found_in_store(copy, found)
        for name, notes in held.notes.items():
            copy.update_notes(name, notes)
        if held.stand_ins:
            stone = Tombstone(when=format_rfc3339(clock()), by=BY, why=WHY)
            copy.purge(held.stand_ins, stone)
        yield copy


_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_FOLLOWED = 32
"""So many logs are remembered as they were read: others are read from their beginning."""
_OTHER = "the service has another log of this name, or this one changed since it was shipped"
_MORE = "the service has more of it than is here: somebody went on with it there"


class RemoteLogStore(Store, Protocol):
    """A store elsewhere that takes logs, too: `RemoteStore`."""

    def log_end(self, name: str) -> LogEndBody:
        """Say how much is there of a log. Raises StoreError."""
        ...

    def append_log(self, name: str, at: int, lines: bytes) -> LogEndBody:
        """Add lines to a log. Raises LogError, StoreError."""
        ...


@dataclass(slots=True)
class ShipResult:
    """What went to the service of one session."""

    name: str
    lines: int = 0
    size_bytes: int = 0
    commits: int = 0
    lacking: set[str] = field(default_factory=set)
    """Commits that the log names and that are not here: they could not be shipped."""

    @property
    def is_new(self) -> bool:
        """Whether anything went there."""
        return bool(self.lines or self.commits)


@dataclass(slots=True)
class Shipper:
    """Ships sessions to one service. `found`: the credentials on their way; None: none is redacted.

    All methods raise StoreUnavailable where the service does not answer: then ship again.
    """

    store: Store
    far: RemoteLogStore
    outbox: Outbox
    found: Credentials | None
    clock: Clock = system_clock
    _followed: dict[Path, LogStream] = field(default_factory=dict)
    _staged: Store | None = None
    """Commits as they will be seen there, while the lines that name them are redacted."""

    def check(self) -> None:
        """Raise StoreError where no service that takes logs answers, or it does not let us in."""
        self.far.log_end("harken")

    def ship(self, path: Path) -> ShipResult:
        """Ship what is new of a log, and the commits that it names; on return it is safe there.

        Raises LogError, also where the service has another log of this name; StoreError.
        """
        done = ShipResult(log_of(path).stem)
        if not _NAME.fullmatch(done.name):
            raise InvalidLog(
                path, "a log elsewhere is named with letters, digits, '.', '_', '-' only"
            )
        note, stat, end = self.outbox.note(done.name), _stat(path), self.far.log_end(done.name)
        if self._is_done(note, end, stat):
            return done
        is_known = note.last_sum and note.there_bytes <= end.size_bytes
        known = set(note.commits) if is_known else set()
        log = self._opened(path, end)
        self._commits(path, Lines((), frozenset(map(CommitId, note.lacking))), known, done)
        for piece in log.pieces():
            with ExitStack() as staging:
                self._commits(path, piece, known, done, staging)
                end = self._lines(log, piece, end, done)
        if log.there_bytes < end.size_bytes:
            raise LogError(path, _MORE)
        self._keep(log, stat, known, done)
        return done

    def _is_done(self, note: ShipState, end: LogEndBody, stat: LogStat) -> bool:
        return (
            note.last_sum != ""
            and (note.there_bytes, note.last_sum) == (end.size_bytes, end.last_sum)
            and (note.read_bytes, note.written_ns) == (stat.size_bytes, stat.written_ns)
            and note.is_redacted == (self.found is not None)
            and not (note.lacking and self.store.commits(map(CommitId, note.lacking)))
        )

    def _opened(self, path: Path, end: LogEndBody) -> LogStream:
        """Return a log where it was left, if that is where the service is; else its beginning."""
        log = self._followed.pop(path, None)
        if log is not None and log.there_bytes == end.size_bytes and log.sum_there == end.last_sum:
            return log
        return LogStream(path, None if self.found is None else self.found.replace, self._resolve)

    def _keep(self, log: LogStream, stat: LogStat, known: set[str], done: ShipResult) -> None:
        """Note what the service has, and remember the log as it was read."""
        self.outbox.keep(
            done.name,
            ShipState(
                read_bytes=log.read_bytes,
                written_ns=stat.written_ns,
                lines=log.count,
                there_bytes=log.there_bytes,
                last_sum=log.sum_there,
                is_redacted=self.found is not None,
                commits=tuple(sorted(known)),
                lacking=tuple(sorted(done.lacking)),
            ),
        )
        self._followed[log.path] = log
        while len(self._followed) > _FOLLOWED:
            del self._followed[next(iter(self._followed))]

    def _lines(self, log: LogStream, piece: Lines, end: LogEndBody, done: ShipResult) -> LogEndBody:
        """Send those lines of a piece that the service has not; return how much it has then."""
        at = log.there_bytes
        data = log.seen(piece)
        if log.there_bytes < end.size_bytes:
            return end
        now = end
        if log.there_bytes > end.size_bytes:
            try:
                now = self.far.append_log(done.name, at, data)
            except LogError as error:
                raise LogError(log.path, f"is not taken; {error}") from None
        if (now.size_bytes, now.last_sum) != (log.there_bytes, log.sum_there):
            raise LogError(log.path, _OTHER)
        new = data[max(end.size_bytes - at, 0) :]
        done.lines += new.count(b"\n")
        done.size_bytes += len(new)
        return now

    def _commits(
        self,
        path: Path,
        piece: Lines,
        known: set[str],
        done: ShipResult,
        staging: ExitStack | None = None,
    ) -> None:
        """Send the commits that lines name, and all before them.

        Until `staging` ends they are at hand as they will be seen there.
        """
        new = {name for name in piece.committed if name not in known}
        wanted = sorted(new | piece.loaded if self.found is not None else new)
        here = sorted(self.store.commits(wanted)) if wanted else []
        done.lacking |= {*wanted} - {*here}
        if not here:
            return
        if self.found is None:
            done.commits += copy_commits(self.store, self.far, here).commits
        else:
            with ExitStack() as own:
                done.commits += self._redacted(path, here, self.found, staging or own)
        known.update(here)

    def _redacted(
        self, path: Path, names: Sequence[CommitId], found: Credentials, staging: ExitStack
    ) -> int:
        """Send commits without credentials; return how many were new there."""
        folder = staging.enter_context(self.outbox.staging())
        try:
            copy = staging.enter_context(staged(self.store, names, found, folder, self.clock))
        except PartOfStructure:
            text = "a credential is part of what holds its commits together: --no-redact ships it"
            raise InvalidLog(path, text) from None
        staging.callback(self._unstage)
        self._staged = copy
        return copy_commits(copy, self.far, names).commits

    def _unstage(self) -> None:
        self._staged = None

    def _resolve(self, event: ContextLoaded) -> Sequence[ChatMessage]:
        if self._staged is None:
            raise StoreError(event.ctx, "is not here")
        return resolver(self._staged)(event)


def _stat(path: Path) -> LogStat:
    """Say how a log is kept. Raises InvalidLog."""
    try:
        return stat_log(path)
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {error.strerror or error}") from None
