"""Purging: a text that must not be kept goes from a store and from logs, and all stays readable.

One idea: each thing that holds the text gets a stand-in, the same thing with `[purged]` in the
place of the text. So messages stay where they were, calls keep their results, and what a commit
materializes to, and what a log says, are the same but for the text.

What is found: the text in parts, in what varies of messages, in raw bytes and files, in commits,
summaries and labels, and in the lines of logs; as it is, and as JSON texts have it. Not found is
what hides it: base64, compressed bytes, images. Raw bytes whose format counts lengths (CBOR) are
rid of it, too, but can then no longer be read by that format.

Source: docs/formats/store.md, "Purging"; docs/formats/session-log.md, "content_purged".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.context.materialize import resolver, select_commits
from harken.context.message_reader import read
from harken.core import canonical, commits
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes
from harken.core.events import ContextLoaded
from harken.core.messages import extend_context_hash
from harken.core.replace import PURGED, Secret, TextRemover, in_json
from harken.errors import HarkenError, PurgeIncomplete
from harken.session.log.file import LogFile
from harken.session.log.reader import events
from harken.session.purge import PartOfStructure, PurgeOptions, check_log, places_in, purge_log
from harken.store.base import Name, ObjectKind, Store, StoredObject, Tombstone
from harken.store.batch import file_from

_AT_ONCE = 500
_FIXED = ("type", "parent", "artifact", "checkpoint", "created_at")
"""The members of a commit that are no text."""


@dataclass(frozen=True, slots=True)
class PurgeMatch:
    """Where a text is. Nothing of the text is said."""

    where: str
    """`store`, or the path of a log with the number of the line."""
    kind: str
    """Of the thing, or of the event; `summary`, `label`."""
    name: str
    """Of the thing or of the commit, or the id of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest:
    """Who purges what, and why: this is kept. The text is not."""

    secret: Secret
    by: str
    why: str
    clock: Clock = system_clock


@dataclass(slots=True)
class PurgeMatches:
    """What a store holds of a text."""

    places: list[PurgeMatch] = field(default_factory=list)
    stand_ins: dict[Name, bytes] = field(default_factory=dict)
    notes: dict[CommitId, CommitNotes] = field(default_factory=dict)
    """Summaries and labels without the text."""


def find_secret(store: Store, logs: Iterable[Path], secret: Secret) -> list[PurgeMatch]:
    """Return every place that holds a text, as far as stores and logs can be read.

    Nothing is changed. Raises StoreError, LogNotFound, InvalidLog.
    """
    return [*found_in_store(store, secret).places, *_in_logs(logs, secret)]


def purge_text(store: Store, logs: Sequence[Path], purge: PurgeRequest) -> list[PurgeMatch]:
    """Take a text out of a store and of logs, for good; return where it was.

    First it is made sure that it can be done everywhere: a log that is being written, or that
    would be none without the text, is refused before anything is changed. Then the store is
    purged, also where it holds nothing: an earlier purge may have been cut off. Then each log, in
    one step. Cut off anywhere, it can be run again. Raises LogLocked, PartOfStructure, StoreError,
    LogWriteError; PurgeIncomplete, after all that could be done was done; ValueError where the
    reason itself holds the text.
    """
    secret = purge.secret
    if secret.replace(purge.by + "\n" + purge.why) != purge.by + "\n" + purge.why:
        raise ValueError("the reason holds the text that shall go: say it in other words")
    taking = PurgeOptions(
        replace=secret.replace,
        tail=secret.cut,
        by=purge.by,
        why=purge.why,
        resolver=resolver(store),
        clock=purge.clock,
    )
    found = found_in_store(store, secret)
    with ExitStack() as holding:
        held: list[LogFile] = []
        places: list[PurgeMatch] = []
        for path in logs:
            if theirs := _in_log(path, secret):
                places += theirs
            elif not _rests_on_the_text(store, path, secret):
                continue
            held.append(LogFile(path))
            holding.callback(held[-1].close)
            check_log(path, taking)
        tombstone = Tombstone(when=format_rfc3339(purge.clock()), by=purge.by, why=purge.why)
        for name, notes in found.notes.items():
            store.update_notes(name, notes)
        not_wiped: PurgeIncomplete | None = None
        try:
            store.purge(found.stand_ins, tombstone)
        except PurgeIncomplete as error:  # the logs need not wait for who reads the store
            not_wiped = error
        for log in held:
            purge_log(log, taking)
    if not_wiped is not None:
        raise not_wiped
    return found.places + places


def found_in_store(store: Store, secret: TextRemover) -> PurgeMatches:
    """Return what a store holds of a text, and what shall stand in its place.

    Raises PartOfStructure where a thing would be none without the text; StoreError.
    """
    found = PurgeMatches()
    cuts: dict[Name, list[tuple[int, int]]] = {}
    files: list[StoredObject] = []
    for thing in store.iter_objects():
        if thing.kind is ObjectKind.FILE:
            files.append(thing)
            _cut_pieces(store, thing, secret, cuts)
        elif thing.kind is ObjectKind.RAW:
            if spans := list(secret.spans_in([thing.body])):
                cuts.setdefault(thing.name, []).extend(spans)
        elif (body := _without(thing, secret)) is not None:
            found.stand_ins[thing.name] = body
            found.places.append(PurgeMatch("store", thing.kind.name.lower(), thing.name))
    new = {name: _cut(store.raw(ArtifactRef(name)), spans) for name, spans in cuts.items()}
    found.stand_ins |= new
    found.places += [PurgeMatch("store", "raw", name) for name in new]
    for thing in files:
        if not new.keys().isdisjoint(thing.needs):
            found.stand_ins[thing.name] = _file_of(store, thing, new)
            found.places.append(PurgeMatch("store", "file", thing.name))
    _look_at_notes(store, secret, found)
    return found


