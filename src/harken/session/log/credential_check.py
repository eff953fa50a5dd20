"""Refuse lines of a log with credentials, which another program wrote and sealed.

Such lines cannot be redacted: a copy with other lines would not be known as a copy of its log.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harken.core.secrets.redaction import find_kind
from harken.errors import CredentialInLog
from harken.session.log.reader import open_log


def check_credentials(log: Path, lines: bytes) -> None:
    """Raise CredentialInLog if lines of a log contain a credential."""
    _check_lines(log, lines.split(b"\n"))


def check_log_credentials(log: Path) -> None:
    """Raise CredentialInLog if a log contains a credential. Raises LogNotFound, InvalidLog."""
    with open_log(log) as file:
        _check_lines(log, file)


def _check_lines(log: Path, lines: Iterable[bytes]) -> None:
    for line in lines:
        if kind := find_kind(line):
            raise CredentialInLog(log, kind=kind)
