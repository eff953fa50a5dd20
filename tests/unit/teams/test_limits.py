"""Quotas, legal holds and retention rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.core import structs
from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId, CommitNotes
from harken.errors import HarkenError
from harken.store.base import BranchMove, RetentionPolicy, Tombstone
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.teams.access_index import AccessIndex
from harken.teams.directory import Quota, RetentionRule
from harken.teams.holds import ContentHeld, HoldingStore, Holds
from harken.teams.retention import plan_expiry, remove_expired
from harken.teams.scopes import CommitScope, parse_scope
from harken.testing.store import batch_of, commit_in
from tests.team_kit import TeamService, team_service

WHEN = "2026-01-01T00:00:00.000000Z"
NOW_US = parse_rfc3339("2026-06-01T00:00:00Z")
DAY_S = 86_400
STONE = Tombstone(WHEN, "me", "")
STAND_IN = b'{"text":"[purged]","type":"text"}'


def write(store: SqliteStore, text: str, *labels: str, parent: CommitId | None = None) -> CommitId:
    batch = batch_of(text, parent=parent, notes=CommitNotes(labels=labels), principal="ann")
    store.write(batch)
    return commit_in(batch)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.db", clock=lambda: NOW_US)) as store:
        yield store


class Clock:
    """A clock that a test sets."""

    now_us = NOW_US

    def __call__(self) -> int:
        return self.now_us


def write_text(client_of: TeamService, user: str, text: str) -> tuple[int, str]:
    body = {"messages": [{"role": "user", "content": text}], "created_at": WHEN}
    with client_of.client(user) as client:
        response = client.post("/v1/checkpoint", json=body)
        return response.status_code, response.text


def test_a_quota_of_commits_ends_and_begins_again(tmp_path: Path) -> None:
    clock = Clock()
    with team_service(tmp_path, clock=clock) as service:
        service.add("ann", "write *", quota=Quota(commits=2, period_s=60))
        service.add("ben", "write *")
        results = [write_text(service, "ann", text) for text in "abc"]
        assert [status for status, _ in results] == [200, 200, 429]
        assert "quota_exceeded" in results[2][1]
        assert "2 commits in 60 s; it begins again at 2026-06-01T00:01:00" in results[2][1]
        assert len(service.store.newest_commits(10)) == 2
        assert write_text(service, "ben", "d")[0] == 200
        clock.now_us += 60 * 1_000_000
        assert write_text(service, "ann", "e")[0] == 200
        assert [r.code for r in service.audit()].count("quota_exceeded") == 1


def test_a_quota_of_bytes_counts_on_all_ways(tmp_path: Path) -> None:
    """Commits, objects without commits, and logs; one that can never fit is too large."""
    with team_service(tmp_path) as service:
        service.add("ann", "write *", quota=Quota(size_bytes=4000))
        batch = batch_of("x" * 1000, principal="ann")
        with service.remote("ann") as store:
            store.write(structs.replace(batch, commits=[], deltas={}))
            store.write(batch)
            store.write(batch)  # A repetition changes nothing, and counts.
        status, text = write_text(service, "ann", "y" * 1000)
        assert (status, "quota_exceeded" in text) == (429, True)
        with service.client("ann") as client:
            headers = {"content-type": "application/octet-stream"}
            response = client.post("/v1/logs/a?from=0", content=b"{}\n" * 500, headers=headers)
            assert response.status_code == 429
            assert list((tmp_path / "sessions").iterdir()) == []
        status, text = write_text(service, "ann", "y" * 4001)
        assert (status, "too_large" in text) == (413, True)


@pytest.mark.parametrize("user", ["ann", "owner"])
def test_a_hold_wins_over_the_purge_of_everyone(tmp_path: Path, user: str) -> None:
    with team_service(tmp_path) as service:
        service.add("ann", "purge *", "admin *", "write *")
        before = batch_of("earlier", principal="ann")
        batch = batch_of("evidence", parent=commit_in(before), notes=CommitNotes(labels=("case",)),
                         principal="ann")  # fmt: skip
        for each in (before, batch):
            service.store.write(each)
        service.directory.add_rule(RetentionRule("case-7", "hold", CommitScope(label="case")))
        parts = [name for b in (before, batch) for name, body in b.objects.items()
                 if b"text" in body]  # fmt: skip
        with service.remote(user) as store:
            for name in parts:
                assert "legal hold (case-7)" in refusal(store, "purge", {name: STAND_IN}, STONE)
            held = CommitNotes(labels=("other",))
            assert "legal hold" in refusal(store, "update_notes", commit_in(batch), held)
            ephemeral = RetentionPolicy("ephemeral", WHEN)
            store.update_notes(commit_in(batch), CommitNotes(labels=("case",), summary="s"))
            store.set_retention(dict.fromkeys(map(commit_in, (before, batch)), ephemeral))
            store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
            assert len(store.commits([commit_in(before), commit_in(batch)])) == 2
            service.directory.remove_rule("case-7")
            store.purge({parts[0]: STAND_IN}, STONE)
        assert service.store.tombstones().keys() == {parts[0]}


def refusal(store: RemoteStore, method: str, *arguments: object) -> str:
    with pytest.raises((HarkenError, ValueError)) as caught:
        getattr(store, method)(*arguments)
    return str(caught.value)


def test_a_hold_of_one_commit_covers_its_conversation_only(store: SqliteStore) -> None:
    one = write(store, "one")
    two = write(store, "two", parent=one)
    three = write(store, "three", parent=two)
    rule = RetentionRule("h", "hold", commit=two)
    with closing(AccessIndex()) as index:
        holding = HoldingStore(store, Holds([rule], store, index))
        for name in (one, two):
            (artifact,) = (c.commit.artifact for c in store.commits([name]).values())
            for held in (name, artifact):
                with pytest.raises(ContentHeld):
                    holding.purge({held: b"[]"}, STONE)
        (artifact,) = (c.commit.artifact for c in store.commits([three]).values())
        holding.purge({artifact: b"[]"}, STONE)
        assert set(Holds([rule], store, index).list_commits()) == {two}


def test_a_hold_keeps_commits_that_nothing_else_keeps(store: SqliteStore) -> None:
    """No label, no branch, an expired retention."""
    one = write(store, "one")
    two = write(store, "two", parent=one)
    store.set_retention(dict.fromkeys((one, two), RetentionPolicy("ephemeral", WHEN)))
    rule = RetentionRule("h", "hold", CommitScope(principal="ann"))
    now = "2026-06-01T00:00:00Z"
    with closing(AccessIndex()) as index:
        HoldingStore(store, Holds([rule], store, index)).collect([], now=now, grace_s=0)
        assert set(store.newest_commits(10)) == {one, two}
        HoldingStore(store, Holds([], store, index)).collect([], now=now, grace_s=0)
        assert store.newest_commits(10) == []


RULE = RetentionRule("old", "expire", parse_scope("project:cafe"), 90 * DAY_S)


def expired(store: SqliteStore, *rules: RetentionRule, **names: list[CommitId]) -> set[CommitId]:
    held, mentioned = names.get("held_names", []), names.get("mentioned", [])
    plan = plan_expiry(store, rules, held_names=held, mentioned=mentioned, now_us=NOW_US)
    return set(plan.expired)


def test_commits_expire_by_age_and_scope(store: SqliteStore) -> None:
    cafe = write(store, "cafe", "project:cafe")
    park = write(store, "park", "project:park")
    public = write(store, "public", "project:cafe", "public")
    assert expired(store, RULE) == {cafe, public}
    assert expired(store, structs.replace(RULE, older_than_s=200 * DAY_S)) == set()
    label = RetentionRule("l", "expire", parse_scope("project:cafe,label:public"), DAY_S)
    assert expired(store, label) == {public}
    assert expired(store, structs.replace(label, scope=CommitScope())) == {cafe, park, public}
    assert expired(store, structs.replace(RULE, kind="hold")) == set()
    assert expired(store) == set()


def test_a_commit_stays_while_anything_that_stays_needs_it(store: SqliteStore) -> None:
    one = write(store, "one", "project:cafe")
    two = write(store, "two", "project:cafe", parent=one)
    other = write(store, "other", "project:park", parent=one)
    alone = write(store, "alone", "project:cafe")
    assert expired(store, RULE) == {two, alone}
    assert expired(store, RULE, held_names=[two]) == {alone}
    assert expired(store, RULE, mentioned=[alone]) == {two}
    store.move_branch("main", two, expected=None)
    store.set_retention({alone: RetentionPolicy("pin")})
    plan = plan_expiry(store, [RULE], held_names=[other], mentioned=[], now_us=NOW_US)
    assert plan.expired == []
    assert dict(plan.kept_counts) == {"held": 1, "head of a branch": 1, "pinned": 1}


def test_expired_commits_are_removed_with_their_content(store: SqliteStore) -> None:
    gone = batch_of("gone", notes=CommitNotes(labels=("project:cafe",)))
    store.write(gone)
    stays = write(store, "stays", "project:park")
    plan = plan_expiry(store, [RULE], held_names=[], mentioned=[], now_us=NOW_US)
    result = remove_expired(store, plan, roots=[], now_us=NOW_US, grace_s=0)
    assert result.commits == (commit_in(gone),)
    assert store.newest_commits(10) == [stays]
    assert store.objects(gone.objects) == {}
    again = plan_expiry(store, [RULE], held_names=[], mentioned=[], now_us=NOW_US)
    assert again.expired == []
    assert remove_expired(store, again, roots=[], now_us=NOW_US, grace_s=0).commits == ()


def test_a_removal_goes_on_after_an_interruption(store: SqliteStore) -> None:
    """Labels are gone, the commits not yet: the next collection removes them."""
    one = write(store, "one", "project:cafe")
    plan = plan_expiry(store, [RULE], held_names=[], mentioned=[], now_us=NOW_US)
    remove_expired(store, plan, roots=[one], now_us=NOW_US, grace_s=0)
    assert store.newest_commits(10) == [one]
    store.collect([], now="2026-06-01T00:00:00Z", grace_s=0)
    assert store.newest_commits(10) == []


def test_a_commit_that_is_continued_meanwhile_stays(store: SqliteStore) -> None:
    one = write(store, "one", "project:cafe")
    plan = plan_expiry(store, [RULE], held_names=[], mentioned=[], now_us=NOW_US)
    new = batch_of("new", parent=one, second=1)
    store.write(structs.replace(new, moves={"main": BranchMove(commit_in(new))}))
    remove_expired(store, plan, roots=[], now_us=NOW_US, grace_s=0)
    assert set(store.newest_commits(10)) == {one, commit_in(new)}
