"""`render`: convert a conversation to a requested format, whatever formats it is stored in.

There are four tiers. They are tried in this order, and the first that applies is used and reported:

1. *native*: all commits have that format; their deltas are joined;
2. *field-level*: some have an older version of it, whose fields are mapped;
3. *rendering*: everything is parsed to entries and written from them: as a conversation if the
   format has a writer, else as a narrative;
4. *raw*: something is in a format without a reader: its bytes, and its metadata.

Commits are unchanged. The result for a commit, a stop and a revision of a format never changes, so
it is derived once and reused by any process; except for the fourth tier, which another package may
improve.

Source: docs/how-to/export-a-session.md, "In another format".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from harken.context.commit_content import (
    CommitContent,
    entries_or_note,
    read_content,
    read_contents,
)
from harken.context.materialize import Stop, select_commits
from harken.core import canonical, structs
from harken.core.arguments import check_arguments
from harken.core.commits import SHORT_NAME_DIGITS, ArtifactRef, CommitId, hash_raw
from harken.errors import FormatError, NameNotFound, ObjectNotFound, StoreLocked, StoreWriteError
from harken.formats.base import ConversationEntry, Format
from harken.formats.narrative import NAME as NARRATIVE
from harken.formats.narrative import format_code, format_narrative
from harken.formats.registry import FORMATS, FormatRegistry
from harken.store.base import Store, WriteBatch

Tier: TypeAlias = Literal[1, 2, 3, 4]
TIERS: dict[Tier, str] = {
    1: "native",
    2: "fields of an older version mapped",
    3: "rendered",
    4: "raw",
}
RAW_FORMAT = "raw-v1"
"""The format of the fourth tier: Markdown that shows bytes."""
_MIN_FILE_BYTES, _CHUNK_BYTES = 4 << 20, 1 << 20
"""Larger results are stored in chunks of the second size."""
_UNREADABLE_TEXT = (
    "Some of it stands in a format that is not known here. These are its artifacts, oldest first; "
    "below, what can be read is told, and bytes are shown as they are."
)


@dataclass(frozen=True, slots=True)
class RenderedConversation:
    """A conversation in some format."""

    ref: ArtifactRef
    """The raw artifact with its bytes."""
    tier: Tier
    format: str
    """The format of the bytes: the requested one, else a narrative, or raw."""
    message_count: int
    """The sum of the commits' counts, as is the token count."""
    token_count: int
    read: Callable[[], bytes] = field(repr=False, compare=False)
    """Returns the bytes. Raises ObjectNotFound if they were removed meanwhile."""


@check_arguments
def render(
    store: Store,
    ctx: CommitId | None,
    format: str,
    stop: Stop = "compaction",
    *,
    formats: FormatRegistry = FORMATS,
) -> RenderedConversation:
    """Return the conversation of a commit in a format. A commit of None has an empty conversation.

    Raises NameNotFound for a format that is neither registered nor that of a commit, and for
    commits as `materialize`; ConfigError for a format whose package is broken; ObjectNotFound,
    ObjectCorrupted. A failure to store the result is ignored.
    """
    revision = formats.get_revision(format)
    key = f"{format}{f'.{revision}' if revision > 1 else ''}:{ctx}:{stop}"
    cached = _find_derived(store, key)
    if cached is not None:
        return cached
    commits = [] if ctx is None else select_commits(store, ctx, stop)
    contents = read_contents(store, commits)
    target = formats.get(format)
    if target is None and all(content.format != format for content in contents):
        raise NameNotFound("format", format, formats.list_names())
    tier, data = _render(contents, format, target, formats)
    if data is None:
        return render(store, ctx, NARRATIVE, stop, formats=formats)
    record = _RenderRecord(
        tier=tier,
        format=RAW_FORMAT if tier == 4 else format,
        message_count=sum(stored.commit.message_count for stored in commits),
        token_count=sum(stored.commit.token_count for stored in commits),
    )
    _write_derived(store, key, record, data)
    return record.rendered(hash_raw(data), lambda: data)


def _render(
    contents: Sequence[CommitContent], name: str, target: Format | None, formats: FormatRegistry
) -> tuple[Tier, bytes | None]:
    """Return the first tier that applies, and its bytes, or None if the format has no writer."""
    tier, data = _join_contents(contents, name, target)
    if data is not None:
        return tier, data
    entries = _read_entries(contents, formats)
    if entries is None:
        return 4, _render_raw(contents, name, formats)
    return 3, target.writes(entries) if target and target.writes else None


