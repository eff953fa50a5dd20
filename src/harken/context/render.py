"""`render`: a conversation in the format that somebody wants, whatever it is stored in.

One idea: there are four ways, tried in this order, and the first that fits is taken and said:

1. *native*: all commits have that format; their deltas are joined;
2. *field-level*: some have an older version of it, whose fields are mapped;
3. *rendering*: everything is read into entries and written from them: a real conversation where
   the format is written, else a narrative;
4. *raw*: something is in a format that nobody here reads: its bytes, and what is known of them.

Commits stay as they are. What a commit, a stop and a revision of a format give never changes, so it
is derived once and found again by any process; but for the fourth way, which another package may
better.

Source: docs/how-to/add-a-format.md, "How a conversation is translated".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from harken.context.commit_content import CommitContent, contents_of, entries_or_note, read_content
from harken.context.materialize import Stop, select_commits
from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.core.commits import SHOWN, ArtifactRef, CommitId, hash_raw
from harken.errors import FormatError, NameNotFound, ObjectNotFound, StoreLocked, StoreWriteError
from harken.formats.base import ConversationEntry, Format
from harken.formats.narrative import NAME as NARRATIVE
from harken.formats.narrative import code, narrative
from harken.formats.registry import FORMATS, FormatRegistry
from harken.store.base import Store, WriteBatch

Tier: TypeAlias = Literal[1, 2, 3, 4]
TIERS: dict[Tier, str] = {
    1: "native",
    2: "fields of an older version mapped",
    3: "rendered",
    4: "raw",
}
RAW = "raw-v1"
"""The format of what the fourth way gives: Markdown that shows bytes."""
_LARGE, _PIECE = 4 << 20, 1 << 20
"""What has more bytes is kept in pieces of so many."""
_UNREAD = (
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
    """What the bytes are: the format that was asked for, else a narrative, or raw."""
    message_count: int
    """As the commits say; so are tokens."""
    token_count: int
    read: Callable[[], bytes] = field(repr=False, compare=False)
    """Returns the bytes. Raises ObjectNotFound where they were taken away meanwhile."""


@check_arguments
def render(
    store: Store,
    ctx: CommitId | None,
    format: str,
    stop: Stop = "compaction",
    *,
    formats: FormatRegistry = FORMATS,
) -> RenderedConversation:
    """Return the conversation of a commit in a format; None: the empty one.

    Raises NameNotFound for a format that is neither known here nor that of a commit, and for
    commits as `materialize`; ConfigError for a format whose package is broken; ObjectNotFound,
    ObjectCorrupted. A store that refuses to keep the result does no harm.
    """
    revision = formats.revision(format)
    key = f"{format}{f'.{revision}' if revision > 1 else ''}:{ctx}:{stop}"
    found = _derived(store, key)
    if found is not None:
        return found
    commits = [] if ctx is None else select_commits(store, ctx, stop)
    contents = contents_of(store, commits)
    target = formats.get(format)
    if target is None and all(content.format != format for content in contents):
        raise NameNotFound("format", format, formats.names())
    tier, data = _made(contents, format, target, formats)
    if data is None:
        return render(store, ctx, NARRATIVE, stop, formats=formats)
    known = _Known(
        tier=tier,
        format=RAW if tier == 4 else format,
        message_count=sum(one.commit.message_count for one in commits),
        token_count=sum(one.commit.token_count for one in commits),
    )
    _keep(store, key, known, data)
    return known.rendered(hash_raw(data), lambda: data)


def _made(
    contents: Sequence[CommitContent], name: str, target: Format | None, formats: FormatRegistry
) -> tuple[Tier, bytes | None]:
    """Return the first way that fits, and what it gives; None: the format is not written."""
    tier, data = _joined(contents, name, target)
    if data is not None:
        return tier, data
    entries = _entries(contents, formats)
    if entries is None:
        return 4, _raw(contents, name, formats)
    return 3, target.writes(entries) if target and target.writes else None


def _joined(
    contents: Sequence[CommitContent], name: str, target: Format | None
) -> tuple[Tier, bytes | None]:
    """Return contents of one format, or of older versions of it, as one; None: they are not."""
    names = {content.format for content in contents}
    tier: Tier = 1 if names <= {name} else 2
    if not names <= {name, *(target.older if target else ())}:
        return tier, None
    writes = target.writes if target else None
    if writes is not None and all(content.entries is not None for content in contents):
        return tier, writes([entry for content in contents for entry in content.entries or ()])
    try:
        pieces = [_piece(content, name, target) for content in contents]
        found = [piece for piece in pieces if piece is not None]
        if len(found) == len(pieces) == 1:
            return tier, found[0]
        joins = target.joins if target and len(found) == len(pieces) else None
        return tier, joins(found) if joins else None
    except FormatError:
        return tier, None


def _piece(content: CommitContent, name: str, target: Format | None) -> bytes | None:
    """Return the bytes of one content in the target's form. Raises FormatError."""
    if content.entries is not None:
        return target.writes(content.entries) if target and target.writes else None
    if target is None or content.format == name:
        return content.data
    return target.older[content.format](content.data)


