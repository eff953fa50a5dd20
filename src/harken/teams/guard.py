"""`GuardedStore`: the store as one user may use it. The only place where rights are enforced.

A route gets its store from one function, which returns this one for a user. So a new route, and
every function of the library that a route calls, is under the same checks, also at the lowest
level: a batch is judged by the commits in it, whatever way it came. What is not allowed here is
refused, and what is not defined here does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from harken.core import structs
from harken.core.clock import Clock, system_clock
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    HeadName,
    check_notes,
    decode_commit,
)
from harken.errors import BranchConflict, NameNotFound, NotesConflict, ObjectNotFound
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    Progress,
    RetentionPolicy,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import BATCH, MESSAGE_START, BatchContents, compute_name, validate_batch
from harken.store.remote.errors import RequestRefused
from harken.teams.access_index import UPLOAD_US, AccessIndex, FollowedStore, facts_of
from harken.teams.caller import Caller
from harken.teams.guarded_reads import PLACE, GuardedReads
from harken.teams.scopes import (
    PROJECT_PREFIX,
    CommitFacts,
    Right,
    is_principal_of,
    list_projects,
)

_NAMED_KINDS = [kind for kind in ObjectKind if kind is not ObjectKind.FILE]
_PREFIXES = ("", "art-", "ctx-")
_DIGEST_PATTERN = re.compile(rb"[0-9a-f]{64}")
Charge = Callable[[int, int], None]
"""Counts bytes and commits for the quota. Raises RequestRefused if it is exceeded."""


class GuardedStore(GuardedReads):
    """A store with the rights of a caller. It has the methods of `Store`.

    `is_writing`: whether the request changes the store. In others, only rendered content is kept,
    for the user alone.
    """

    def __init__(
        self,
        store: FollowedStore,
        index: AccessIndex,
        caller: Caller,
        *,
        charge: Charge,
        is_writing: bool,
        clock: Clock = system_clock,
    ) -> None:
        super().__init__(store, index, caller, clock)
        self._charge, self._is_writing = charge, is_writing
        self.touched: list[str] = []
        """Names of what was changed, for the audit log."""

    def write(self, batch: WriteBatch) -> None:
        """Write a batch that the user may write, without its derived entries.

        Others would trust these.
        """
        contents = validate_batch(structs.replace(batch, derived={}))
        if not self._is_writing:
            self._write_rendered(batch, contents)
            return
        if contents.tombstones and not self._caller.rights.is_unlimited("copy"):
            raise _refuse("purged content may be copied with the right 'copy *' only")
        commits = self._place_commits(batch)
        by_id = {commit.id: CommitFacts(commit.principal, _sorted(n)) for commit, n in commits}
        for facts in by_id.values():
            self._check_new_commit(facts)
        self._check_needs(contents)
        for name, move in contents.moves.items():
            self._check_move(name, move.to, move.expected, by_id)
        size_bytes = sum(len(obj.body) for obj in contents.objects.values())
        self._charge(size_bytes, len(by_id))
        self._store.write(structs.replace(batch, derived={}, commits=commits))
        self._note_uploads(contents)
        self.touched += [*by_id, *contents.moves]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        check_notes(notes)
        self._require_commit(name)
        stored = self._store.commits([name]).get(name)
        if stored is None:
            raise NameNotFound("commit", name, ())
        old, new = facts_of(stored), CommitFacts(stored.commit.principal, _sorted(notes))
        for facts in (old, new):
            self._require("write", facts, f"change the summary and labels of {name[:16]}")
        if list_projects(old.labels) != list_projects(new.labels):
            self._check_new_project(new)
        self._charge(len(notes.summary.encode("utf-8", "surrogatepass")), 0)
        if was not in (None, stored.notes):
            raise NotesConflict(PLACE, name)
        # The rights were judged by these notes: others may have changed them since.
        self._store.update_notes(name, notes, was=stored.notes)
        self.touched.append(name)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        self._check_move(name, to, expected, {})
        self._store.move_branch(name, to, expected=expected)
        self.touched.append(name)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        self._require_unlimited("write", "change tickets and imported files")
        self._store.move_head(name, to, expected=expected)
        self.touched.append(name)

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        self._require_unlimited("write", "change tickets and imported files")
        self._store.set_heads(heads)
        self.touched += heads

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        self._check_owners("purge", names, "set the retention of")
        self._store.set_retention(names)
        self.touched += names

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        self._require_unlimited("admin", "collect garbage")
        return self._store.collect(
            roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=on_progress
        )

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        self._check_owners("purge", stand_ins, "purge")
        self._check_stand_ins(stand_ins)
        self._charge(sum(map(len, stand_ins.values())), 0)
        signed = structs.replace(tombstone, by=self._caller.user)
        self._store.purge(stand_ins, signed)
        self.touched += stand_ins

    def _write_rendered(self, batch: WriteBatch, contents: BatchContents) -> None:
        """Keep content that the service rendered for a reader, until a collection."""
        if contents.commits or contents.moves or contents.tombstones:
            raise _refuse("this request may not change the store")
        self._check_needs(contents)
        self._store.write(structs.replace(batch, derived={}))
        self._note_uploads(contents)

    def _place_commits(self, batch: WriteBatch) -> list[tuple[Commit, CommitNotes]]:
        """Return the commits of a batch with their projects.

        A commit that names no project has that of the request, else of its parent if the user may
        write there, else of the user.
        """
        parents = {commit.parent for commit, _ in batch.commits if commit.parent is not None}
        existing = self._store.commits(self._readable(parents))
        projects = {name: facts_of(stored).project for name, stored in existing.items()}
        new_commits: list[tuple[Commit, CommitNotes]] = []
        for commit, notes in batch.commits:
            project = next(iter(list_projects(notes.labels)), "")
            if not project and (project := self._choose_project(commit, projects)):
                labels = (*notes.labels, PROJECT_PREFIX + project)
                notes = structs.replace(notes, labels=labels)
            projects[commit.id] = project
            new_commits.append((commit, notes))
        return new_commits

    def _choose_project(self, commit: Commit, projects: Mapping[CommitId, str]) -> str:
        """Return the project of a commit that names none, by the projects of possible parents."""
        caller, parent = self._caller, projects.get(commit.parent, "") if commit.parent else ""
        if not caller.project and parent:
            facts = CommitFacts(commit.principal, (PROJECT_PREFIX + parent,))
            if any(caller.rights.covers(right, facts) for right in ("write", "copy")):
                return parent
        return caller.project or caller.default_project

    def _check_new_commit(self, facts: CommitFacts) -> None:
        """Raise RequestRefused unless the user may write a commit with these facts."""
        right: Right = "write"
        if not is_principal_of(facts.principal, self._caller.user):
            if not self._caller.rights.has("copy"):
                self._caller.sign(facts.principal or "another principal")
            right = "copy"
        if len(list_projects(facts.labels)) > 1:
            raise _refuse("a commit has one project")
        where = f"in project {facts.project}" if facts.project else "without a project"
        self._require(right, facts, f"write commits {where} with these labels")

    def _check_new_project(self, facts: CommitFacts) -> None:
        if len(list_projects(facts.labels)) > 1:
            raise _refuse("a commit has one project")
        if not self._caller.rights.covers("admin", facts):
            raise _refuse("the project of a commit is changed with the right 'admin' only")

    def _check_needs(self, contents: BatchContents) -> None:
        """Raise ObjectNotFound if new objects need others that the user did not send or may read.

        Otherwise a commit on top of a name would make its content readable.
        """
        needed = {
            need: obj.name
            for obj in contents.objects.values()
            for need in obj.needs
            if need not in contents.objects and need not in contents.tombstones
        }
        needed |= {t.stand_in: name for name, t in contents.tombstones.items()
                   if t.stand_in not in contents.objects}  # fmt: skip
        readable = set(self._readable(needed))
        for need, needed_by in needed.items():
            if need not in readable:
                raise ObjectNotFound(BATCH, need, needed_by=needed_by)

    def _check_move(
        self,
        name: str,
        to: CommitId | None,
        expected: CommitId | None,
        new: Mapping[CommitId, CommitFacts],
    ) -> None:
        """Raise unless the user may move a branch from its head to another commit."""
        head = self._store.find_branch(name)
        if head is not None and not self._readable([head]):
            raise BranchConflict(PLACE, name, expected=expected, actual=None)
        if head != expected:  # The rights are judged by this head, not by another.
            raise BranchConflict(PLACE, name, expected=expected, actual=head)
        for commit in (head, to):
            if commit is None:
                continue
            facts = new.get(commit)
            if facts is None:
                self._require_commit(commit)
                stored = self._store.commits([commit]).get(commit)
                if stored is None:
                    raise NameNotFound("commit", commit, ())
                facts = facts_of(stored)
            self._require("write", facts, f"move branch {name!r}")

    def _check_owners(self, right: Right, names: Iterable[Name], action: str) -> None:
        """Raise unless all commits that contain these objects are in scopes of a right."""
        all_names = [*names]
        if self._caller.rights.is_unlimited(right):
            return
        readable = set(self._readable(all_names))
        owners = self._index.owners(all_names)
        for name in all_names:
            if name not in readable:
                raise ObjectNotFound(PLACE, name)
            if name not in owners:
                raise _refuse(f"{action} {name[:16]}: it belongs to no commit")
            for facts in owners[name]:
                self._require(right, facts, f"{action} {name[:16]}, or all commits that contain it")

    def _check_stand_ins(self, stand_ins: Mapping[Name, bytes]) -> None:
        """Raise unless stand-ins need readable objects only, and commits keep their principal.

        Otherwise a stand-in would make hidden content readable, or forge a commit.
        """
        stored = self._store.commits([CommitId(name) for name in stand_ins])
        new_names = {
            compute_name(kind, body) for kind in _NAMED_KINDS for body in stand_ins.values()
        }
        for name, body in stand_ins.items():
            commit = stored.get(CommitId(name))
            if commit and decode_commit(body).principal not in ("", commit.commit.principal):
                raise _refuse(f"the replacement of {name[:16]} must keep its principal")
            needs = set(_DIGEST_PATTERN.findall(body)) if self._has_needs(name, body) else set()
            possible = {f"{kind}{digest.decode()}" for digest in needs for kind in _PREFIXES}
            readable = {need[-64:] for need in (*self._readable(possible), *new_names)}
            for digest in needs:
                if digest.decode() not in readable:
                    raise ObjectNotFound(PLACE, digest.decode(), needed_by=name)

    def _has_needs(self, name: Name, body: bytes) -> bool:
        """Whether the names in a stand-in are those of objects: not in text and in raw bytes."""
        if name.startswith("art-"):
            return not self._store.raws([ArtifactRef(name)])
        return name.startswith("ctx-") or body.startswith(MESSAGE_START)

    def _note_uploads(self, contents: BatchContents) -> None:
        names = [name for name in contents.objects if not name.startswith("ctx-")]
        user, now_us = self._caller.user, self._clock()
        self._index.note_uploads(names, user, now_us, keep_us=UPLOAD_US)

    def _require(self, right: Right, facts: CommitFacts, action: str) -> None:
        if not self._caller.rights.covers(right, facts):
            raise _refuse(f"{self._caller.user} has no right '{right}' to {action}")

    def _require_unlimited(self, right: Right, action: str) -> None:
        if not self._caller.rights.is_unlimited(right):
            raise _refuse(f"{self._caller.user} has no right '{right} *' to {action}")


def _sorted(notes: CommitNotes) -> tuple[str, ...]:
    return tuple(sorted(set(notes.labels)))


def _refuse(reason: str) -> RequestRefused:
    return RequestRefused("forbidden", reason)
