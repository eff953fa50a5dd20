"""A commit is found by a prefix of its name, a branch, a label, or a principal and a time."""

from __future__ import annotations

from itertools import count

import pytest

from harken.context.history import get_commit, update_metadata
from harken.context.refs import (
    abbreviate_name,
    find_commit,
    find_commit_or_artifact,
    find_named_commit,
)
from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.errors import AmbiguousName, NameNotFound
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.testing.store import batch_of, commit_in


def write_commit(store: MemoryStore, text: str, second: int = 0, principal: str = "") -> CommitId:
    batch = batch_of(text, second=second, principal=principal)
    store.write(batch)
    return commit_in(batch)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_name_is_abbreviated_to_twelve_digits_or_until_it_is_unique(store: MemoryStore) -> None:
    first = write_commit(store, "one")
    assert abbreviate_name(store, first) == first[:16]
    names = {first[:5]: first}
    for number in count():  # Two commits share the first digit at the latest after 16 more.
        other = write_commit(store, f"message {number}")
        if other[:5] in names:
            break
        names[other[:5]] = other
    with pytest.raises(AmbiguousName) as error:
        find_commit(store, other[:5])
    assert {abbreviate_name(store, name) for name in (other, names[other[:5]])} <= {
        *error.value.known
    }


class AlikeStore(MemoryStore):
    """A store in which another commit differs from each one only in its last digit."""

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        name = f"ctx-{'1' * 63}"
        return [CommitId(n) for n in (f"{name}1", f"{name}2") if n.startswith(beginning)]


def test_name_is_not_abbreviated_if_only_the_last_digit_differs() -> None:
    name = CommitId(f"ctx-{'1' * 64}")
    assert abbreviate_name(AlikeStore(), name) == name


@pytest.mark.parametrize("length", [5, 16, 68])
def test_commit_is_found_by_a_prefix(store: MemoryStore, length: int) -> None:
    name = write_commit(store, "one")
    assert find_commit(store, name[:length]) == name
    assert find_commit_or_artifact(store, name[:length]) == name


@pytest.mark.parametrize(
    "prefix", ["", "ctx-", "ctx-g", "CTX-1", f"ctx-{'0' * 65}", "tkt-1", "art-1", "nothing"]
)
def test_unknown_name_is_an_error_with_existing_ones(store: MemoryStore, prefix: str) -> None:
    name = write_commit(store, "one")
    with pytest.raises(NameNotFound, match=name[:16]):
        find_commit(store, prefix)


def test_commit_is_found_by_its_branch_before_its_label(store: MemoryStore) -> None:
    first, second = write_commit(store, "one"), write_commit(store, "two")
    update_metadata(store, first, labels=["main", "good"])
    store.move_branch("main", second, expected=None)
    assert find_commit(store, "main") == find_named_commit(store, "main") == second
    assert find_commit(store, "good") == first


def test_label_of_several_commits_is_ambiguous(store: MemoryStore) -> None:
    names = [write_commit(store, text) for text in ("one", "two")]
    for name in names:
        update_metadata(store, name, labels=["good"])
    with pytest.raises(AmbiguousName) as error:
        find_named_commit(store, "good")
    assert {*error.value.known} == {name[:16] for name in names}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ann@now", 2),
        ("ann@2026-01-01T00:00:05Z", 1),
        ("ann@2026-01-01T00:00:04.999999Z", 0),
        ("ann@2026-01-01T01:00:05+01:00", 1),
        ("ann@2026-01-01", 1),
        ("ann@2025-12-31", None),
        ("ann@2026-01-02", 2),
        ("ann@yesterday", None),
        ("ann@2026-01-01T00:00:05", None),
        ("ann@", None),
        ("@now", None),
        ("ann", None),
        ("bob@now", None),
        ("a@b@now", 3),
    ],
)
def test_commit_is_found_by_its_principal_and_a_time(
    store: MemoryStore, name: str, found: int | None
) -> None:
    day = 86_400
    commits = [
        write_commit(store, text, second, principal)
        for text, second, principal in [
            ("one", 0, "ann"),
            ("two", 5, "ann"),
            ("three", day, "ann"),
            ("four", 0, "a@b"),
        ]
    ]
    assert find_named_commit(store, name) == (None if found is None else commits[found])


def test_time_of_a_day_includes_its_last_microsecond(store: MemoryStore) -> None:
    name = write_commit(store, "one", 86_399, "ann")
    created_at = get_commit(store, name).commit.created_at
    assert created_at.startswith("2026-01-01T23:59:59")
    assert find_named_commit(store, "ann@2026-01-01") == name


def test_artifact_is_found_by_a_prefix(store: MemoryStore) -> None:
    raw = {hash_raw(data): data for data in (b"%d" % number for number in range(17))}
    store.write(WriteBatch(raw=raw))
    for name in raw:
        assert find_commit_or_artifact(store, name) == name
        matches = [other for other in raw if other.startswith(name[:5])]
        if len(matches) == 1:
            assert find_commit_or_artifact(store, name[:5]) == name
        else:
            with pytest.raises(AmbiguousName) as error:
                find_commit_or_artifact(store, name[:5])
            assert {*error.value.known} == {*matches}


@pytest.mark.parametrize(
    ("prefix", "kind"), [("art-0", "artifact"), ("art-x", "artifact"), ("x", "commit or artifact")]
)
def test_unknown_artifact_is_an_error_with_existing_names(
    store: MemoryStore, prefix: str, kind: str
) -> None:
    raw = hash_raw(b"1")
    assert not raw.startswith("art-0")
    store.write(WriteBatch(raw={raw: b"1"}))
    with pytest.raises(NameNotFound, match=f"^{kind} '{prefix}' not found.*{raw[:16]}"):
        find_commit_or_artifact(store, prefix)
    commit = write_commit(store, "one")
    with pytest.raises(NameNotFound) as error:
        find_commit_or_artifact(store, "x")
    assert commit[:16] in str(error.value)
    assert raw[:16] not in str(error.value)
