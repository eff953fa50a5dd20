"""A git repository that scripted agents and a person build together, with the true origin of lines.

The truth is tracked by the operations themselves: each knows which lines it writes, changes, moves
and deletes. Git is used as people use it: branches are rebased, squashed, merged and cherry-picked,
commits are amended, and files are formatted, moved and renamed. After each of these the files of git
must be those of the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.attribution.agent_edits import AgentEdits
from tests.attribution.person_edits import PersonEdits
from tests.attribution.project import PERSON, Project, format_lines, lines_of, merge_files
from tests.attribution.repository import OperationImpossible


class History(AgentEdits, PersonEdits):
    """A repository while it is built."""

    def discards(self) -> None:
        """The changes of a file that are not committed are discarded."""
        path = self.choose_path()
        if path not in self.committed:
            raise OperationImpossible
        self.project.files[path] = list(self.committed[path])

    def formats(self) -> None:
        """A formatter runs over files, in a commit of its own or before one."""
        is_alone = self.random.random() < 0.5
        if is_alone:
            self.commit("Work")
        for path in self.paths():
            if self.random.random() < 0.7:
                self.project.files[path] = format_lines(self.project.files[path])
        if is_alone:
            self.commit("Format")

    def work(self, size: int) -> None:
        """Make some edits, most of them by agents."""
        for _ in range(size):
            self.operate(self.random.choices([*EDITS], [*EDITS.values()])[0])

    def operate(self, operation: Callable[[History], None]) -> None:
        """Run an operation, if the files have what it needs."""
        before, allowed = self.project.snapshot(), None if self.allowed is None else {*self.allowed}
        try:
            operation(self)
        except OperationImpossible:
            self.project.files, self.allowed = before, allowed
            return
        name = operation.__name__
        self.operations[name] = self.operations.get(name, 0) + 1

    def partial_commit(self) -> None:
        """Some files are committed, the others later."""
        self.write_files()
        changed = [
            path
            for path in self.paths()
            if path in self.committed and self.committed[path] != self.project.files[path]
        ]
        if len(changed) < 2:
            raise OperationImpossible
        self.commit("Part of the work", changed[: len(changed) // 2])

    def amend(self) -> None:
        if not self.commits:
            raise OperationImpossible
        self.work(2)
        self.commit("", amend=True)

    def revert(self) -> None:
        """The last commit is reverted; sometimes the revert is reverted, too."""
        self.commit("Work")
        if self.allowed is not None or self.parent is None:
            raise OperationImpossible
        files = [self.parent, self.committed]
        for number in range(self.random.choice([1, 2, 2])):
            self.tick()
            self.git("revert", "--no-edit", "HEAD", author_time=self.time)
            self.committed = {path: list(lines) for path, lines in files[number].items()}
            self.project.files = Project(self.committed).snapshot()
        self.parent = None

    def copy_file(self) -> None:
        """The person copies a file, in a commit of its own."""
        self.commit("Work")
        source = self.choose_path()
        path = self.new_path(source[-3:])
        texts = [line.text for line in self.project.files[source]]
        self.project.files[path] = lines_of(texts, PERSON)
        self.commit("Copy")

    def squash_last(self) -> None:
        """The last commits become one."""
        self.commit("Work")
        count = int(self.git("rev-list", "--count", "--first-parent", "HEAD"))
        size = min(self.random.randrange(2, 5), count - 1)
        if size < 2 or self.git("rev-list", "--merges", f"HEAD~{size}..HEAD").strip():
            raise OperationImpossible
        self.parent = None
        self.tick()
        self.git("reset", "-q", "--soft", f"HEAD~{size}")
        if self.git("diff", "--cached", "--name-only").strip():
            self.git("commit", "-q", "-m", "Squashed", author_time=self.time)

    @contextmanager
    def _restricted(self, paths: set[str]) -> Iterator[None]:
        self.allowed = paths
        try:
            yield
        finally:
            self.allowed = None

    def branch(self, finish: Callable[[History], None]) -> None:
        """A branch gets commits, and so does main; then the branch comes to main."""
        self.commit("Work")
        paths = self.paths()
        if len(paths) < 4 or self.allowed is not None:
            raise OperationImpossible
        self.random.shuffle(paths)
        half = {*paths[: len(paths) // 2]}
        base = self.project.snapshot()
        self.git("checkout", "-q", "-b", "feature")
        with self._restricted(half):
            for _ in range(self.random.randrange(2, 5)):
                self.work(self.random.randrange(1, 4))
                self.commit("Feature work")
            theirs, half = self.project.snapshot(), {*(self.allowed or ())}
        self.git("checkout", "-q", "main")
        self.project.files, self.committed = {p: list(ls) for p, ls in base.items()}, base
        others = {*base} - half
        taken = {*theirs} - {*base}
        with self._restricted(others):
            for _ in range(self.random.randrange(1, 3)):
                self.work(self.random.randrange(1, 3))
                if taken & {*self.project.files}:
                    self.project.files = self.committed and {
                        p: list(ls) for p, ls in self.committed.items()
                    }
                self.commit("Main work")
        ours = self.project.snapshot()
        self.tick()
        finish(self)
        self.git("branch", "-q", "-D", "feature")
        self.parent = None
        self.project.files = merge_files(base, ours, theirs)
        self.committed = self.project.snapshot()
        self.check()

    def rebase(self) -> None:
        self.git("checkout", "-q", "feature")
        self.git("rebase", "-q", "main")
        self.git("checkout", "-q", "main")
        self.git("merge", "-q", "--ff-only", "feature")

    def squash_merge(self) -> None:
        self.git("merge", "-q", "--squash", "feature")
        if self.git("diff", "--cached", "--name-only").strip():
            self.git("commit", "-q", "-m", "Feature, squashed", author_time=self.time)

    def merge(self) -> None:
        self.git("merge", "-q", "--no-ff", "-m", "Merge feature", "feature", author_time=self.time)

    def cherry_pick(self) -> None:
        for commit in self.git("rev-list", "--reverse", "main..feature").split():
            self.tick()
            self.git("cherry-pick", "--allow-empty", commit)

    def build(self, commits: int) -> None:
        """Build a history with at least so many commits."""
        for _ in range(4):
            self.operate(History.agent_creates)
        self.commit("Begin")
        while self.commits < commits:
            self.work(self.random.randrange(1, 5))
            steps: list[Callable[[History], None]] = [*GIT_STEPS]
            step = self.random.choices(steps, [*GIT_STEPS.values()])[0]
            self.operate(step)
            self.commit(f"Commit {self.commits}")
        self.check()


EDITS: dict[Callable[[History], None], int] = {
    History.agent_creates: 3,
    History.agent_adds_function: 12,
    History.agent_adds_lines: 10,
    History.agent_changes_lines: 10,
    History.agent_changes_a_word: 4,
    History.agent_rewrites_function: 6,
    History.agent_rewrites_file: 3,
    History.agent_appends: 4,
    History.agent_deletes_lines: 3,
    History.agent_fails: 2,
    History.agent_undoes: 2,
    History.person_adds_lines: 4,
    History.person_adds_function: 3,
    History.person_changes_lines: 4,
    History.person_deletes_lines: 2,
    History.person_adds_trivial_lines: 3,
    History.person_copies_lines: 3,
    History.person_copies_function: 2,
    History.person_moves_function: 2,
    History.person_renames_file: 1,
    History.person_indents: 2,
    History.person_retypes_line: 2,
    History.agent_moves_function: 2,
    History.discards: 1,
}
"""The edits of agents and of the person, and how often each is made."""


def _branch_rebased(history: History) -> None:
    history.branch(History.rebase)


def _branch_squashed(history: History) -> None:
    history.branch(History.squash_merge)


def _branch_merged(history: History) -> None:
    history.branch(History.merge)


def _branch_picked(history: History) -> None:
    history.branch(History.cherry_pick)


def _nothing(history: History) -> None:
    """Commit the work."""


GIT_STEPS: dict[Callable[[History], None], int] = {
    _nothing: 30,
    History.partial_commit: 3,
    History.amend: 4,
    History.squash_last: 2,
    History.revert: 2,
    History.copy_file: 1,
    History.formats: 3,
    _branch_rebased: 2,
    _branch_squashed: 2,
    _branch_merged: 2,
    _branch_picked: 2,
}
