"""Redacting a bundle: credentials of well-known shapes go from copies, never from what is here.

Names stay: what held a credential gets a stand-in, as when a text is purged, and its tombstone says
why. So logs and commits lead to each other as before, and who has the original keeps it.
"""

from __future__ import annotations

from pathlib import Path

from harken.context.bundle.manifest import SESSIONS
from harken.context.materialize import resolver
from harken.context.purge import found_in_store
from harken.core.secrets.redaction import Credentials
from harken.errors import BundleError
from harken.session.purge import PartOfStructure, PurgeOptions, places_in, purged_copy
from harken.store.base import Store, Tombstone

BY = "harken store bundle create"
WHY = "a credential of a well-known shape"


def redact_store(copy: Store, found: Credentials, when: str) -> None:
    """Take credentials out of a store that is a copy. Raises StoreError, PartOfStructure."""
    held = found_in_store(copy, found)
    for name, notes in held.notes.items():
        copy.update_notes(name, notes)
    if held.stand_ins:
        copy.purge(held.stand_ins, Tombstone(when=when, by=BY, why=WHY))


def redact_logs(folder: Path, copy: Store, found: Credentials) -> None:
    """Take credentials out of logs that are copies, which fit to a store without them.

    Raises BundleError for a log that would be none without one.
    """
    taking = PurgeOptions(replace=found.replace, by=BY, why=WHY, resolver=resolver(copy))
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