def _join_contents(
    contents: Sequence[CommitContent], name: str, target: Format | None
) -> tuple[Tier, bytes | None]:
    """Join contents of one format, or of older versions of it. Return None if they are others."""
    names = {content.format for content in contents}
    tier: Tier = 1 if names <= {name} else 2
    if not names <= {name, *(target.upgrades if target else ())}:
        return tier, None
    writes = target.writes if target else None
    if writes is not None and all(content.entries is not None for content in contents):
        return tier, writes([entry for content in contents for entry in content.entries or ()])
    try:
        pieces = [_convert_content(content, name, target) for content in contents]
        available = [piece for piece in pieces if piece is not None]
        if len(available) == len(pieces) == 1:
            return tier, available[0]
        joins = target.joins if target and len(available) == len(pieces) else None
        return tier, joins(available) if joins else None
    except FormatError:
        return tier, None


def _convert_content(content: CommitContent, name: str, target: Format | None) -> bytes | None:
    """Return the bytes of one content in the target format. Raises FormatError."""
    if content.entries is not None:
        return target.writes(content.entries) if target and target.writes else None
    if target is None or content.format == name:
        return content.data
    return target.upgrades[content.format](content.data)


def _read_entries(
    contents: Sequence[CommitContent], formats: FormatRegistry
) -> list[ConversationEntry] | None:
    """Return the entries of all contents, or None if some cannot be read."""
    try:
        return [entry for content in contents for entry in read_content(content, formats)]
    except (FormatError, NameNotFound):
        return None


def _render_raw(
    contents: Sequence[CommitContent], format_name: str, formats: FormatRegistry
) -> bytes:
    """Return a list of contents that cannot all be read, and their readable entries and bytes."""
    lines = [
        f"# A conversation that cannot be written as {format_code(format_name)}",
        "",
        _UNREADABLE_TEXT,
        "",
    ]
    for content in contents:
        stored, description = (
            content.stored,
            f"{len(content.data)} bytes of {format_code(content.format)}",
        )
        if content.entries is not None:
            description = f"{len(content.entries)} entries"
        names = f"{stored.commit.artifact} of {stored.id[: len('ctx-') + SHORT_NAME_DIGITS]}"
        lines.append(f"- {names}: {description}: {format_code(stored.notes.summary)}")
    entries = [entry for content in contents for entry in entries_or_note(content, formats)]
    return "\n".join([*lines, "", format_narrative(entries)]).encode()


class _RenderRecord(msgspec.Struct, frozen=True):
    """The record that is stored with the bytes."""

    tier: Tier
    format: str
    message_count: int
    token_count: int

    def rendered(self, ref: ArtifactRef, read: Callable[[], bytes]) -> RenderedConversation:
        return RenderedConversation(**msgspec.structs.asdict(self), ref=ref, read=read)


def _find_derived(store: Store, key: str) -> RenderedConversation | None:
    """Return a stored result of another call, or None."""
    refs = store.find_derived(_derived_keys(key))
    if len(refs) < 2:
        return None
    data_ref, record_ref = (refs[key_] for key_ in _derived_keys(key))
    try:
        record = msgspec.json.decode(store.raw(record_ref), type=_RenderRecord)
    except (ValueError, ObjectNotFound):
        return None
    return record.rendered(data_ref, partial(store.raw, data_ref))


def _write_derived(store: Store, key: str, record: _RenderRecord, data: bytes) -> None:
    ref, encoded = hash_raw(data), canonical.to_canonical_bytes(record)
    batch = (
        _build_file_batch(ref, data) if len(data) > _MIN_FILE_BYTES else WriteBatch(raw={ref: data})
    )
    if record.tier != 4:
        record_ref = hash_raw(encoded)
        derived = dict(zip(_derived_keys(key), (ref, record_ref), strict=True))
        batch = structs.replace(batch, raw={**batch.raw, record_ref: encoded}, derived=derived)
    with suppress(StoreWriteError, StoreLocked):
        store.write(batch)


def _build_file_batch(ref: ArtifactRef, data: bytes) -> WriteBatch:
    """Split bytes into chunks, so that longer conversations share their beginning."""
    pieces = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
    refs = [hash_raw(piece) for piece in pieces]
    return WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={ref: refs})


def _derived_keys(key: str) -> tuple[str, str]:
    return f"rendered:{key}", f"rendering:{key}"
