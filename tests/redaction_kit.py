"""Credentials of false accounts, and a search for them in all that a home stores."""

from __future__ import annotations

import zlib
from contextlib import closing
from pathlib import Path

from harken.core import canonical
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

AWS = "AKIAQ7WZX5T2MN3BVC4D"
ANTHROPIC = "sk-ant-" + "api03-" + "k1" * 20
GITHUB = "ghp_" + "aB3" * 12
CREDENTIALS = (AWS, ANTHROPIC, GITHUB)
CONFIG = 'redact = "store"\n'


def redact_before_storing(home: Path) -> None:
    """Configure a home."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(CONFIG)


def find_in_store(store: Store) -> set[str]:
    """Return the credentials in the objects and the notes of a store."""
    stored = [obj.body for obj in store.iter_objects()]
    names = store.newest_commits(2**62)
    stored += [canonical.to_json_line(commit.notes) for commit in store.commits(names).values()]
    return {text for text in CREDENTIALS for body in stored if text.encode() in body}


def find_in_home(home: Path) -> set[str]:
    """Return the credentials in all files of a home and in the objects of its store."""
    files = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    found = {text for text in CREDENTIALS for data in files if text.encode() in data}
    if (home / "store.db").exists():
        with closing(SqliteStore(home / "store.db")) as store:
            found |= find_in_store(store)
    return found


def gzip(data: bytes) -> bytes:
    """Compress data as a client or a provider does."""
    compressor = zlib.compressobj(wbits=31)
    return compressor.compress(data) + compressor.flush()
