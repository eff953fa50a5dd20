"""The file with the tracebacks of hooks that failed in a chat.

A chat prints that a hook failed; a traceback would overwrite its screen. So it is appended to a
file of the home, and one line says where.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Self

from harken.session.session import Session
from harken.terminal.text import one_line

FILE_NAME = "hook-errors.log"
MAX_FILE_BYTES = 1 << 20
"""The size at which the file is renamed to `hook-errors.log.1` and a new one begins."""
LOGGER = logging.getLogger("harken.agents.hooks")
LOGGER.addHandler(logging.NullHandler())  # else Python prints records that no chat handles


class HookErrorLog(RotatingFileHandler):
    """A handler that writes the tracebacks of one session, and reports each hook once."""

    def __init__(self, folder: Path, session: Session, notify: Callable[[str], None]) -> None:
        """Prepare the file in a folder; it is created at the first error."""
        super().__init__(
            folder / FILE_NAME,
            maxBytes=MAX_FILE_BYTES,
            backupCount=1,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        self.setFormatter(logging.Formatter("%(asctime)s %(session)s: %(message)s"))
        self._session, self._notify = str(session.path), notify
        self._redact = session.options.redact
        self._reported: set[str] = set()
        self._write_error = ""

    def start(self) -> Self:
        """Write the errors of hooks from now on."""
        LOGGER.addHandler(self)
        return self

    def close(self) -> None:
        """Stop, and close the file. A second call does nothing."""
        LOGGER.removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of this session, and report where it can be read."""
        if getattr(record, "session", None) != self._session:
            return
        self._write_error = ""
        super().emit(record)
        name = str(getattr(record, "hook", ""))
        if name in self._reported:
            return
        self._reported.add(name)
        outcome = f"is in {self.baseFilename}"
        if self._write_error:
            outcome = f"cannot be written to {self.baseFilename}: {self._write_error}"
        self._notify(f"the traceback of hook {one_line(name, 60)} {outcome}")

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, without credentials if the session stores none."""
        text = super().format(record)
        return text if self._redact is None else self._redact.replace(text)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of `logging`
        """Keep the reason why a record cannot be written. Nothing is printed."""
        error = sys.exception()
        self._write_error = str(getattr(error, "strerror", None) or error)

    def _open(self) -> TextIOWrapper:
        """Open the file. Only its owner can read it: tracebacks may contain secrets."""
        return open(
            self.baseFilename,
            "a",
            encoding=self.encoding,
            errors=self.errors,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )
