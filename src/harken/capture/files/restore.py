"""Restore the catalogue of imported files from the records in a store.

A store that came from another machine, or whose catalogue was lost, still lists its imported
sessions. The catalogue also has keys by which copies of a conversation are recognized. These are
not restored: until a copy is imported again, nothing needs them.
"""

from __future__ import annotations

import msgspec

from harken.core.commits import CommitId
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.store.base import Store
from harken.store.imported_files import FileRecord, read_imported_files


def restore_catalogue(store: Store, catalogue: Catalogue) -> int:
    """Add the files that a store has and the catalogue lacks, and return their number.

    Raises StoreError, StoreWriteError.
    """
    records = {_key(file.record): file.record for file in read_imported_files(store).values()}
    existing = catalogue.find_entries(records)
    missing = {key: record for key, record in records.items() if key not in existing}
    for key, record in missing.items():
        try:
            fingerprint = FileFingerprint(record.size, record.mtime_ns, bytes.fromhex(record.tail))
        except ValueError:
            continue
        catalogue.note(key, fingerprint, msgspec.json.encode(record.report))
        for spawner in record.spawners:
            catalogue.note_spawner(
                spawner.runtime, spawner.session, spawner.agent, CommitId(spawner.ctx)
            )
    if missing:
        catalogue.commit()
    return len(missing)


def _key(record: FileRecord) -> str:
    """Return the key of a file in the catalogue: its path, with the machine if it is another."""
    return record.path if record.is_local else f"{record.machine}:{record.path}"
