"""A log as a stream of complete lines, redacted for a remote service, with the commits they name.

The redaction of a line depends only on the lines before it, and not on what was shipped before. So
a stream that starts again at the first line yields the same bytes at the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.secrets.removal import Replace
from harken.errors import InvalidLog, LogError
from harken.session.fold import Resolver
from harken.session.log.checksum import DIGITS_AT, read_body
from harken.session.log.tail import LogTail
from harken.session.rewrite import LogRewriter, PartOfStructure

BATCH_BYTES = 512 * 1024
"""The size of a batch of lines; a line is never split."""
_COMMIT_EVENT_KINDS = (b'"context_committed"', b'"context_loaded"')


class LineBatch(msgspec.Struct, frozen=True):
    """Some lines of a local log."""

    lines: Sequence[bytes]
    committed: frozenset[CommitId]
    """The commits that they name."""
    loaded: frozenset[CommitId] = frozenset()
    """The commits that an agent started from: their redaction changes a hash in the log."""


class LogStream:
    """A log that is read incrementally from its beginning.

    `replace` removes text that must not be sent; None sends the log unchanged. `resolver` returns
    the messages of redacted commits. After an error the stream cannot be used.
    """

    def __init__(self, path: Path, replace: Replace | None, resolver: Resolver) -> None:
        self.path = path
        self.redacted_bytes = 0
        """The size of the redacted log, as far as it was read."""
        self.redacted_sum = ""
        """The checksum of the last redacted line."""
        self._tail = LogTail(path)
        self._rewriter = None if replace is None else LogRewriter(replace, replace, resolver)

    @property
    def read_bytes(self) -> int:
        """The size of the local log, as far as it was read."""
        return self._tail.read_bytes

    @property
    def line_count(self) -> int:
        """The number of lines that were read."""
        return self._tail.line_count

    def iter_batches(self) -> Iterator[LineBatch]:
        """Yield the new complete lines, in batches of limited size.

        A group is yielded when it is complete, in one batch. Raises LogNotFound, InvalidLog;
        LogCorrupted after the lines before the damage.
        """
        lines: list[bytes] = []
        size = 0
        try:
            for group in self._tail.iter_groups():
                lines += group
                size += sum(map(len, group))
                if size >= BATCH_BYTES:
                    yield collect_commits(lines)
                    lines, size = [], 0
        except LogError:
            if lines:
                yield collect_commits(lines)
            raise
        if lines:
            yield collect_commits(lines)

    def redact(self, piece: LineBatch) -> bytes:
        """Return the redacted lines. Each batch must be passed once, in order.

        Raises InvalidLog if the log would be invalid without the redacted text.
        """
        try:
            lines = piece.lines if self._rewriter is None else self._rewriter.lines(piece.lines)
            data = b"".join(lines)
        except PartOfStructure:
            reason = "a credential is part of the log's structure; --no-redact ships it unchanged"
            raise InvalidLog(self.path, reason) from None
        self.redacted_bytes += len(data)
        self.redacted_sum = data[DIGITS_AT].decode()
        return data


def collect_commits(lines: list[bytes]) -> LineBatch:
    """Return lines with the commits that they name."""
    committed: set[CommitId] = set()
    loaded: set[CommitId] = set()
    for line in lines:
        if any(kind in line for kind in _COMMIT_EVENT_KINDS):
            _add_commits(line, committed, loaded)
    return LineBatch(lines, frozenset(committed), frozenset(loaded))


def _add_commits(line: bytes, committed: set[CommitId], loaded: set[CommitId]) -> None:
    try:
        event = ev.decode_event(read_body(line))
    except ValueError:
        return
    match event:
        case ev.ContextLoaded():
            loaded.add(CommitId(event.ctx))
            committed.add(CommitId(event.ctx))
        case ev.ContextCommitted():
            committed.add(CommitId(event.ctx))
        case _:
            pass
