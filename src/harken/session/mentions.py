"""Names of commits and artifacts that a log mentions, wherever: what is named is not collected.

One idea: the bytes are searched, not the events. So a damaged log, an older one, and a name in a
tool's output count like any other; it is better to keep too much.
"""

from __future__ import annotations

import re
from pathlib import Path

from harken.session.reader import open_log

_NAME = re.compile(rb"(?:ctx|art)-[0-9a-f]{64}(?![0-9a-f])")


def mentions(path: Path) -> set[str]:
    """Return the full names in a log. Raises LogNotFound, NotALog."""
    with open_log(path) as file:
        return {name.decode() for line in file for name in _NAME.findall(line)}
