"""`recording`: model calls of this program become sessions in a folder, and commits in a store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from harken.interactions.background import Background
from harken.recording.exchange import Hints
from harken.recording.recorder import Recorder
from harken.store.base import Store

_PROGRAM = "python"
"""What the client of a run is called that its program gave a name."""
_logger = logging.getLogger("harken.interactions")


@contextmanager
def recording(
    folder: str | PathLike[str],
    store: Store | None = None,
    *,
    session: str = "",
    tell: Callable[[str], None] = _logger.warning,
) -> Iterator[Background]:
    """Record what wrapped clients ask in the block; at its end all is on disk.

    folder: of session logs, one file each; it is made where it is not there. store: where commits
    go; it stays open.
    session: the name of a run, to which all calls then belong, also those of a later block; empty:
    what belongs together is found by what is asked.
    tell: is told, on one line, what a person should know.
    """
    where = Path(folder)
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    # of whatever make the clients are: it is one run
    hints = Hints(session=session, client=_PROGRAM) if session else Hints()
    with (
        Recorder(where, store, tell=tell) as recorder,
        Background(recorder, hints=hints) as background,
    ):
        yield background
