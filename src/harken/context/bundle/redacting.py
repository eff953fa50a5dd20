"""Redacting a bundle: credentials of well-known shapes go from copies, never from what is here.

Names stay: what held a credential gets a stand-in, as when a text is purged, and its tombstone says
why. So logs and commits lead to each other as before, and who has the original keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from blake3 import blake3

from harken.context.bundle.manifest import SESSIONS
from harken.context.materialize import resolver
from harken.context.purge import found_in_store
from harken.core.redaction import redact
from harken.errors import BundleError
from harken.session.purge import PartOfStructure, Taking, places_in, purged_copy
from harken.store.base import Store, Tombstone

BY = "harken bundle create"
WHY = "a credential of a well-known shape"
_LONGEST_BYTES = 64 * 1024
"""A credential is no longer, so it is found whole where bytes come in pieces."""


@dataclass(slots=True)
class Credentials:
    """What was found, without what it was; it replaces as `harken.core.replace.Secret` does."""

    _seen: dict[str, set[bytes]] = field(default_factory=dict)
    """Kind -> hashes of the credentials, so that each counts once."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind -> how many different ones."""
        return {kind: len(seen) for kind, seen in sorted(self._seen.items())}

    def replace(self, text: str) -> str:
        """Return a text without credentials."""
        done = redact(text)
        for one in done.found:
            self._see(one.kind, text[one.start : one.end].encode("utf-8", "surrogatepass"))
        return done.text

    def is_in_json(self, data: bytes) -> bool:
        """Whether there may be one: only looking for them tells."""
        return True

    def spans_in(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield where they begin and end in bytes that come piece by piece, also across borders."""
        held, at = b"", 0
        for piece in chain(pieces, [None]):
            held += piece or b""
            if piece is not None and len(held) < 4 * _LONGEST_BYTES:
                continue
            sure = len(held) if piece is None else len(held) - _LONGEST_BYTES
            done = 0
            # Shapes are ASCII, so bytes may be looked at as if each were a letter.
            for one in redact(held.decode("latin-1")).found:
                if one.start >= sure:
                    break
                self._see(one.kind, held[one.start : one.end])
                done = one.end
                yield at + one.start, at + one.end
            done = max(done, min(sure, len(held)), 0)
            held, at = held[done:], at + done

    def _see(self, kind: str, credential: bytes) -> None:
        self._seen.setdefault(kind, set()).add(blake3(credential).digest())


def redact_store(copy: Store, found: Credentials, when: str) -> None:
    """Take credentials out of a store that is a copy. Raises StoreError, PartOfStructure."""
    held = found_in_store(copy, found)
    for name, notes in held.notes.items():
        copy.annotate(name, notes)
    if held.stand_ins:
        copy.purge(held.stand_ins, Tombstone(when=when, by=BY, why=WHY))


def redact_logs(folder: Path, copy: Store, found: Credentials) -> None:
    """Take credentials out of logs that are copies, which fit to a store without them.

    Raises BundleError for a log that would be none without one.
    """
    taking = Taking(replace=found.replace, by=BY, why=WHY, resolver=resolver(copy))
    for log in sorted((folder / SESSIONS).iterdir()):
        new = folder / "redacted"
        try:
            purged_copy(log, new, taking)
        except PartOfStructure:
            text = "a credential is part of what holds it together: leave it out, or say --as-is"
            raise BundleError(log.name, text) from None
        new.replace(log)


def look_for(folder: Path, copy: Store, found: Credentials) -> None:
    """Count credentials and change nothing."""
    found_in_store(copy, found)
    for log in (folder / SESSIONS).iterdir():
        for _ in places_in(log, found.replace):
            pass
