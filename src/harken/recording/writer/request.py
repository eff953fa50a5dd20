"""`RequestSettings`: the parts of a model request besides its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.core.events import Evidence, RequestPart


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """Model, parameters and tools of a request, and how it is known."""

    model: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] = ()
    wire: Mapping[str, Any] | None = None
    """The encoding of its body, for a request of a provider's protocol."""
    evidence: Evidence | None = None
    """None if it was recorded as it was made."""
    missing: Sequence[RequestPart] = ()
    """The parts that are unknown, sorted."""
