"""What a user may not read is as if it did not exist, on every way, and cannot be reached by writes.

Each refusal is compared with that of a name that does not exist: equal but for the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harken.core import structs
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    HeadName,
    commit_bytes,
    encode_delta,
    encode_sequence,
    hash_raw,
)
from harken.core.messages import Occurrence
from harken.errors import BranchConflict, HarkenError, NameNotFound, ObjectNotFound, StoreError
from harken.store.base import (
    BranchMove,
    ObjectKind,
    RetentionPolicy,
    Tombstone,
    WriteBatch,
)
from harken.store.remote.store import RemoteStore
from harken.testing.store import batch_of, commit_in
from tests.team_kit import TeamService, team_service

SECRET = "the secret of the cafe"
WHEN = "2026-01-01T00:00:00.000000Z"
ZERO = "0" * 64


class World:
    """A service with a secret in project cafe, and Ben, who reads and writes project park."""

    def __init__(self, service: TeamService) -> None:
        self.service, store = service, service.store
        secret = batch_of(SECRET, principal="ann", notes=notes("project:cafe", "private"))
        self.secret = commit_in(secret)
        store.write(structs.replace(secret, moves={"cafe-main": BranchMove(self.secret)}))
        raw = SECRET.encode() * 3
        pieces = {hash_raw(part): part for part in (raw[:10], raw[10:])}
        self.file = hash_raw(raw)
        store.write(WriteBatch(raw=pieces, files={self.file: [*pieces]}))
        commit = Commit(artifact=self.file, format="x", principal="ann", created_at=WHEN)
        store.write(WriteBatch(commits=[(commit, notes("project:cafe"))]))
        other = batch_of("another secret", principal="ann", notes=notes("project:cafe"), second=2)
        store.write(other)
        self.message = next(n for n, body in other.objects.items() if b'"parts"' in body)
        self.part = next(n for n, body in other.objects.items() if b"another secret" in body)
        gone = batch_of("purged", principal="ann", notes=notes("project:cafe"), second=4)
        store.write(gone)
        self.purged = next(n for n, body in gone.objects.items() if b"purged" in body)
        stand_in = b'{"text":"[gone]","type":"text"}'
        store.purge({self.purged: stand_in}, Tombstone(WHEN, "ann", ""))
        self.sequence, _ = encode_sequence([self.delta])
        store.write(WriteBatch(sequences={self.sequence: [self.delta]}))
        snapshot = structs.replace(commit, artifact=self.sequence, parent=self.secret)
        store.write(WriteBatch(commits=[(snapshot, notes("project:cafe"))]))
        self.child = snapshot.id
        store.set_retention({self.secret: RetentionPolicy("pin")})
        store.move_head(HeadName("tkt-" + ZERO), self.file, expected=None)
        store.move_head(HeadName("src-" + ZERO), self.file, expected=None)
        self.hidden = {obj.name for obj in store.iter_objects()}
        self.open = commit_in(batch_of("hello", principal="ben", notes=notes("project:park")))
        store.write(batch_of("hello", principal="ben", notes=notes("project:park")))

    @property
    def delta(self) -> ArtifactRef:
        return self.service.store.commits([self.secret])[self.secret].commit.artifact


def notes(*labels: str) -> CommitNotes:
    return CommitNotes(summary="a summary", labels=labels)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with team_service(tmp_path_factory.mktemp("team")) as service:
        service.add("ben", "write project:park", "purge project:park")
        service.add("copier", "write project:park", "copy project:park")
        service.add("ann", "write project:cafe", "purge project:cafe")
        yield World(service)


@pytest.fixture
def ben(world: World) -> Iterator[RemoteStore]:
    with world.service.remote("ben") as store:
        yield store


def refusal(act: Callable[..., object], *arguments: Any, **options: Any) -> HarkenError:
    with pytest.raises(HarkenError) as caught:
        act(*arguments, **options)
    return caught.value


def test_no_hidden_object_is_read_by_its_name(world: World, ben: RemoteStore) -> None:
    names: Any = world.hidden
    assert len(names) > 8
    for read in (ben.objects, ben.deltas, ben.sequences, ben.raws, ben.commits):
        assert not read(names)
    for name in names:
        for read_one in (ben.raw, ben.chunk_names):
            refused, missing = (refusal(read_one, n) for n in (name, "art-" + ZERO))
            assert type(refused) is type(missing) is ObjectNotFound
        assert type(refusal(ben.chain, name)) is NameNotFound
        assert ben.children(name) == []


def test_no_list_shows_anything_hidden(world: World, ben: RemoteStore) -> None:
    [delta] = [c.commit.artifact for c in ben.commits([world.open]).values()]
    assert ben.newest_commits(1000) == [world.open]
    assert ben.names_with_prefix("", 1000) == [delta, world.open]
    for name in world.hidden:
        for end in (3, 6, 12, 40, len(name)):
            assert name not in ben.names_with_prefix(name[:end], 1000)
    assert ben.latest_commit("ann", "2100-01-01T00:00:00Z") is None
    assert ben.branches() == {}
    assert ben.find_branch("cafe-main") is None
    assert ben.heads() == {}
    assert ben.commits_by_label() == {"project:park": [world.open]}
    assert ben.commits_by_label("private") == {}
    assert ben.retention() == {}
    assert ben.tombstones() == {}
    assert {obj.name for obj in ben.iter_objects()}.isdisjoint(world.hidden)
    assert ben.stats().objects["commit"] == 1
    assert ben.stats().stored_bytes < 2000
    assert ben.find_derived([f"materialized compaction {world.secret}"]) == {}


PATHS = [
    "/v1/commits/{}",
    "/v1/commits/{}/history",
    "/v1/commits/{}/children",
    "/v1/materialize?messages=true&ctx={}",
    "/v1/render?format=events-v1&ctx={}",
    "/v1/diff?ours={}&theirs={}",
    "/v1/store/raw/{}",
    "/v1/store/chunks/{}",
    "/v1/labels/{}",
    "/v1/names?beginning={}",
    "/v1/resolve?time=2100-01-01T00:00:00Z&principal={}",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_request_about_a_hidden_name_is_as_one_about_none(world: World, path: str) -> None:
    """Full names, prefixes, branches, labels, principals: all give what a random one gives."""
    prefix, artifact = world.secret[:10], world.delta
    hidden = [
        world.secret,
        prefix,
        artifact,
        artifact[:9],
        "cafe-main",
        "private",
        "ann@now",
        "ann",
    ]
    none = ["ctx-" + ZERO, "ctx-000000", "art-" + ZERO, "art-00000", "park-main", "pritave",
            "anx@now", "anx"]  # fmt: skip
    with world.service.client("ben") as client:
        for name, other in zip(hidden, none, strict=True):
            got, expected = (client.get(path.format(n, n)) for n in (name, other))
            assert got.status_code == expected.status_code, name
            assert got.text.replace(name, "NAME") == expected.text.replace(other, "NAME")
            assert SECRET not in got.text


def test_a_diff_with_a_hidden_commit_is_refused(world: World) -> None:
    with world.service.client("ben") as client:
        response = client.get(f"/v1/diff?ours={world.open}&theirs={world.secret}")
        assert (response.status_code, SECRET in response.text) == (404, False)


def test_who_reads_a_commit_reads_its_conversation(world: World) -> None:
    """A commit is the conversation up to it: its ancestors, whatever their project is."""
    with world.service.remote("ann") as ann:
        batch = batch_of("more", parent=world.secret, principal="ann", second=5)
        ann.write(batch)
        assert [c.id for c in ann.chain(commit_in(batch))][1] == world.secret


@pytest.mark.parametrize("principal", ["ann", "benjamin", "Ben", "ben ", "bеn", "", "ann/ben"])
def test_nobody_writes_as_another(ben: RemoteStore, principal: str) -> None:
    batch = batch_of("forged", principal=principal, notes=notes("project:park"))
    assert "writes as ben" in str(refusal(ben.write, batch))


def test_the_same_on_every_way_that_creates_a_commit(world: World) -> None:
    message = {"role": "user", "content": "forged"}
    with world.service.client("ben") as client:
        for path, more in (
            ("checkpoint", {"messages": [message]}),
            (f"commits/{world.open}/fork", {}),
            (f"commits/{world.open}/compact", {"context": "short"}),
        ):
            body = {"principal": "ann", "created_at": WHEN, **more}
            response = client.post(f"/v1/{path}", json=body)
            assert (response.status_code, "writes as ben" in response.text) == (403, True), path
            response = client.post(f"/v1/{path}", json={**body, "principal": "ben/helper"})
            assert response.status_code == 200, response.text


def test_the_service_signs_commits(world: World) -> None:
    """Also a snapshot, which otherwise has the principal of its parent."""
    with world.service.client("copier") as client:
        for path, body in (
            ("checkpoint", {"parent": world.open, "messages": [{"role": "user", "content": "a"}]}),
            (f"commits/{world.open}/fork", {}),
            (f"commits/{world.open}/compact", {"context": "short"}),
            (f"commits/{world.open}/snapshot", None),
        ):
            response = client.post(f"/v1/{path}", json=body and {"created_at": WHEN, **body})
            name = response.json()["id"]
            assert client.get(f"/v1/commits/{name}").json()["principal"] == "copier"


def test_commits_of_others_are_copied_with_that_right(world: World) -> None:
    batch = batch_of("from afar", principal="zoe", notes=notes("project:park"))
    with world.service.remote("copier") as copier:
        copier.write(batch)
        assert copier.commits([commit_in(batch)])
        elsewhere = batch_of("x", principal="zoe", notes=notes("project:cafe"))
        assert "no right 'copy'" in str(refusal(copier.write, elsewhere))


@pytest.mark.parametrize(
    "labels",
    [("project:cafe",), ("project:park", "project:cafe"), ("project:",), ("project:PARK",)],
)
def test_nobody_writes_into_another_project(ben: RemoteStore, labels: tuple[str, ...]) -> None:
    batch = batch_of("misplaced", principal="ben", notes=notes(*labels))
    assert isinstance(refusal(ben.write, batch), StoreError)


def test_a_hidden_parent_is_none(world: World, ben: RemoteStore) -> None:
    """A commit on top of a hidden one would make its conversation readable."""
    for parent in (world.secret, CommitId("ctx-" + ZERO)):
        batch = batch_of("on top", principal="ben", parent=parent, notes=notes("project:park"))
        error = refusal(ben.write, batch)
        assert isinstance(error, ObjectNotFound)
        assert error.name == parent
    assert ben.newest_commits(1000) == [n for n in ben.newest_commits(1000) if n != world.secret]


def test_hidden_content_is_not_adopted(world: World, ben: RemoteStore) -> None:
    """By an artifact, a sequence, a delta, a message or a file that names it."""
    store = world.service.store
    (message,) = {e.message for e in store.deltas([world.delta])[world.delta]}
    (part,) = (o.name for o in store.iter_objects() if SECRET.encode() in o.body
               and o.kind is ObjectKind.PART)  # fmt: skip
    delta, _ = encode_delta(entries := [DeltaEntry(Hash(message), Occurrence())])
    sequence, _ = encode_sequence([world.delta])
    body = b'{"parts":["%s"],"role":"user"}' % part.encode()
    chunks = store.chunk_names(world.file)
    commit = Commit(artifact=world.delta, principal="ben", created_at=WHEN)
    for batch in (
        WriteBatch(commits=[(commit, notes("project:park"))]),
        WriteBatch(deltas={delta: entries}),
        WriteBatch(sequences={sequence: [world.delta]}),
        WriteBatch(objects={_hash_message(body): body}),
        WriteBatch(files={world.file: chunks}),
    ):
        assert isinstance(refusal(ben.write, batch), ObjectNotFound), batch


def _hash_message(body: bytes) -> Hash:
    from harken.store.batch import compute_name

    return Hash(compute_name(ObjectKind.MESSAGE, body))


def test_content_that_a_user_has_may_be_sent_again(world: World, ben: RemoteStore) -> None:
    """Equal content has one name. The sender reads it then, and only it."""
    batch = batch_of(SECRET, principal="ben", notes=notes("project:park"), second=9)
    ben.write(batch)
    assert ben.objects(batch.objects) == batch.objects
    assert ben.commits([world.secret]) == {}


def test_uploads_are_the_senders_until_a_commit_has_them(world: World, ben: RemoteStore) -> None:
    """A copy sends objects before their commits, and continues after an interruption."""
    batch = batch_of("in two parts", principal="ben", notes=notes("project:park"))
    ben.write(WriteBatch(objects=batch.objects))
    assert ben.objects(batch.objects) == batch.objects
    with world.service.remote("copier") as other:
        assert other.objects(batch.objects) == {}
        ben.write(structs.replace(batch, objects={}))
        assert other.objects(batch.objects) == batch.objects


def test_hidden_commits_are_not_changed(world: World, ben: RemoteStore) -> None:
    for name in (world.secret, CommitId("ctx-" + ZERO)):
        assert isinstance(refusal(ben.update_notes, name, notes()), NameNotFound)
    assert isinstance(
        refusal(ben.set_retention, {world.secret: RetentionPolicy("pin")}), ObjectNotFound
    )


def test_a_project_is_left_with_the_right_of_an_administrator_only(
    world: World, ben: RemoteStore
) -> None:
    for labels in ((), ("project:cafe",), ("project:park", "project:cafe")):
        error = refusal(ben.update_notes, world.open, notes(*labels))
        assert "right" in str(error) or "one project" in str(error), labels
    ben.update_notes(world.open, notes("project:park", "reviewed"))
    assert ben.commits_by_label("reviewed") == {"reviewed": [world.open]}


def test_a_label_gives_no_right_to_its_writer(world: World) -> None:
    """Who may write what has a label cannot add it to commits of others first."""
    world.service.add("labeller", "read project:park", "write label:mine")
    with world.service.remote("labeller") as store:
        for labels in (("project:park", "mine"), ("mine",)):
            error = refusal(store.update_notes, world.open, notes(*labels))
            assert "no right 'write'" in str(error)
        error = refusal(store.move_branch, "new", world.open, expected=None)
        assert "no right 'write'" in str(error)
        world.service.store.move_branch("taken", world.open, expected=None)
        error = refusal(store.move_branch, "taken", None, expected=world.open)
        assert "no right 'write'" in str(error)
        world.service.store.move_branch("taken", None, expected=world.open)


def test_branches_lead_to_readable_commits_only(world: World, ben: RemoteStore) -> None:
    move = ben.move_branch
    assert isinstance(refusal(move, "mine", world.secret, expected=None), NameNotFound)
    for to in (None, world.open):
        for expected in (None, world.secret):
            error = refusal(move, "cafe-main", to, expected=expected)
            assert isinstance(error, BranchConflict)
            assert error.actual is None
    batch = batch_of("b", principal="ben", notes=notes("project:park"), second=3)
    moved = structs.replace(batch, moves={"cafe-main": BranchMove(commit_in(batch))})
    assert isinstance(refusal(ben.write, moved), BranchConflict)
    ben.write(structs.replace(batch, moves={"park": BranchMove(commit_in(batch))}))
    assert ben.branches() == {"park": commit_in(batch)}
    assert world.service.store.find_branch("cafe-main") == world.secret


def test_derived_content_is_not_planted(world: World, ben: RemoteStore) -> None:
    """A derived entry would be believed by whoever materializes that commit."""
    key, false = f"materialized compaction {world.open}", b"false"
    ref = hash_raw(false)
    ben.write(WriteBatch(raw={ref: false}, derived={key: ref}))
    assert world.service.store.find_derived([key]) != {key: ref}


def test_tombstones_are_not_planted(world: World, ben: RemoteStore) -> None:
    """A tombstone for content that does not exist yet would replace it for everyone."""
    stand_in = b"instead"
    target, name = hash_raw(stand_in), hash_raw(b"what Ann will say")
    batch = WriteBatch(
        raw={target: stand_in}, tombstones={name: Tombstone(WHEN, "ben", "", target)}
    )
    for user in ("ben", "copier"):
        with world.service.remote(user) as store:
            assert "copy *" in str(refusal(store.write, batch))
    assert world.service.store.tombstones().keys() == {world.purged}


def test_a_purge_reaches_what_is_in_the_users_scope_alone(world: World, ben: RemoteStore) -> None:
    stone = Tombstone(WHEN, "someone else", "")
    for name in (world.file, ArtifactRef("art-" + ZERO)):
        assert isinstance(refusal(ben.purge, {name: b"[]"}, stone), ObjectNotFound)
    both = batch_of("said in both", principal="ben", notes=notes("project:park"), second=7)
    ben.write(both)
    with world.service.remote("ann") as ann:
        ann.write(batch_of("said in both", principal="ann", notes=notes("project:cafe")))
    (part,) = (n for n, body in both.objects.items() if b"said in both" in body)
    stand_in = b'{"text":"[purged]","type":"text"}'
    assert "all commits that contain it" in str(refusal(ben.purge, {part: stand_in}, stone))
    mine = batch_of("said in one", principal="ben", notes=notes("project:park"), second=8)
    ben.write(mine)
    (part,) = (n for n, body in mine.objects.items() if b"said in one" in body)
    ben.purge({part: stand_in}, stone)
    assert world.service.store.tombstones()[part].by == "ben"


def test_a_stand_in_adopts_nothing_hidden(world: World, ben: RemoteStore) -> None:
    """A purge of own content with a replacement that names the content of another project."""
    (secret,) = world.service.store.deltas([world.delta])[world.delta]
    stone = Tombstone(WHEN, "ben", "")
    batch = batch_of("mine", principal="ben", notes=notes("project:park"), second=11)
    ben.write(batch)
    ((delta, entries),) = batch.deltas.items()
    message = next(name for name, body in batch.objects.items() if b"parts" in body)
    stored = world.service.store.commits([commit_in(batch)])[commit_in(batch)].commit
    for name, body in (
        (delta, encode_delta([structs.replace(secret, message=Hash(world.message))])[1]),
        (message, b'{"parts":["%s"],"role":"user"}' % world.part.encode()),
        (commit_in(batch), commit_bytes(structs.replace(stored, artifact=world.file))),
    ):
        assert isinstance(refusal(ben.purge, {name: body}, stone), ObjectNotFound), name
    forged = commit_bytes(structs.replace(stored, principal="ann"))
    assert "keep its principal" in str(refusal(ben.purge, {commit_in(batch): forged}, stone))
    part = next(name for name, body in batch.objects.items() if b"mine" in body)
    text = b'{"text":"instead of %s","type":"text"}' % (b"a" * 64)
    ben.purge({part: text, delta: encode_delta([*entries, *entries])[1]}, stone)
    assert ben.objects([Hash(part)])[Hash(part)] == text


def test_a_collection_needs_an_administrator(ben: RemoteStore) -> None:
    assert "no right 'admin'" in str(refusal(ben.collect, [], now=WHEN, grace_s=0))


def test_tickets_and_imported_files_belong_to_no_project(world: World, ben: RemoteStore) -> None:
    for prefix in ("tkt-", "src-"):
        name = HeadName(prefix + "1" * 64)
        error = refusal(ben.move_head, name, world.file, expected=None)
        assert "write *" in str(error)
    assert "write *" in str(refusal(ben.set_heads, {HeadName("src-" + ZERO): None}))


def test_logs_of_two_users_are_two_files(world: World) -> None:
    """So a name tells nothing, and no log of another user is continued, read or measured."""
    for user in ("ben", "ann"):
        with world.service.remote(user) as store:
            assert store.log_end("session").size_bytes == 0
    with world.service.client("ben") as client:
        for name in ("ann~session", "..%2Fx", "%2e%2e", ".x", "a%00", "ann%7Esession", "é"):
            response = client.get(f"/v1/logs/{name}")
            assert response.status_code in (404, 422), name


def test_the_scope_of_everything_includes_what_belongs_to_no_commit(world: World) -> None:
    """Tickets, imported files and their content."""
    world.service.add("reader", "read *")
    with world.service.remote("reader") as reader:
        assert set(reader.heads()) == {"tkt-" + ZERO, "src-" + ZERO}
        assert reader.raw(world.file) == SECRET.encode() * 3
        assert {obj.name for obj in reader.iter_objects()} >= world.hidden
        assert "no right 'write'" in str(refusal(reader.write, WriteBatch()))


def test_changes_show_what_is_readable(world: World) -> None:
    names: set[str] = set()
    with world.service.client("ben") as client:
        after = 0
        while (page := client.get(f"/v1/changes?limit=3&after={after}").json())["next"] != after:
            after = page["next"]
            names |= {value for c in page["changes"] for key, value in c.items() if key != "kind"}
    assert world.open in names
    assert not [name for name in map(str, names) if name in world.hidden or "cafe" in name]
    assert not [name for name in map(str, names) if name.startswith(("tkt-", "src-"))]


def test_the_head_of_a_ticket_is_no_way_to_its_name(world: World, ben: RemoteStore) -> None:
    """A ticket may have content that the user may read, for example because it is the same."""
    data = b"shared content"
    ben.write(WriteBatch(raw={hash_raw(data): data}))
    name = HeadName("tkt-" + "2" * 64)
    world.service.store.move_head(name, hash_raw(data), expected=None)
    after = world.service.store.changes(0, 10_000).next
    page = ben.changes(max(after - 1, 0))
    assert name not in [change.name for change in page.changes]
    world.service.store.move_branch("shown", world.open, expected=None)
    assert [c.name for c in ben.changes(page.next).changes] == ["shown"]
    world.service.store.move_branch("shown", world.secret, expected=world.open)
    (moved,) = ben.changes(after + 1).changes[-1:]
    assert (moved.to, moved.was) == ("", world.open)
    world.service.store.move_branch("shown", None, expected=world.secret)


def test_no_request_left_the_secret_in_the_audit_log(world: World) -> None:
    text = (world.service.folder / "audit.jsonl").read_text()
    assert SECRET not in text
    assert not re.search("hkt_", text)
    assert not [token for token in world.service.tokens.values() if token in text]
