"""Restore the catalogue of imported files from the records in a store.

A store that came from another machine, or whose catalogue was lost, still lists its imported
sessions. A record may come from a bundle, so it is untrusted: what an import would not have written
is left out. The catalogue also has keys by which copies of a conversation are recognized. These are
not restored: until a copy is imported again, nothing needs them.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

import msgspec

from harken.capture.files.parsed_file import sanitize_name
from harken.capture.files.report import Report
from harken.core import structs
from harken.core.clock import normalize_rfc3339
from harken.core.commits import CommitId
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.store.base import Store
from harken.store.imported_files import (
    FileRecord,
    ImportedFile,
    is_own_head,
    name_copied_head,
    read_imported_files,
)

_CTX_PATTERN = re.compile(r"ctx-[0-9a-f]{64}")


def restore_catalogue(store: Store, catalogue: Catalogue) -> int:
    """Add the files that a store has and the catalogue lacks, and return their number.

    Raises StoreError, StoreWriteError.
    """
    files = _list_files(store)
    existing = catalogue.find_entries(files)
    added = 0
    for key, file in files.items():
        record = file.record
        report = None if key in existing else _check_report(record)
        if report is None:
            continue
        fingerprint = FileFingerprint(record.size, record.mtime_ns, bytes.fromhex(record.tail))
        catalogue.note(key, fingerprint, msgspec.json.encode(report), file.head)
        for spawner in record.spawners:
            if _CTX_PATTERN.fullmatch(spawner.ctx):
                names = (spawner.runtime, report.session, sanitize_name(spawner.agent))
                catalogue.note_spawner(*names, CommitId(spawner.ctx))
        added += 1
    if added or not catalogue.is_restored:
        catalogue.complete_restoration()
    return added


def _list_files(store: Store) -> dict[str, ImportedFile]:
    """Return the files of a store by their keys in the catalogue.

    A copy of a file is left out if the file itself is in the store, or if its bytes differ from
    those of another copy.
    """
    files: dict[str, ImportedFile] = {}
    copies: dict[str, ImportedFile] = {}
    for name, file in read_imported_files(store).items():
        record, key = file.record, _key(file.record)
        if not _is_path(key):
            continue
        if is_own_head(name, record):
            files[key] = file
        elif name == name_copied_head(record.machine, record.path):
            copies[key] = file
    return copies | files


def _key(record: FileRecord) -> str:
    """Return the key of a file in the catalogue: its path, with the machine if it is another."""
    return record.path if record.is_local else f"{record.machine}:{record.path}"


def _is_path(key: str) -> bool:
    """Whether the catalogue can hold a key."""
    try:
        os.fsencode(key)
    except ValueError:
        return False
    return True


def _check_report(record: FileRecord) -> Report | None:
    """Return the report of a record as an import writes it, or None if it is none."""
    try:
        report = msgspec.json.decode(msgspec.json.encode(record.report), type=Report)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return structs.replace(
        report,
        runtime=sanitize_name(report.runtime),
        session=sanitize_name(report.session),
        ended=_normalize_time(report.ended),
        sessions=tuple(
            structs.replace(
                part, session=sanitize_name(part.session), ended=_normalize_time(part.ended)
            )
            for part in report.sessions
        ),
        tips=tuple(tip for tip in report.tips if _CTX_PATTERN.fullmatch(tip.ctx)),
    )


def _normalize_time(time: str) -> str:
    """Return a time as commits have it, or an empty string if it is none."""
    with suppress(ValueError, OverflowError):
        return normalize_rfc3339(time) if time else ""
    return ""
