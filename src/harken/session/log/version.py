"""Refusal of logs that only a development version of Harken wrote.

Such a log has checksums and states a schema version before the first one that was released. It is
recognized by its first line if that line verifies; damage is left to the readers. Logs of older
dialects have no checksums, and are not concerned.

Source: docs/formats/session-log.md, "Versions".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from harken.errors import LogVersionUnsupported

UNRELEASED_VERSION = 1
"""The schema version that no release wrote."""
MAX_FIRST_LINE_BYTES = 1 << 20
"""A `session_started` line is far shorter, so a longer first line is none."""
_UNRELEASED_PATTERN = re.compile(rb'"schema_version":%d(?![0-9])' % UNRELEASED_VERSION)


def check_release(file: BinaryIO, path: Path) -> None:
    """Raise LogVersionUnsupported if an open log is of an unreleased version. Seek to its start."""
    check_first_line(file.readline(MAX_FIRST_LINE_BYTES), path)
    file.seek(0)


def check_first_line(line: bytes, path: Path) -> None:
    """Raise LogVersionUnsupported if the first line of a log states an unreleased version.

    Completion of names opens many logs, so what decodes events is imported for such a line only.
    """
    if not _UNRELEASED_PATTERN.search(line):
        return
    from harken.core.canonical import from_json  # noqa: PLC0415
    from harken.core.events import SCHEMA_VERSION  # noqa: PLC0415
    from harken.session.log.checksum import is_valid_line  # noqa: PLC0415

    if not is_valid_line(b"", line):
        return
    try:
        data = from_json(line)
    except ValueError:
        return
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version == UNRELEASED_VERSION:
        raise LogVersionUnsupported(path, found=version, known=SCHEMA_VERSION)
