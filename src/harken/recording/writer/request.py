"""`RequestSettings`: the parts of a model request besides its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.core.events import Evidence, RequestPart


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Model, parameters and tools of a request, and how it is known."""

    model: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] = ()
    wire: Mapping[str, Any] | None = None
    """The encoding of its body, for a request of a provider's protocol."""
    evidence: Evidence | None = None
    """None if it was recorded as it was made."""
    missing: Sequence[RequestPart] = ()
    """The parts that are unknown, sorted."""
