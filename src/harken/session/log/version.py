"""Refusal of logs that only a development version of Harken wrote.

Such a log has checksums and states a schema version before the first one that was released. It is
recognized by its first line if that line verifies; damage is left to the readers. Logs of older
dialects have no checksums, and are not concerned.

Source: docs/formats/session-log.md, "Versions".
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from harken.core.canonical import from_json
from harken.core.events import SCHEMA_VERSION
from harken.errors import LogVersionUnsupported
from harken.session.log.checksum import is_valid_line

FIRST_RELEASED_VERSION = 2
"""Logs of this schema version and of later ones are read."""
MAX_FIRST_LINE_BYTES = 1 << 20
"""A `session_started` line is far shorter, so a longer first line is none."""


def check_release(file: BinaryIO, path: Path) -> None:
    """Raise LogVersionUnsupported if an open log is of an unreleased version. Seek to its start."""
    check_first_line(file.readline(MAX_FIRST_LINE_BYTES), path)
    file.seek(0)


def check_first_line(line: bytes, path: Path) -> None:
    """Raise LogVersionUnsupported if the first line of a log states an unreleased version."""
    if b'"schema_version":' not in line or not is_valid_line(b"", line):
        return
    try:
        data = from_json(line)
    except ValueError:
        return
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, int) and 0 < version < FIRST_RELEASED_VERSION:
        raise LogVersionUnsupported(path, found=version, known=SCHEMA_VERSION)