def _entries(
    contents: Sequence[CommitContent], formats: FormatRegistry
) -> list[ConversationEntry] | None:
    """Return the entries of all contents; None: not all can be read."""
    try:
        return [entry for content in contents for entry in read_content(content, formats)]
    except (FormatError, NameNotFound):
        return None


def _raw(contents: Sequence[CommitContent], wanted: str, formats: FormatRegistry) -> bytes:
    """Return what is known of contents that cannot all be read: a list, and what they show."""
    lines = [
        f"# A conversation that cannot be written as {code(wanted)}",
        "",
        _UNREAD,
        "",
    ]
    for content in contents:
        stored, held = content.stored, f"{len(content.data)} bytes of {code(content.format)}"
        if content.entries is not None:
            held = f"{len(content.entries)} entries"
        names = f"{stored.commit.artifact} of {stored.id[: len('ctx-') + SHOWN]}"
        lines.append(f"- {names}: {held}: {code(stored.notes.summary)}")
    entries = [entry for content in contents for entry in entries_or_note(content, formats)]
    return "\n".join([*lines, "", narrative(entries)]).encode()


class _Known(msgspec.Struct, frozen=True):
    """What is kept beside the bytes."""

    tier: Tier
    format: str
    message_count: int
    token_count: int

    def rendered(self, ref: ArtifactRef, read: Callable[[], bytes]) -> RenderedConversation:
        return RenderedConversation(**msgspec.structs.asdict(self), ref=ref, read=read)


def _derived(store: Store, key: str) -> RenderedConversation | None:
    """Return what another call has made; None: nothing that can be used."""
    found = store.find_derived(_keys(key))
    if len(found) < 2:
        return None
    of_bytes, of_known = (found[one] for one in _keys(key))
    try:
        known = msgspec.json.decode(store.raw(of_known), type=_Known)
    except (ValueError, ObjectNotFound):
        return None
    return known.rendered(of_bytes, partial(store.raw, of_bytes))


def _keep(store: Store, key: str, known: _Known, data: bytes) -> None:
    ref, record = hash_raw(data), canonical.to_canonical_bytes(known)
    batch = _as_file(ref, data) if len(data) > _LARGE else WriteBatch(raw={ref: data})
    if known.tier != 4:
        kept = hash_raw(record)
        derived = dict(zip(_keys(key), (ref, kept), strict=True))
        batch = replace(batch, raw={**batch.raw, kept: record}, derived=derived)
    with suppress(StoreWriteError, StoreLocked):
        store.write(batch)


def _as_file(ref: ArtifactRef, data: bytes) -> WriteBatch:
    """Return bytes as a file: what a longer conversation begins with is in the store once."""
    pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
    refs = [hash_raw(piece) for piece in pieces]
    return WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={ref: refs})


def _keys(key: str) -> tuple[str, str]:
    return f"rendered:{key}", f"rendering:{key}"
