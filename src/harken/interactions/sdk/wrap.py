"""`wrap_client`: return a provider's client that records its model calls.

    with recording(folder) as record:
        client = wrap(Anthropic(), record)

Only the httpx client below the provider's client is replaced, which vendors support. So all methods
are recorded as on the wire: streams, raw responses and retries.

`recording` writes the recorded calls to session logs in a folder, and commits to a store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from harken.context.checkpoint import CommitIdentity
from harken.core.secrets.redaction import Credentials
from harken.interactions.sdk.background import BackgroundRecorder, RecordingSink
from harken.interactions.sdk.http_client import is_http_client, is_recorded, record_http_client
from harken.recording.exchange import ClientHints
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.store.base import Store

_PROGRAM = "python"
"""Client name of a session that the program named."""
_logger = logging.getLogger("harken.interactions")


@contextmanager
def recording(
    folder: str | PathLike[str],
    store: Store | None = None,
    *,
    session: str = "",
    tell: Callable[[str], None] = _logger.warning,
    identity: CommitIdentity | None = None,
    redact: Credentials | None = None,
) -> Iterator[BackgroundRecorder]:
    """Record the calls of wrapped clients in the block. All data is on disk at its end.

    `folder` has the session logs and is created if it does not exist. `store` receives commits, and
    stays open.
    `session` is the name of a session to which all calls belong, also those of a later block; if
    empty, calls are grouped by their context.
    `tell` is called with one-line warnings for the user. `identity` gives the principal, template,
    ticket and thread of commits. `redact` removes credentials before anything is stored, and counts
    them.
    """
    path = Path(folder)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One run may use clients of several providers.
    hints = ClientHints(session=session, client=_PROGRAM) if session else ClientHints()
    options = RecorderOptions(identity=identity or CommitIdentity(), redact=redact)
    with (
        Recorder(path, store, tell=tell, options=options) as recorder,
        BackgroundRecorder(recorder, hints=hints) as background,
    ):
        yield background


Client = TypeVar("Client")


def wrap_client(client: Client, into: BackgroundRecorder | RecordingSink) -> Client:
    """Return a client like this one that records its calls. The original is not changed.

    `client` is a synchronous or asynchronous client of `openai` or `anthropic` with any options, or
    an httpx client. Closing either client closes both.
    `into` is the value of `recording`, or a sink that is called in a background thread.
    Raises TypeError for other clients.
    """
    background = into if isinstance(into, BackgroundRecorder) else BackgroundRecorder(into)
    if is_http_client(client):
        return (
            client
            if is_recorded(client, background)
            else cast(Client, record_http_client(client, background))
        )
    inner: Any = getattr(client, "_client", None)  # There is no public attribute for it.
    with_options = getattr(client, "with_options", None)
    if not callable(with_options) or not is_http_client(inner):
        raise TypeError(
            f"{type(client).__name__} cannot be wrapped: give one of openai, anthropic or httpx"
        )
    if is_recorded(inner, background):
        return client
    return cast(Client, with_options(http_client=record_http_client(inner, background)))
