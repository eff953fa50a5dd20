"""Refuse a log with credentials in its lines or its name, which another program wrote and sealed.

Such lines cannot be redacted: a copy with other lines would not be known as a copy of its log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from harken.core.secrets.redaction import find_kind, redact
from harken.errors import CredentialInLog
from harken.session.log.reader import open_log


def check_credentials(log: Path, lines: bytes) -> None:
    """Raise CredentialInLog if lines of a log, or its name, contain a credential."""
    _check_name(log)
    _check_lines(log, lines.split(b"\n"))


def check_log_credentials(log: Path) -> None:
    """Raise CredentialInLog if a log, or its name, contains a credential.

    Raises LogNotFound, InvalidLog.
    """
    _check_name(log)
    with open_log(log) as file:
        _check_lines(log, file)


def _check_name(log: Path) -> None:
    if kind := find_kind(os.fsencode(log.name)):
        redacted = log.with_name(redact(log.name).text)
        raise CredentialInLog(redacted, kind=kind, is_in_name=True)


def _check_lines(log: Path, lines: Iterable[bytes]) -> None:
    for line in lines:
        if kind := find_kind(line):
            raise CredentialInLog(log, kind=kind)
