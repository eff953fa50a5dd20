"""A log as a stream of complete lines, redacted for a remote service, with the commits they name.

The redaction of a line depends only on the lines before it, and not on what was shipped before. So
a stream that starts again at the first line yields the same bytes at the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.replace import Replace
from harken.errors import InvalidLog, LogCorrupted
from harken.session.fold import Resolver
from harken.session.log.checksum import (
    CLOSE,
    DIGITS_AT,
    has_more,
    has_sum,
    is_valid_line,
    read_body,
    seems_sealed,
)
from harken.session.log.reader import open_log
from harken.session.rewrite import LogRewriter, PartOfStructure

BATCH_BYTES = 512 * 1024
"""The size of a batch of lines; a line is never split."""
_COMMIT_EVENT_KINDS = (b'"context_committed"', b'"context_loaded"')


@dataclass(frozen=True, slots=True)
class LineBatch:
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
        self.read_bytes = 0
        self.count = 0
        self.redacted_bytes = 0
        """The size of the redacted log, as far as it was read."""
        self.redacted_sum = ""
        """The checksum of the last redacted line."""
        self._last_sum = b""
        self._rewriter = None if replace is None else LogRewriter(replace, replace, resolver)

    def iter_batches(self) -> Iterator[LineBatch]:
        """Yield the new complete lines, in batches of limited size.

        A group is yielded when it is complete, in one batch: a crash may still remove the lines of
        an incomplete one. Raises LogNotFound, InvalidLog; LogCorrupted after the lines before the
        damage.
        """
        with open_log(self.path) as file:
            self._check_unchanged(file)
            file.seek(self.read_bytes)
            lines: list[bytes] = []
            group: list[bytes] = []
            size, before = 0, self._last_sum
            for line in file:
                if not line.endswith(b"\n"):
                    break  # The line is being written, or was not completed.
                if not is_valid_line(before, line) or not has_sum(line):
                    if lines:
                        yield _collect_commits(lines)
                    raise self._damage_error(line, group)
                before = line[DIGITS_AT]
                group.append(line)
                if has_more(line):
                    continue
                size += self._count_group(group)
                lines += group
                group.clear()
                if size >= BATCH_BYTES:
                    yield _collect_commits(lines)
                    lines, size = [], 0
            if lines:
                yield _collect_commits(lines)

    def _count_group(self, group: Sequence[bytes]) -> int:
        """Count the lines of a complete group as read. Return their size in bytes."""
        size = sum(map(len, group))
        self._last_sum = group[-1][DIGITS_AT]
        self.count += len(group)
        self.read_bytes += size
        return size

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

    def _check_unchanged(self, file: BinaryIO) -> None:
        """Raise InvalidLog if the log was replaced since it was read, such as by a purge."""
        if not self.read_bytes:
            return
        size = len(self._last_sum + CLOSE)
        file.seek(self.read_bytes - size)
        if file.read(size) != self._last_sum + CLOSE:
            raise InvalidLog(self.path, "was replaced while it was followed")

    def _damage_error(self, line: bytes, group: Sequence[bytes]) -> LogCorrupted | InvalidLog:
        """Return the error for a line after the read lines and the lines of its group."""
        number, byte = self.count + len(group), self.read_bytes + sum(map(len, group))
        if not number and not seems_sealed(line):
            return InvalidLog(
                self.path, "has no checksums: logs of older dialects cannot be shipped"
            )
        reason = "checksum mismatch" if has_sum(line) else "no checksum"
        return LogCorrupted(self.path, line=number + 1, byte=byte, reason=reason)


def _collect_commits(lines: list[bytes]) -> LineBatch:
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
