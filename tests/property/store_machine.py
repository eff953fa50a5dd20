"""A state machine that does the same with a store and with dictionaries, and compares them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from harken.core import canonical
from harken.core.canonical import PART_DOMAIN, hash_bytes
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, Hash, hash_raw
from harken.store.base import RetentionPolicy, Store, Tombstone, WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from harken.testing.store import batch_of, commit_in

NOW = "2100-01-01T00:00:00Z"
EXPIRED = RetentionPolicy("ephemeral", "2026-01-01T00:00:00Z")
GONE = "gone"
TEXTS = st.sampled_from(["one", "two", "three", "four", "x" * 3000])
RAWS = st.sampled_from([b"", b"raw", b"other raw", b"line\n" * 9000])


@dataclass(frozen=True)
class CommitModel:
    """A commit as the model knows it."""

    parent: CommitId | None
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    is_expired: bool = False
    is_pushed: bool = False


def part_of(text: str) -> tuple[Hash, bytes]:
    """Return the part with a text, as stored."""
    body = canonical.to_canonical_bytes({"text": text, "type": "text"})
    return Hash(hash_bytes(PART_DOMAIN, body).hex()), body


class StoreMachine(RuleBasedStateMachine):
    """Write, fork, label, expire, collect, purge, crash and reopen."""

    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="harken-machine-"))
        self.number = 0
        self.model: dict[CommitId, CommitModel] = {}
        self.raws: dict[ArtifactRef, bytes] = {}
        self.pins: set[ArtifactRef] = set()
        self.replicated: set[ArtifactRef] = set()
        """Raw bytes that a backing store has."""
        self.purged_texts: set[str] = set()
        self.purged_raws: set[ArtifactRef] = set()
        self.store = self.open()

    def open(self) -> Store:
        raise NotImplementedError

    def crash(self) -> Store:
        """Return the store as another process finds it after this one was killed."""
        raise NotImplementedError

    def find_store_files(self) -> list[Store]:
        """Return the stores that fsck can check."""
        return [self.store]

    @rule(target=commits, texts=st.lists(TEXTS, min_size=1, max_size=3))
    def write_root(self, texts: list[str]) -> CommitId:
        return self._write(texts, None)

    @rule(target=commits, parent=commits, texts=st.lists(TEXTS, min_size=1, max_size=2))
    def write_child(self, parent: CommitId, texts: list[str]) -> CommitId:
        """Continue a commit, or fork it where it has children. A collected one is a new root."""
        return self._write(texts, parent if parent in self.model else None)

    def _write(self, texts: list[str], parent: CommitId | None) -> CommitId:
        self.number += 1
        batch = batch_of(*texts, parent=parent, second=self.number, principal="p")
        self.store.write(batch)
        self.model[commit_in(batch)] = CommitModel(parent, tuple(texts))
        return commit_in(batch)

    @rule(commit=commits, chosen=st.sets(st.sampled_from(["main", "review"])))
    def set_labels(self, commit: CommitId, chosen: set[str]) -> None:
        if commit in self.model:
            labels = tuple(sorted(chosen))
            self.store.update_notes(commit, CommitNotes(labels=labels))
            self.model[commit] = replace(self.model[commit], labels=labels)

    @rule(data=RAWS, is_pinned=st.booleans())
    def write_raw(self, data: bytes, is_pinned: bool) -> None:
        name = hash_raw(data)
        self.store.write(WriteBatch(raw={name: data}))
        if name not in self.purged_raws:
            self.raws[name] = data
        if is_pinned:
            self.store.set_retention({name: RetentionPolicy("pin")})
            self.pins.add(name)

    @rule(commit=commits)
    def expire(self, commit: CommitId) -> None:
        if commit in self.model:
            self.store.set_retention({commit: EXPIRED})
            self.model[commit] = replace(self.model[commit], is_expired=True)

    @rule()
    def collect(self) -> None:
        """Remove expired commits that nothing needs, and raw bytes that are not pinned."""
        self.store.collect([], now=NOW, grace_s=0)
        retained = {
            ancestor
            for name, commit in self.model.items()
            if commit.labels or not commit.is_expired or commit.is_pushed
            for ancestor in self._ancestors(name)
        }
        self.model = {name: self.model[name] for name in self.model if name in retained}
        self.raws = {
            name: data
            for name, data in self.raws.items()
            if name in self.pins | self.purged_raws | self.replicated
        }

    def _ancestors(self, name: CommitId) -> Iterator[CommitId]:
        """Yield a commit and its ancestors."""
        current: CommitId | None = name
        while current is not None:
            yield current
            current = self.model[current].parent

    @rule(text=TEXTS)
    def purge_text(self, text: str) -> None:
        """Purge a text in all messages. What is written again later stays purged."""
        is_stored = any(text in commit.texts for commit in self.model.values())
        if is_stored and text not in self.purged_texts:
            name, _ = part_of(text)
            self.store.purge({name: part_of(GONE)[1]}, Tombstone(when=NOW, by="b", why="w"))
            self.purged_texts.add(text)

    @precondition(lambda self: self.raws.keys() - self.purged_raws)
    @rule()
    def purge_raw(self) -> None:
        name = min(self.raws.keys() - self.purged_raws)
        body = f"gone {name[:9]}".encode()
        self.store.purge({name: body}, Tombstone(when=NOW, by="b", why="w"))
        self.raws[name] = body
        self.raws[hash_raw(body)] = body
        self.purged_raws |= {name, hash_raw(body)}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @rule()
    def die(self) -> None:
        self.store = self.crash()

    @invariant()
    def has_the_commits_of_the_model(self) -> None:
        assert {*self.store.newest_commits(10_000)} == {*self.model}

    @rule()
    def compare(self) -> None:
        """Compare all content with the model."""
        store = self.store
        for name, commit in self.model.items():
            chain = store.chain(name)
            assert [stored.id for stored in chain] == [*self._ancestors(name)]
            assert self._read_texts(chain[0].commit.artifact) == [
                GONE if text in self.purged_texts else text for text in commit.texts
            ]
            children = [n for n, other in self.model.items() if other.parent == name]
            assert store.children(name) == children
            assert chain[0].notes.labels == commit.labels
        for raw, data in self.raws.items():
            assert store.raw(raw) == data
        for label in ("main", "review"):
            expected = [n for n, commit in self.model.items() if label in commit.labels]
            assert store.commits_by_label(label).get(label, []) == expected
        retained = {name for name, policy in store.retention().items() if policy.policy == "pin"}
        assert retained == self.pins
        for checked in self.find_store_files():
            assert fsck(checked) == []

    def _read_texts(self, artifact: ArtifactRef) -> list[str]:
        entries = self.store.deltas([artifact])[artifact]
        messages = self.store.objects([entry.message for entry in entries])
        texts: list[str] = []
        for entry in entries:
            parts = canonical.from_json(messages[entry.message])["parts"]
            bodies = self.store.objects([Hash(part) for part in parts])
            texts += [canonical.from_json(bodies[part])["text"] for part in parts]
        return texts

    def teardown(self) -> None:
        self.compare()
        self.store.close()
        shutil.rmtree(self.folder)


class MemoryMachine(StoreMachine):
    """A store in memory, which neither reopens nor crashes."""

    def open(self) -> Store:
        return getattr(self, "store", None) or MemoryStore()

    def crash(self) -> Store:
        return self.store


class SqliteMachine(StoreMachine):
    """A store in a file. A crash leaves a copy of the file and of its write-ahead log."""

    @property
    def path(self) -> Path:
        return self.folder / f"{getattr(self, 'crashes', 0)}.db"

    def open(self) -> Store:
        return SqliteStore(self.path)

    def crash(self) -> Store:
        old = self.path
        self.crashes = getattr(self, "crashes", 0) + 1
        for end in ("", "-wal"):
            source = old.with_name(old.name + end)
            if source.exists():
                shutil.copy(source, self.path.with_name(self.path.name + end))
        self.store.close()
        return self.open()


class TieredMachine(SqliteMachine):
    """A file in front of another file, with pushes and evictions."""

    def open(self) -> Store:
        local = super().open()
        assert isinstance(local, SqliteStore)
        return TieredStore(local, SqliteStore(self.folder / "backing.db"))

    def find_store_files(self) -> list[Store]:
        assert isinstance(self.store, TieredStore)
        return [self.store.local, self.store.backing]

    @rule()
    def push(self) -> None:
        assert isinstance(self.store, TieredStore)
        self.store.push()
        self.model = {name: replace(c, is_pushed=True) for name, c in self.model.items()}

    @rule(data=RAWS)
    def replicate(self, data: bytes) -> None:
        """Send raw bytes to the backing store, and pin them here or let them go."""
        name = hash_raw(data)
        if name not in self.purged_raws:
            self.store.write(WriteBatch(raw={name: data}))
            self.store.set_retention({name: RetentionPolicy("replicate")})
            self.store.set_retention({name: RetentionPolicy("pin") if name in self.pins else None})
            self.raws[name] = data
            self.replicated.add(name)

    @invariant()
    def has_pinned_bytes_here(self) -> None:
        assert isinstance(self.store, TieredStore)
        for name in self.pins:
            assert self.store.local.raw(name) == self.raws[name]

    @rule(size=st.sampled_from([0, 1000]))
    def evict(self, size: int) -> None:
        assert isinstance(self.store, TieredStore)
        self.store.evict(size)
