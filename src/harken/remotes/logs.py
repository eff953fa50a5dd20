"""Pull logs: append the lines that a remote has and this home lacks, and never change a line.

The sum of a line covers all lines before it. So one comparison of a sum says whether a log begins
with another one, and lines that do not continue the local log are refused by their own sums. A log
is appended in complete groups of lines: after an interruption it is an earlier state of the same
session, and the next pull continues from there.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.context.shipping.outbox import ShipState
from harken.core.clock import Clock
from harken.errors import HarkenError, InvalidLog, LogError, LogLocked, StoreUnavailable
from harken.remotes.mirror import LogRelation, Mirror
from harken.remotes.service import RemoteHome
from harken.session.log.checksum import seems_sealed
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.credential_check import check_credentials
from harken.session.log.reader import open_log
from harken.session.log.receive import read_log_end, receive_lines
from harken.store.remote.wire import ListedLog, LogEndBody

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
RESERVED_NAME = "latest"
_SPARE_BYTES = 64 * 1024 * 1024
_PURGE_EVENT = b'"content_purged"'
_DIVERGED = (
    "both sides have lines that the other lacks; rename the session here with `harken sessions "
    "rename`, and pull it again to have both"
)
_BATCH_BYTES = 4 * 1024 * 1024


class LogResult(msgspec.Struct):
    """The result of the pull of one log."""

    name: str
    relation: LogRelation
    is_new: bool = False
    """Whether the session was not here before."""
    lines: int = 0
    size_bytes: int = 0
    reason: str = ""
    """The reason for a log that was skipped or has diverged, with the next step."""


class LogPuller(msgspec.Struct, frozen=True):
    """Pulls logs of one remote into a folder."""

    remote: RemoteHome
    folder: Path
    mirror: Mirror
    read_ship_state: Callable[[str], ShipState]
    """Returns the record of the last push of a session to this remote."""
    clock: Clock
    refuses_credentials: bool = False
    dry_run: bool = False

    def pull(self, log: ListedLog, *, is_named: bool = False) -> LogResult:
        """Pull the new lines of a log. Raises StoreUnavailable; other errors are in the result.

        is_named: whether the session was asked for. Else one that was removed here stays removed,
        until the remote continues it.
        """
        if not NAME_PATTERN.fullmatch(log.name) or log.name.casefold() == RESERVED_NAME:
            return LogResult(log.name, "skipped", reason="its name cannot be that of a log here")
        path = self.folder / f"{log.name}.jsonl"
        before = stat_log_or_none(path)
        recorded = None if before is None else self.mirror.find_relation(log, before)
        if recorded in ("equal", "ahead", "redacted"):
            return LogResult(log.name, recorded)
        if before is None and not is_named and self.mirror.had_log(log):
            return LogResult(log.name, "removed")
        result = LogResult(log.name, "behind", is_new=before is None)
        try:
            result.relation = self._pull_lines(log, path, result)
        except StoreUnavailable:
            raise
        except LogLocked:
            result.relation, result.reason = "skipped", "it is being written here; pull again later"
        except (HarkenError, ValueError) as error:
            result.relation, result.reason = "skipped", _describe(error, path)
        after = stat_log_or_none(path)
        if after is not None and not self.dry_run:
            self._record(log, after, path, result)
        return result

    def local_end(self, name: str) -> int:
        """Return the size of the complete lines of a log here, or 0. Raises InvalidLog."""
        if not NAME_PATTERN.fullmatch(name):
            return 0
        return read_log_end(self.folder / f"{name}.jsonl").size_bytes

    def _pull_lines(self, log: ListedLog, path: Path, result: LogResult) -> LogRelation:
        """Append the missing lines. Raises HarkenError, ValueError."""
        end = read_log_end(path)
        if end.size_bytes and (relation := self._compare(log, path, result)) != "behind":
            return relation
        if self.dry_run:
            result.size_bytes = max(log.size_bytes - end.size_bytes, 0)
            return "behind" if result.size_bytes else "equal"
        self._check_space(log.size_bytes - end.size_bytes)
        start = end.size_bytes
        while start < log.size_bytes:
            lines = self.remote.read_log(log.name, start, log.size_bytes)
            if not lines:
                break
            if start == 0 and not seems_sealed(lines[: lines.index(b"\n") + 1]):
                raise InvalidLog(path, "is a log of an older version, without checksums")
            if self.refuses_credentials:
                check_credentials(path, lines)
            new_end = receive_lines(path, start, lines)
            result.lines += lines.count(b"\n")
            result.size_bytes += len(lines)
            start = new_end.size_bytes
        return "equal"

    def _compare(self, log: ListedLog, path: Path, result: LogResult) -> LogRelation:
        """Compare a log that is on both sides, in one request or two."""
        end = read_log_end(path)
        last_sum = end.last_sum.decode("ascii", "replace")
        remote = self.remote.log_end(log.name, end.size_bytes)
        if (remote.size_bytes, remote.last_sum) == (end.size_bytes, last_sum):
            return "behind" if log.size_bytes > end.size_bytes else "equal"
        is_shorter = log.size_bytes <= end.size_bytes and remote.size_bytes < end.size_bytes
        if is_shorter and self._begins_with(path, remote):
            return "ahead"
        shipped = self.read_ship_state(log.name)
        if shipped.is_redacted and shipped.there_bytes:
            full_end = self.remote.log_end(log.name)
            if (full_end.size_bytes, full_end.last_sum) == (shipped.there_bytes, shipped.last_sum):
                return "redacted"
            copied = self.remote.log_end(log.name, shipped.there_bytes)
            if (copied.size_bytes, copied.last_sum) == (shipped.there_bytes, shipped.last_sum):
                result.reason = (
                    "it was continued there from its redacted copy; rename the session here, and "
                    "pull again to have both"
                )
                return "diverged"
        result.reason = _DIVERGED
        if _has_purged_lines(path):
            result.reason = "text was purged here: purge it there, too, with `harken store purge`"
        return "diverged"

    def _begins_with(self, path: Path, remote: LogEndBody) -> bool:
        """Whether the local log begins with that of the remote."""
        beginning = read_log_end(path, remote.size_bytes)
        return (beginning.size_bytes, beginning.last_sum.decode("ascii", "replace")) == (
            remote.size_bytes,
            remote.last_sum,
        )

    def _check_space(self, size_bytes: int) -> None:
        if size_bytes > _BATCH_BYTES:
            free = shutil.disk_usage(self.folder).free
            if free < size_bytes + _SPARE_BYTES:
                raise LogError(self.folder, f"has no room for {size_bytes} bytes")

    def _record(self, log: ListedLog, after: LogStat, path: Path, result: LogResult) -> None:
        """Give a pulled log its time, and record the state of both sides."""
        if result.size_bytes:
            now_ns = self.clock() * 1000
            modified_ns = max(0, min(log.modified_ns, now_ns))
            with suppress(OSError):
                os.utime(path, ns=(modified_ns, modified_ns))
                after = stat_log(path)
        self.mirror.write_log(log, after, result.relation)


def _has_purged_lines(path: Path) -> bool:
    """Whether text was purged from a log."""
    with open_log(path) as file:
        return any(_PURGE_EVENT in line for line in file)


def stat_log_or_none(path: Path) -> LogStat | None:
    """Return the status of a log, or None if it does not exist."""
    try:
        return stat_log(path)
    except OSError:
        return None


def _describe(error: Exception, path: Path) -> str:
    """Return the text of an error without the path of the log."""
    return str(error).removeprefix(f"{path}: ").partition("\n")[0]
