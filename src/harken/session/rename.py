"""Renaming of a log: its file is renamed, and its content is not changed.

The log is locked meanwhile, so that no writer continues under the old name. A compressed log
has no writer: its packs are renamed. An existing file is never replaced. On return the new name
survives a power cut.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path

from harken.errors import LogNotFound, LogWriteError
from harken.session.log.compressed import find_packs
from harken.session.log.disk import RealDisk
from harken.session.log.file import LogFile


def rename_log(path: Path, name: str) -> Path:
    """Rename a log, plain or compressed, to `NAME.jsonl` in its folder. Return the new path.

    Raises LogLocked while the log is being written, LogNotFound, LogWriteError.
    """
    target = path.with_name(f"{name}.jsonl")
    files = [*([path] if path.exists() else []), *find_packs(path)]
    if not files:
        raise LogNotFound(path)
    with ExitStack() as stack:
        try:
            if any(map(os.path.lexists, [target, *find_packs(target)])):
                raise LogWriteError(path, reason=f"renaming: {target.name} exists")
            if path.exists():
                stack.enter_context(closing(LogFile(path)))
            for file in files:
                file.rename(target.with_name(target.name + file.name.removeprefix(path.name)))
            RealDisk().sync_folder(path.parent)
        except OSError as error:
            raise LogWriteError(path, reason=f"renaming: {error.strerror or error}") from error
    return target
