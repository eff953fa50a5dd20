"""A store of a home with `redact = "store"` refuses credentials in all that is written to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import hash_raw
from harken.core.secrets.redaction import Credentials
from harken.errors import CredentialRefused
from harken.store.base import Store, Tombstone, WriteBatch
from harken.store.refusing_store import CredentialCheck, RefusingStore
from harken.store.remote.refusing_store import RefusingRemoteStore
from harken.testing.store import batch_of
from tests.redaction_kit import AWS, GITHUB

WHEN = "2026-01-31T12:00:00.000000Z"
_WITHOUT_TEXT = {"set_retention", "collect", "close"}
"""Methods that write, but no new text."""
_READING = {
    *("objects", "deltas", "sequences", "raw", "raws", "read_chunks", "chunk_names"),
    *("find_derived", "commits", "chain", "children", "latest_commit", "newest_commits"),
    *("names_with_prefix", "branches", "heads", "commits_by_label", "retention", "tombstones"),
    *("find_branch", "iter_objects", "stats"),
}

pytestmark = pytest.mark.req("D-06")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RefusingStore]:
    with closing(RefusingStore(tmp_path / "store.db")) as store:
        yield store


def test_each_method_that_writes_a_text_checks_it() -> None:
    methods = {name for name in vars(Store) if not name.startswith("_")}
    assert methods - _READING - _WITHOUT_TEXT == vars(CredentialCheck).keys() & methods
    assert issubclass(RefusingRemoteStore, CredentialCheck)


@pytest.mark.parametrize("start", [b"", b"ab\xffc ", b"\x89PNG\r\n\x1a\n" * 3, b"caf\xe9 " * 50])
def test_a_credential_is_found_in_bytes_that_are_no_text(
    store: RefusingStore, start: bytes
) -> None:
    body = start + f"key {GITHUB}\n".encode() + b"tail " * 20
    with pytest.raises(CredentialRefused, match="github-token"):
        store.write(WriteBatch(raw={hash_raw(body): body}))
    clean = Credentials().replace_in_bytes(body)
    store.write(WriteBatch(raw={hash_raw(clean): clean}))


def test_a_credential_in_two_chunks_of_a_file_is_found(store: RefusingStore) -> None:
    bodies = [b"The key is " + GITHUB[:9].encode(), GITHUB[9:].encode() + b" and so on."]
    raw = {hash_raw(body): body for body in bodies}
    files = {hash_raw(b"".join(bodies)): list(raw)}
    with pytest.raises(CredentialRefused, match="github-token"):
        store.write(WriteBatch(raw=raw, files=files))
    store.write(WriteBatch(raw=raw))
    with pytest.raises(CredentialRefused, match="github-token"):
        store.write(WriteBatch(files=files))


def test_the_reason_of_a_purge_has_no_credential(store: RefusingStore) -> None:
    store.write(batch_of("text"))
    tombstone = Tombstone(when=WHEN, by="me", why=f"{AWS} leaked")
    with pytest.raises(CredentialRefused, match="the reason of a purge"):
        store.purge({}, tombstone)
    name, stand_in = hash_raw(b"old"), hash_raw(b"gone")
    with pytest.raises(CredentialRefused, match="the reason of a purge"):
        store.write(
            WriteBatch(
                raw={stand_in: b"gone"},
                tombstones={
                    name: Tombstone(when=WHEN, by="me", why=f"{AWS} leaked", stand_in=stand_in)
                },
            )
        )
    assert AWS.encode() not in store.path.read_bytes()
