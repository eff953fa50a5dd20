"""`Format`: how some runtime writes its conversations down.

One idea: a format is read into entries and, where it can be, written from entries. So there is one
function for each format and direction, and none for each pair of formats: entries are the hub.
A new format is one file and one entry in a registry (`harken.formats.registry`).

Source: docs/how-to/add-a-format.md. `harken.testing.FormatSuite` tests a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harken.core.arguments import check_arguments
from harken.core.messages import Message


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """An entry of a delta, with the message itself in place of its name."""

    message: Message
    time: str | None = None
    """UTC, RFC 3339, where it is known."""
    source: dict[str, Any] | None = None
    """Native ids, usage and the like, as the runtime that it came from has them."""


Reader: TypeAlias = Callable[[bytes], list[ConversationEntry]]
"""Reads a conversation, oldest first. Raises FormatError for bytes that are not of the format,
whatever they are, and nothing else."""
Writer: TypeAlias = Callable[[Sequence[ConversationEntry]], bytes | None]
"""Writes a conversation, the same bytes each time; None: this one cannot be said in the format."""
Joiner: TypeAlias = Callable[[Iterable[bytes]], bytes]
"""Makes one of the deltas of a chain, oldest first. Raises FormatError."""
Upgrade: TypeAlias = Callable[[bytes], bytes]
"""Maps the fields of an older version. Raises FormatError."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: its name, and what can be done with it."""

    name: str
    """With the version, such as `events-v1`: the `format` of commits. What is written under a name
    stays readable under it; a change is a new version with a new name."""
    media_type: str = "application/octet-stream"
    reads: Reader | None = None
    """None: it is not read, as what is written for people is not."""
    writes: Writer | None = None
    """None: it is not written; a narrative takes its place."""
    joins: Joiner | None = None
    """None: deltas are not joined as bytes, but read and written anew."""
    older: Mapping[str, Upgrade] = field(default_factory=dict)
    """Names of older versions whose bytes it maps: only of these, the ones named here."""
    revision: int = 1
    """Counted up when the same entries give other bytes: what was written before is made anew. Of
    a format of Harken, the registry says it, too."""
    is_exact: bool = False
    """Whether what was written is read as it was: every message, its time and its source."""