def _without(thing: StoredObject, secret: TextRemover) -> bytes | None:
    """Return canonical bytes of a thing without the text; None where it does not hold it."""
    if not secret.is_in_json(thing.body):
        return None
    new = in_json(thing.body, secret.replace)
    if new == thing.body:
        return None
    try:
        match thing.kind:
            case ObjectKind.DELTA:
                return commits.encode_delta(commits.decode_delta(new))[1]
            case ObjectKind.COMMIT:
                return _commit(thing.body, new)
            case ObjectKind.PART:
                old_part, part = canonical.from_json(thing.body), canonical.from_json(new)
                if _skeleton(old_part) == _skeleton(part):
                    return canonical.to_canonical_bytes(part)
            case _:  # messages and sequences are names
                pass
    except ValueError:
        pass
    raise PartOfStructure


def _commit(old: bytes, new: bytes) -> bytes:
    before, after = commits.decode_commit(old), commits.decode_commit(new)
    if any(getattr(before, name) != getattr(after, name) for name in _FIXED):
        raise PartOfStructure
    return commits.commit_bytes(after)


def _skeleton(value: object) -> object:
    """Return what makes a part one: the names of its members, and the types in it."""
    if isinstance(value, list):
        return [_skeleton(item) for item in value]
    if isinstance(value, dict):
        return {k: v if k == "type" else _skeleton(v) for k, v in value.items()}
    return None


def _cut_pieces(
    store: Store, file: StoredObject, secret: TextRemover, cuts: dict[Name, list[tuple[int, int]]]
) -> None:
    """Note of a file's pieces what has to go; a text that crosses a border, in both pieces."""
    spans = list(secret.spans_in(store.read_chunks(ArtifactRef(file.name))))
    begin = 0
    for name in file_from(file.body).pieces:
        end = begin + len(store.raw(name))
        for start, stop in spans:
            if start < end and stop > begin:
                inside = max(start, begin) - begin, min(stop, end) - begin
                cuts.setdefault(name, []).append(inside)
        begin = end


def _cut(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return bytes with `[purged]` in the place of each of these stretches.

    It stands in a piece also where the text began in the one before.
    """
    pieces: list[bytes] = []
    at = -1
    for start, stop in sorted(set(spans)):
        if start > at:
            pieces += [data[max(at, 0) : start], PURGED.encode()]
        at = max(at, stop)
    return b"".join([*pieces, data[max(at, 0) :]])


def _file_of(store: Store, file: StoredObject, new: Mapping[Name, bytes]) -> bytes:
    """Return a file of the same pieces, as they are now."""
    hasher = blake3(canonical.RAW)
    pieces: list[ArtifactRef] = []
    for name in file_from(file.body).pieces:
        body = new[name] if name in new else store.raw(name)
        hasher.update(body)
        pieces.append(commits.hash_raw(body))
    return canonical.to_canonical_bytes({"name": f"art-{hasher.hexdigest()}", "pieces": pieces})


def _look_at_notes(store: Store, secret: TextRemover, found: PurgeMatches) -> None:
    names = iter(store.newest_commits(2**62))
    while some := list(islice(names, _AT_ONCE)):
        for stored in store.commits(some).values():
            old = stored.notes
            labels = tuple(map(secret.replace, old.labels))
            new = msgspec.structs.replace(old, summary=secret.replace(old.summary), labels=labels)
            if new == old:
                continue
            found.notes[stored.id] = new
            for kind, is_other in (
                ("summary", new.summary != old.summary),
                ("label", new.labels != old.labels),
            ):
                if is_other:
                    found.places.append(PurgeMatch("store", kind, stored.id))


def _in_logs(logs: Iterable[Path], secret: Secret) -> Iterator[PurgeMatch]:
    for path in logs:
        yield from _in_log(path, secret)


def _in_log(path: Path, secret: Secret) -> list[PurgeMatch]:
    return [
        PurgeMatch(f"{path}:{one.line}", one.event_type, one.message_id)
        for one in places_in(path, secret.replace)
    ]


def _rests_on_the_text(store: Store, path: Path, secret: Secret) -> bool:
    """Whether an agent of a log started from a commit that holds the text, or that held it."""
    try:
        for event in events(path):
            if isinstance(event, ContextLoaded) and _has_text(store, event, secret):
                return True
    except HarkenError:  # what cannot be read, or is not there, cannot be worked out again
        return False
    return False


def _has_text(store: Store, event: ContextLoaded, secret: Secret) -> bool:
    walked = select_commits(store, CommitId(event.ctx), event.stop)
    messages = read(store, [one.commit.artifact for one in walked])
    context_hash = ""
    for message in messages:
        context_hash = extend_context_hash(context_hash, message)
    encoded = canonical.to_json_line(messages)
    return context_hash != event.context_hash or in_json(encoded, secret.replace) != encoded
