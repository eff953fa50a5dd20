"""Purge a text from a store and from logs, such that everything stays readable.

Each object that contains the text gets a stand-in, the same object with `[purged]` in place of the
text. So messages keep their positions, calls keep their results, and conversations and logs are
unchanged except for the text.

The text is found in parts, in occurrence data of messages, in raw bytes and files, in commits,
summaries and labels, and in the lines of logs; unencoded, and as encoded in JSON. It is not found
in encoded data: base64, compressed bytes, images. Raw bytes in a format with length fields (CBOR)
are purged too, but can then no longer be parsed.

Source: docs/formats/store.md, "Purging"; docs/formats/session-log.md, "content_purged".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec
from blake3 import blake3

from harken.context.materialize import make_resolver, select_commits
from harken.context.message_reader import read_messages
from harken.core import canonical, commits, structs
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes
from harken.core.events import ContextLoaded
from harken.core.messages import extend_context_hash
from harken.core.secrets.removal import PURGED, Secret, TextRemover, in_json
from harken.errors import HarkenError, PurgeIncomplete
from harken.session.log.file import LogFile
from harken.session.log.reader import iter_events
from harken.session.purge import (
    PartOfStructure,
    PurgeOptions,
    check_log,
    find_log_places,
    purge_log,
)
from harken.store.base import (
    NO_LIMIT,
    Name,
    ObjectKind,
    Store,
    StoredCommit,
    StoredObject,
    Tombstone,
)
from harken.store.batch import parse_file

_COMMITS_PER_BATCH = 500
_FIXED_MEMBERS = ("type", "parent", "artifact", "checkpoint", "created_at")
"""The members of a commit that are not text."""


class PurgeMatch(msgspec.Struct, frozen=True):
    """A location of the text. It contains nothing of the text."""

    where: str
    """`store`, or the path of a log with the line number."""
    kind: str
    """The kind of the object or of the event; `summary`, `label`."""
    name: str
    """The name of the object or of the commit, or the id of the event."""


class PurgeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The text to purge, with the person and the reason, which are recorded. The text is not."""

    secret: Secret
    by: str
    why: str
    clock: Clock = system_clock


class PurgeMatches(msgspec.Struct):
    """The matches in a store, and their replacements."""

    matches: list[PurgeMatch] = msgspec.field(default_factory=list)
    stand_ins: dict[Name, bytes] = msgspec.field(default_factory=dict)
    notes: dict[CommitId, CommitNotes] = msgspec.field(default_factory=dict)
    """Summaries and labels without the text."""


def find_text(store: Store, logs: Iterable[Path], secret: Secret) -> list[PurgeMatch]:
    """Return every location of a text in readable stores and logs.

    Nothing is changed. Raises StoreError, LogNotFound, InvalidLog.
    """
    return [*find_in_store(store, secret).matches, *_iter_log_matches(logs, secret)]


def purge_text(store: Store, logs: Sequence[Path], purge: PurgeRequest) -> list[PurgeMatch]:
    """Remove a text from a store and from logs for good, and return its locations.

    All logs are checked first: a log that is being written, or that would be invalid without the
    text, is refused before anything is changed. Then the store is purged, also if it has no match,
    since an earlier purge may have been interrupted. Then each log is rewritten in one step. An
    interrupted purge can be run again. Raises LogLocked, PartOfStructure, StoreError,
    LogWriteError; PurgeIncomplete after everything possible was done; ValueError if the reason
    contains the text.
    """
    secret = purge.secret
    if secret.replace(purge.by + "\n" + purge.why) != purge.by + "\n" + purge.why:
        raise ValueError("the reason contains the text to purge: write another reason")
    options = PurgeOptions(
        replace=secret.replace,
        tail=secret.replace_truncated,
        by=purge.by,
        reason=purge.why,
        resolver=make_resolver(store),
        clock=purge.clock,
    )
    store_matches = find_in_store(store, secret)
    with ExitStack() as stack:
        locked_logs: list[LogFile] = []
        log_matches: list[PurgeMatch] = []
        for path in logs:
            if matches_in_log := _find_in_log(path, secret):
                log_matches += matches_in_log
            elif not _depends_on_text(store, path, secret):
                continue
            locked_logs.append(LogFile(path))
            stack.callback(locked_logs[-1].close)
            check_log(path, options)
        tombstone = Tombstone(when=format_rfc3339(purge.clock()), by=purge.by, why=purge.why)
        for name, notes in store_matches.notes.items():
            store.update_notes(name, notes)
        incomplete: PurgeIncomplete | None = None
        try:
            store.purge(store_matches.stand_ins, tombstone)
        except PurgeIncomplete as error:  # The logs need not wait for readers of the store.
            incomplete = error
        for log in locked_logs:
            purge_log(log, options)
    if incomplete is not None:
        raise incomplete
    return store_matches.matches + log_matches


