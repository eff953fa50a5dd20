"""The `Format` of a conversation file: its reader and its writer.

A format is read into entries and, if it can be, written from entries. There is one function for
each format and direction, not for each pair of formats: entries are the hub. A new format is one
file and one line in a registry (`harken.formats.registry`).

Source: docs/how-to/add-a-format.md. `harken.testing.FormatSuite` tests a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from harken.core.arguments import check_arguments
from harken.core.messages import Message


class ConversationEntry(msgspec.Struct, frozen=True):
    """A delta entry with the message itself in place of its object name."""

    message: Message
    time: str | None = None
    """UTC, RFC 3339. None if it is unknown."""
    source: dict[str, Any] | None = None
    """Native ids, usage and similar data of the runtime that the entry comes from."""


Reader: TypeAlias = Callable[[bytes], list[ConversationEntry]]
"""Parses a conversation, oldest entry first. Raises FormatError, and nothing else, for bytes that
are not of the format.
"""
Writer: TypeAlias = Callable[[Sequence[ConversationEntry]], bytes | None]
"""Serializes a conversation deterministically. Returns None if the format cannot represent it."""
Joiner: TypeAlias = Callable[[Iterable[bytes]], bytes]
"""Joins the deltas of a chain, oldest first, into one delta. Raises FormatError."""
Upgrade: TypeAlias = Callable[[bytes], bytes]
"""Converts the bytes of an older version. Raises FormatError."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A conversation format: its name and the operations that it supports."""

    name: str
    """The name with its version, such as `events-v1`: the `format` of commits. Bytes written under
    a name stay readable under it; a change is a new version with a new name.
    """
    media_type: str = "application/octet-stream"
    reads: Reader | None = None
    """None if the format is not read, as with text that is written for people."""
    writes: Writer | None = None
    """None if the format is not written; a narrative is used instead."""
    joins: Joiner | None = None
    """None if deltas are not joined as bytes but parsed and serialized again."""
    upgrades: Mapping[str, Upgrade] = field(default_factory=dict)
    """Upgrades by the names of older versions. Only the versions listed are accepted."""
    revision: int = 1
    """Incremented when the same entries give other bytes, so that cached renderings are rebuilt.
    For a format of Harken, the registry repeats this number.
    """
    is_exact: bool = False
    """Whether a written conversation is read back unchanged: every message, its time and its
    source.
    """
