"""No branch sees another's messages, whatever is done to any of them, in memory and in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import commit_history, diff, get_commit, resolve, update_metadata
from harken.context.materialize import Cache, materialize
from harken.context.purge import PurgeRequest, find_text, purge_text
from harken.core.commits import CommitId, CommitNotes, CommitType
from harken.core.messages import Message, text_of
from harken.core.replace import PURGED, Secret
from harken.errors import NameNotFound
from harken.store.base import RetentionPolicy, Store
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.property.branch_model import Said, Seen, begun, common, grown, stood_for

BRANCHES = 6
"""How many there are at once at most."""
SECRETS = ["secret 1234", "token 5678"]
TEXTS = ["", "a", "b", "the same everywhere", "\ud800 alone", "é" * 300, *SECRETS]
SAID = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(TEXTS)), max_size=3
)
SECONDS = st.integers(0, 5)
PRINCIPALS = st.sampled_from(["ann", "bo"])
Policy: TypeAlias = Literal["pin", "ephemeral"]
ANY = st.integers(0, 99)
"""Which of those that there are."""


def messages(said: Iterable[Said]) -> list[Message]:
    return [Message(role, text) for role, text in said]  # type: ignore[arg-type]


def read(found: Iterable[Message]) -> list[Said]:
    return [(message.role, text_of(message.content)) for message in found]


def long_ago() -> int:
    """Return when everything was written: nothing is too young to be collected."""
    return 0


def time(second: int) -> str:
    return f"2026-01-31T12:00:{second:02d}.000000Z"


class Branches(RuleBasedStateMachine):
    """Branches grow, part, are summed up, repeated and described; the model knows what each is."""

    def __init__(self) -> None:
        super().__init__()
        self.handles = self.opened()
        self.steps = 0
        self.cache: Cache = {}
        self.seen: dict[CommitId, Seen] = {}
        """Every commit, in the order of writing."""
        self.notes: dict[CommitId, CommitNotes] = {}
        self.tips: list[CommitId] = []
        self.kept: dict[CommitId, RetentionPolicy] = {}
        self.purged: set[str] = set()

    def opened(self) -> list[Store]:
        """Return two handles of one store."""
        store = MemoryStore(clock=long_ago)
        return [store, store]

    @property
    def store(self) -> Store:
        """The handle whose turn it is: each writes what the other one reads."""
        return self.handles[self.steps % 2]

    def pick(self, at: int) -> CommitId:
        return list(self.seen)[at % len(self.seen)]

    def tip(self, branch: int) -> CommitId:
        return self.tips[branch % len(self.tips)]

    def clean(self, said: list[Said]) -> list[Said]:
        """What is read where this was written."""
        return [(role, PURGED if text in self.purged else text) for role, text in said]

    def known(self, ctx: CommitId, seen: Seen, branch: int | None = None) -> None:
        """Note a commit that was made; it is the new end of a branch, or a branch of its own."""
        assert self.seen.setdefault(ctx, seen) == seen, "equal names, other content"
        self.notes.setdefault(ctx, get_commit(self.store, ctx).notes)
        if branch is None and len(self.tips) < BRANCHES:
            self.tips.append(ctx)
        else:
            self.tips[(branch or 0) % len(self.tips)] = ctx

    def draft(
        self, said: list[Said], parent: CommitId | None, second: int, who: str
    ) -> CommitDraft:
        origin = CommitOrigin(principal=who)
        return CommitDraft(
            messages=messages(said), parent=parent, created_at=time(second), origin=origin
        )

    @initialize(said=SAID, second=SECONDS, who=PRINCIPALS)
    def first(self, said: list[Said], second: int, who: str) -> None:
        self.root(said, second, who, "delta")

    @rule(said=SAID, second=SECONDS, who=PRINCIPALS, type_=st.sampled_from(get_args(CommitType)))
    def root(self, said: list[Said], second: int, who: str, type_: CommitType) -> None:
        whole = [("system", "You are " + who), *said]
        ctx = checkpoint(self.store, replace(self.draft(whole, None, second, who), type=type_))
        self.known(ctx, begun(ctx, whole))

    @rule(branch=ANY, said=SAID, second=SECONDS, who=PRINCIPALS)
    def grow(self, branch: int, said: list[Said], second: int, who: str) -> None:
        parent = self.tip(branch)
        ctx = checkpoint(self.store, self.draft(said, parent, second, who))
        assert checkpoint(self.store, self.draft(said, parent, second, who)) == ctx
        self.known(ctx, grown(self.seen[parent], ctx, said), branch)

    @rule(at=ANY, said=SAID, second=SECONDS, who=PRINCIPALS)
    def fork(self, at: int, said: list[Said], second: int, who: str) -> None:
        parent = self.pick(at)
        ctx = checkpoint(self.store, self.draft(said, parent, second, who))
        self.known(ctx, grown(self.seen[parent], ctx, said))

    @rule(at=ANY, said=SAID, second=SECONDS, who=PRINCIPALS)
    def spawn(self, at: int, said: list[Said], second: int, who: str) -> None:
        parent = self.pick(at)
        draft = self.draft(said, parent, second, who)
        ctx = checkpoint(self.store, replace(draft, type="snapshot", trigger="spawn"))
        self.known(ctx, begun(ctx, said, self.seen[parent].path))

    @rule(at=ANY, said=SAID, second=SECONDS, who=PRINCIPALS, text=st.sampled_from(["so far", "b"]))
    def compact(self, at: int, said: list[Said], second: int, who: str, text: str) -> None:
        """What is pending comes first; without it an old chain is summed up, once more perhaps."""
        parent = self.pick(at)
        ctx = compact(self.store, self.draft(said, parent, second, who), text)
        before = self.seen[parent]
        if said:
            between = commit_history(self.store, ctx, 2)[1].id
            before = grown(before, between, said)
            self.known(between, before)
        system = list(takewhile(lambda one: one[0] == "system", before.default))
        self.known(ctx, stood_for(before, ctx, [*system, ("user", text)]))

    @rule(at=ANY)
    def snapshot(self, at: int) -> None:
        parent = self.seen[self.pick(at)]
        ctx = snapshot(self.store, parent.path[0])
        self.known(ctx, stood_for(parent, ctx, parent.default))

    @rule(at=ANY, summary=st.sampled_from(["x", "it \ud800 was"]))
    def summarize(self, at: int, summary: str) -> None:
        ctx = self.pick(at)
        update_metadata(self.store, ctx, summary=summary)
        self.notes[ctx] = CommitNotes(summary=summary, labels=self.notes[ctx].labels)

    @rule(at=ANY, labels=st.lists(st.sampled_from(["good", "bad", ""]), unique=True))
    def label(self, at: int, labels: list[str]) -> None:
        ctx = self.pick(at)
        update_metadata(self.store, ctx, labels=labels)
        self.notes[ctx] = msgspec.structs.replace(self.notes[ctx], labels=tuple(labels))

    @rule(at=ANY, other=ANY)
    def compare(self, at: int, other: int) -> None:
        one, two = self.seen[self.pick(at)], self.seen[self.pick(other)]
        found = diff(self.store, one.path[0], two.path[0])
        assert found.ancestor == common(one, two)
        assert read(found.ours) == self.clean(one.after(found.ancestor))
        assert read(found.theirs) == self.clean(two.after(found.ancestor))

    @rule(at=ANY, stop=ANY)
    def stop_at(self, at: int, stop: int) -> None:
        seen, until = self.seen[self.pick(at)], self.pick(stop)
        expected = seen.since(until)
        if expected is None:
            with pytest.raises(NameNotFound):
                materialize(self.store, seen.path[0], until)
        else:
            assert read(materialize(self.store, seen.path[0], until).messages) == self.clean(
                expected
            )

    @rule(who=PRINCIPALS, second=SECONDS)
    def resolve(self, who: str, second: int) -> None:
        stored = self.store.commits(self.seen)
        theirs = [
            (stored[ctx].commit.created_at, at)
            for at, ctx in enumerate(self.seen)
            if stored[ctx].commit.principal == who
        ]
        until = [one for one in theirs if one[0] <= time(second)]
        expected = list(self.seen)[max(until)[1]] if until else None
        assert resolve(self.store, who, time(second)) == expected

    @rule(at=ANY, policy=st.sampled_from(["pin", "ephemeral", None]), second=SECONDS)
    def keep(self, at: int, policy: Policy | None, second: int) -> None:
        ctx = self.pick(at)
        until = time(second) if policy == "ephemeral" else None
        keeping = None if policy is None else RetentionPolicy(policy, until)
        self.store.set_retention({ctx: keeping})
        self.kept.pop(ctx, None)
        if keeping is not None:
            self.kept[ctx] = keeping

    @rule(second=SECONDS, roots=st.lists(ANY, max_size=2), dry_run=st.booleans())
    def collect(self, second: int, roots: list[int], dry_run: bool) -> None:
        """What has expired goes, unless it has a label, is a root, or something stays on it."""
        stay = {ctx for ctx in self.seen if not self.has_expired(ctx, time(second))}
        stay |= {*map(self.pick, roots), next(iter(self.seen))}
        needed = {before for ctx in stay for before in self.seen[ctx].path}
        gone = self.seen.keys() - needed
        taken = self.store.collect([*stay], now=time(second), grace_s=0, dry_run=dry_run)
        assert set(taken.commits) == gone
        if not dry_run:
            for ctx in gone:
                for known in (self.seen, self.notes, self.kept):
                    known.pop(ctx, None)
            self.tips = [tip for tip in self.tips if tip in self.seen] or [self.pick(0)]
            assert self.store.names_with_prefix("ctx-", 999) == sorted(self.seen)

    def has_expired(self, ctx: CommitId, now: str) -> bool:
        keeping = self.kept.get(ctx)
        return bool(
            keeping and keeping.until and keeping.until <= now and not self.notes[ctx].labels
        )

    @rule(secret=st.sampled_from(SECRETS))
    def purge(self, secret: str) -> None:
        places = purge_text(
            self.store, [], PurgeRequest(secret=Secret(secret), by="ann", why="it leaked")
        )
        if any(place.kind == "part" for place in places):
            self.purged.add(secret)
        for ctx, notes in self.notes.items():
            summary = notes.summary.replace(secret, PURGED)
            self.notes[ctx] = msgspec.structs.replace(notes, summary=summary)
        assert find_text(self.store, [], Secret(secret)) == []

    @rule(at=ANY)
    def look(self, at: int) -> None:
        """All that is not the conversation is as it was, too."""
        ctx = self.pick(at)
        assert tuple(one.id for one in commit_history(self.store, ctx)) == self.seen[ctx].path
        assert get_commit(self.store, ctx).notes == self.notes[ctx]
        labelled = {label for notes in self.notes.values() for label in notes.labels}
        assert self.store.commits_by_label().keys() == labelled
        assert self.store.newest_commits(999) == list(self.seen)[::-1]
        assert self.store.retention() == self.kept
        assert fsck(self.store) == []

    @invariant()
    def every_branch_is_what_the_model_says(self) -> None:
        for tip in self.tips:
            seen = self.seen[tip]
            assert read(materialize(self.handles[0], tip).messages) == self.clean(seen.default)
            assert read(materialize(self.handles[1], tip, "root").messages) == self.clean(seen.full)
            again = materialize(self.handles[0], tip, "compaction", self.cache)
            assert read(again.messages) == self.clean(seen.default)
        self.steps += 1

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()


class BranchesInAFile(Branches):
    """The same in a file that two handles hold, and that is closed and opened now and then."""

    def opened(self) -> list[Store]:
        if not hasattr(self, "folder"):
            self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "s.db"
        return [SqliteStore(path, clock=long_ago), SqliteStore(path, clock=long_ago)]

    @rule()
    def reopen(self) -> None:
        for handle in self.handles:
            handle.close()
        self.handles = self.opened()

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


for machine, share in ((Branches, 3), (BranchesInAFile, 6)):
    machine.TestCase.settings = settings(
        max_examples=settings().max_examples // share, stateful_step_count=25
    )
proves = pytest.mark.req("S2-08", "S2-14", "S2-15", "S2-16", "S2-18", "S2-24", "S2-26", "S2-27")
TestBranches = proves(Branches.TestCase)
TestBranchesInAFile = proves(BranchesInAFile.TestCase)
