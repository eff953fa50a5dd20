"""`CapturedRequest` and `CapturedResponse`: a model call of another program, as it was captured.

Source: docs/design/006-what-the-model-saw.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.core.arguments import check_arguments

CUT = "the provider cut the connection"
HUNG_UP = "the client hung up"
ENDED = "the proxy was ended"
LATE = frozenset({CUT, HUNG_UP, ENDED})
"""What takes nothing from an answer that had come to its end before, by its own words."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHints:
    """What the client says of itself beside the request; all of it may be missing or false."""

    client: str = ""
    """Such as `claude-code`, `codex`, `openai-sdk`."""
    session: str = ""
    """The client's name for the run: all its calls belong to one session."""
    agent: str = ""
    """The client's name for the conversation, where a run has several."""
    parent: str = ""
    """The client's name for the conversation that began this one."""
    name: str = ""
    """What a person would call the agent, such as `Explore`."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """A request, at the moment at which it was made."""

    id: str
    """The same in its `CapturedResponse`; never used twice."""
    protocol: str
    """The name of a `harken.formats.wire` protocol."""
    path: str
    """With its query, without credentials: `/v1/messages?beta=true`."""
    body: bytes
    """As it was sent, decompressed."""
    time: str
    """UTC, RFC 3339, microseconds."""
    hints: ClientHints = ClientHints()


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """How a call ended."""

    id: str
    status: int
    """HTTP; 0: there was no answer."""
    content_type: str = ""
    body: bytes = b""
    """As far as it came, decompressed; of a stream, its events as they were."""
    time: str
    """When it ended. UTC, RFC 3339, microseconds."""
    latency_s: float | None = None
    first_byte_s: float | None = None
    broken: str = ""
    """Why it is not whole, on one line, such as `CUT`, `HUNG_UP`, `ENDED`; empty: it is."""