class TextSource(Protocol):
    """The part of a store in which a text is looked for: a store, or a batch of objects."""

    def iter_objects(self) -> Iterator[StoredObject]:
        """As `Store.iter_objects`."""
        ...

    def raw(self, name: ArtifactRef) -> bytes:
        """As `Store.raw`."""
        ...

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        """As `Store.read_chunks`."""
        ...

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        """As `Store.newest_commits`."""
        ...

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        """As `Store.commits`."""
        ...


def find_in_store(store: TextSource, secret: TextRemover) -> PurgeMatches:
    """Return the matches of a text in a store, and their stand-ins.

    Raises PartOfStructure if an object would be invalid without the text; StoreError.
    """
    matches = PurgeMatches()
    spans_by_name: dict[Name, list[tuple[int, int]]] = {}
    files: list[StoredObject] = []
    for obj in store.iter_objects():
        if obj.kind is ObjectKind.FILE:
            files.append(obj)
            _find_in_chunks(store, obj, secret, spans_by_name)
        elif obj.kind is ObjectKind.RAW:
            if spans := list(secret.find_spans([obj.body])):
                spans_by_name.setdefault(obj.name, []).extend(spans)
        elif (body := _purge_object(obj, secret)) is not None:
            matches.stand_ins[obj.name] = body
            matches.matches.append(PurgeMatch("store", obj.kind.name.lower(), obj.name))
    new_bodies = {
        name: _replace_spans(store.raw(ArtifactRef(name)), spans)
        for name, spans in spans_by_name.items()
    }
    matches.stand_ins |= new_bodies
    matches.matches += [PurgeMatch("store", "raw", name) for name in new_bodies]
    for obj in files:
        if not new_bodies.keys().isdisjoint(obj.needs):
            matches.stand_ins[obj.name] = _build_file(store, obj, new_bodies)
            matches.matches.append(PurgeMatch("store", "file", obj.name))
    _find_in_notes(store, secret, matches)
    return matches


def _purge_object(obj: StoredObject, secret: TextRemover) -> bytes | None:
    """Return canonical bytes of an object without the text, or None if it has no match."""
    if not secret.is_in_json(obj.body):
        return None
    purged = in_json(obj.body, secret.replace)
    if purged == obj.body:
        return None
    try:
        match obj.kind:
            case ObjectKind.DELTA:
                return commits.encode_delta(commits.decode_delta(purged))[1]
            case ObjectKind.COMMIT:
                return _purge_commit(obj.body, purged)
            case ObjectKind.PART:
                old_part, part = canonical.from_json(obj.body), canonical.from_json(purged)
                if _skeleton(old_part) == _skeleton(part):
                    return canonical.to_canonical_bytes(part)
            case _:  # Messages and sequences contain only names.
                pass
    except ValueError:
        pass
    raise PartOfStructure


def _purge_commit(old: bytes, new: bytes) -> bytes:
    before, after = commits.decode_commit(old), commits.decode_commit(new)
    if any(getattr(before, name) != getattr(after, name) for name in _FIXED_MEMBERS):
        raise PartOfStructure
    return commits.commit_bytes(after)


