"""`CapturedRequest` and `CapturedResponse`: a model call of another program, as it was captured.

Source: docs/design/006-what-the-model-saw.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.core.arguments import check_arguments
from harken.core.events import Evidence, RequestPart

PROVIDER_DISCONNECTED = "the provider cut the connection"
CLIENT_DISCONNECTED = "the client hung up"
PROXY_STOPPED = "the proxy was ended"
HARMLESS_INTERRUPTIONS = frozenset({PROVIDER_DISCONNECTED, CLIENT_DISCONNECTED, PROXY_STOPPED})
"""Reasons that do not invalidate a response whose body was already complete."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHints:
    """Statements of a client about itself in a request. Any field may be missing or false."""

    client: str = ""
    """For example `claude-code`, `codex`, `openai-sdk`."""
    session: str = ""
    """The client's name for the run. All its calls belong to one session."""
    agent: str = ""
    """The client's name for the conversation, if a run has several."""
    parent: str = ""
    """The client's name for the conversation that started this one."""
    name: str = ""
    """A display name of the agent, such as `Explore`."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """A request as the client sent it."""

    id: str
    """The same as in its `CapturedResponse`. Never reused."""
    protocol: str
    """The name of a `harken.formats.wire` protocol."""
    path: str
    """With its query, without credentials: `/v1/messages?beta=true`."""
    body: bytes
    """The body, decompressed."""
    time: str
    """UTC, RFC 3339, microseconds."""
    hints: ClientHints = ClientHints()
    evidence: Evidence | None = None
    """None if this is the request as it was made."""
    missing: tuple[RequestPart, ...] = ()
    """The parts of the request that are not in the body although it may have had them, sorted."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """The response to a call, or the way it failed."""

    id: str
    status: int
    """The HTTP status. 0 if there was no response."""
    content_type: str = ""
    body: bytes = b""
    """The bytes received, decompressed. Of a stream, its raw events."""
    time: str
    """When the call ended. UTC, RFC 3339, microseconds."""
    latency_s: float | None = None
    first_byte_s: float | None = None
    broken: str = ""
    """Why the response is incomplete, on one line, such as `CUT`, `HUNG_UP`, `ENDED`.

    Empty if it is complete.
    """
