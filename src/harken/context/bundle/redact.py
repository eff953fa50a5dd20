"""Redact a bundle: remove well-known formats of credentials from the copies, never the originals.

Names stay valid: an object with a credential gets a stand-in, as in a purge, and its tombstone
gives the reason. So logs and commits still reference each other, and a store with the original
keeps it.
"""

from __future__ import annotations

from pathlib import Path

from harken.context.bundle.manifest import SESSIONS
from harken.context.materialize import make_resolver
from harken.context.purge import find_in_store
from harken.core.secrets.redaction import Credentials
from harken.errors import BundleError
from harken.session.purge import PartOfStructure, PurgeOptions, find_log_places, write_purged_copy
from harken.store.base import Store, Tombstone

BY = "harken store bundle create"
WHY = "a credential of a well-known shape"


def redact_store(copy: Store, credentials: Credentials, when: str) -> None:
    """Remove credentials from a copy of a store. Raises StoreError, PartOfStructure."""
    purge = find_in_store(copy, credentials)
    for name, notes in purge.notes.items():
        copy.update_notes(name, notes)
    if purge.stand_ins:
        copy.purge(purge.stand_ins, Tombstone(when=when, by=BY, why=WHY))


def redact_logs(folder: Path, copy: Store, credentials: Credentials) -> None:
    """Remove credentials from copies of logs, consistent with the redacted store.

    Raises BundleError for a log that would be invalid without a credential.
    """
    options = PurgeOptions(
        replace=credentials.replace, by=BY, reason=WHY, resolver=make_resolver(copy)
    )
    for log in sorted((folder / SESSIONS).iterdir()):
        redacted = folder / "redacted"
        try:
            write_purged_copy(log, redacted, options)
        except PartOfStructure:
            reason = (
                "a credential is part of an id or a name that other lines use; "
                "leave the log out, or use --no-redact"
            )
            raise BundleError(log.name, reason) from None
        redacted.replace(log)


def count_credentials(folder: Path, copy: Store, credentials: Credentials) -> None:
    """Count credentials without changing anything."""
    find_in_store(copy, credentials)
    for log in (folder / SESSIONS).iterdir():
        for _ in find_log_places(log, credentials.replace):
            pass
