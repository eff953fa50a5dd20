"""`new_log`: the empty file in which a session begins, under a name that is nobody else's."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from harken.errors import LogWriteError
from harken.session.packed import is_packed


def new_log(folder: Path, stem: str) -> Path:
    """Make `STEM.jsonl`, or where that is taken `STEM-2.jsonl`, and so on; packed logs take theirs.

    Two processes never get the same one. Raises LogWriteError.
    """
    names = (stem if n == 1 else f"{stem}-{n}" for n in count(1))
    while True:
        path = folder / f"{next(names)}.jsonl"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise LogWriteError(path, reason=error.strerror or str(error)) from None
        if not is_packed(path):
            return path
        path.unlink()
