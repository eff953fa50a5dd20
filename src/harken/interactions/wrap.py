"""`wrap`: a client of a provider, as before, whose model calls are recorded.

    with recording(folder) as record:
        client = wrap(Anthropic(), record)

One idea: nothing of the client changes but the httpx client below it, which its vendor lets one
give. So each of its methods is covered, with what is on the wire: streams, raw responses, retries.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from harken.interactions.background import Background, Ear
from harken.interactions.http_client import is_http_client, is_recorded, recorded

Client = TypeVar("Client")


def wrap(client: Client, into: Background | Ear) -> Client:
    """Return a client like this one, whose calls are recorded; this one itself goes on as before.

    client: of `openai` or `anthropic`, sync or async, with any of its options; or a client of
    httpx, which other libraries take. Closing one of the two closes both.
    into: as `recording` gives it; whoever hands in another ear has it told in a thread.
    Raises TypeError for other clients.
    """
    background = into if isinstance(into, Background) else Background(into)
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