def _skeleton(value: object) -> object:
    """Return the structure of a part: the names of its members, and its types."""
    if isinstance(value, list):
        return [_skeleton(item) for item in value]
    if isinstance(value, dict):
        return {k: v if k == "type" else _skeleton(v) for k, v in value.items()}
    return None


def _find_in_chunks(
    store: TextSource,
    file: StoredObject,
    secret: TextRemover,
    spans_by_name: dict[Name, list[tuple[int, int]]],
) -> None:
    """Record the spans to remove from a file's chunks. A match may span several chunks."""
    spans = list(secret.find_spans(store.read_chunks(ArtifactRef(file.name))))
    chunk_start = 0
    for name in parse_file(file.body).pieces:
        chunk_end = chunk_start + len(store.raw(name))
        for start, stop in spans:
            if start < chunk_end and stop > chunk_start:
                span = max(start, chunk_start) - chunk_start, min(stop, chunk_end) - chunk_start
                spans_by_name.setdefault(name, []).append(span)
        chunk_start = chunk_end


def _replace_spans(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return bytes with `[purged]` in place of each span.

    A chunk also gets it if the match began in the chunk before.
    """
    pieces: list[bytes] = []
    end = -1
    for start, stop in sorted(set(spans)):
        if start > end:
            pieces += [data[max(end, 0) : start], PURGED.encode()]
        end = max(end, stop)
    return b"".join([*pieces, data[max(end, 0) :]])


def _build_file(store: TextSource, file: StoredObject, new_bodies: Mapping[Name, bytes]) -> bytes:
    """Return the body of a file with the purged chunks."""
    hasher = blake3(canonical.RAW_DOMAIN)
    pieces: list[ArtifactRef] = []
    for name in parse_file(file.body).pieces:
        body = new_bodies[name] if name in new_bodies else store.raw(name)
        hasher.update(body)
        pieces.append(commits.hash_raw(body))
    return canonical.to_canonical_bytes({"name": f"art-{hasher.hexdigest()}", "pieces": pieces})


def _find_in_notes(store: TextSource, secret: TextRemover, matches: PurgeMatches) -> None:
    names = iter(store.newest_commits(NO_LIMIT))
    while batch := list(islice(names, _COMMITS_PER_BATCH)):
        for stored in store.commits(batch).values():
            old_notes = stored.notes
            labels = tuple(map(secret.replace, old_notes.labels))
            new_notes = structs.replace(
                old_notes, summary=secret.replace(old_notes.summary), labels=labels
            )
            if new_notes == old_notes:
                continue
            matches.notes[stored.id] = new_notes
            for kind, is_changed in (
                ("summary", new_notes.summary != old_notes.summary),
                ("label", new_notes.labels != old_notes.labels),
            ):
                if is_changed:
                    matches.matches.append(PurgeMatch("store", kind, stored.id))


def _iter_log_matches(logs: Iterable[Path], secret: Secret) -> Iterator[PurgeMatch]:
    for path in logs:
        yield from _find_in_log(path, secret)


def _find_in_log(path: Path, secret: Secret) -> list[PurgeMatch]:
    return [
        PurgeMatch(f"{path}:{match.line}", match.event_type, match.message_id)
        for match in find_log_places(path, secret.replace)
    ]


def _depends_on_text(store: Store, path: Path, secret: Secret) -> bool:
    """Whether an agent of a log started from a commit that contains or contained the text."""
    try:
        for event in iter_events(path):
            if isinstance(event, ContextLoaded) and _has_text(store, event, secret):
                return True
    except HarkenError:  # A commit that cannot be read cannot be hashed again.
        return False
    return False


def _has_text(store: Store, event: ContextLoaded, secret: Secret) -> bool:
    selected = select_commits(store, CommitId(event.ctx), event.stop)
    messages = read_messages(store, [commit.commit.artifact for commit in selected])
    context_hash = ""
    for message in messages:
        context_hash = extend_context_hash(context_hash, message)
    encoded = canonical.to_json_line(messages)
    return context_hash != event.context_hash or in_json(encoded, secret.replace) != encoded
