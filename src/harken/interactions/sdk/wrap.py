"""`wrap`: a client of a provider, as before, whose model calls are recorded.

    with recording(folder) as record:
        client = wrap(Anthropic(), record)

One idea: nothing of the client changes but the httpx client below it, which its vendor lets one
give. So each of its methods is covered, with what is on the wire: streams, raw responses, retries.

`recording`: model calls of this program become sessions in a folder, and commits in a store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from harken.interactions.sdk.background import BackgroundRecorder, CallSink
from harken.interactions.sdk.http_client import is_http_client, is_recorded, recorded
from harken.recording.exchange import ClientHints
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
) -> Iterator[BackgroundRecorder]:
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
    hints = ClientHints(session=session, client=_PROGRAM) if session else ClientHints()
    with (
        Recorder(where, store, tell=tell) as recorder,
        BackgroundRecorder(recorder, hints=hints) as background,
    ):
        yield background


Client = TypeVar("Client")


def wrap_client(client: Client, into: BackgroundRecorder | CallSink) -> Client:
    """Return a client like this one, whose calls are recorded; this one itself goes on as before.

    client: of `openai` or `anthropic`, sync or async, with any of its options; or a client of
    httpx, which other libraries take. Closing one of the two closes both.
    into: as `recording` gives it; whoever hands in another ear has it told in a thread.
    Raises TypeError for other clients.
    """
    background = into if isinstance(into, BackgroundRecorder) else BackgroundRecorder(into)
    if is_http_client(client):
        return (
            client
            if is_recorded(client, background)
            else cast(Client, recorded(client, background))
        )
    inner: Any = getattr(client, "_client", None)  # there is no public name for it
    copy = getattr(client, "with_options", None)
    if not callable(copy) or not is_http_client(inner):
        raise TypeError(
            f"{type(client).__name__} cannot be wrapped: give one of openai, anthropic or httpx"
        )
    if is_recorded(inner, background):
        return client
    return cast(Client, copy(http_client=recorded(inner, background)))
