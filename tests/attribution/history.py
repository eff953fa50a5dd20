"""A git repository that scripted agents and a person build together, with the true origin of lines.

The truth is tracked by the operations themselves: each knows which lines it writes, changes, moves
and deletes. Git is used as people use it: branches are rebased, squashed, merged and cherry-picked,
commits are amended, and files are formatted, moved and renamed. After each of these the files of git
must be those of the truth.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.attribution import code_lines as code
from tests.attribution.project import (
    PERSON,
    Files,
    Line,
    Project,
    format_lines,
    is_start,
    lines_of,
    merge_files,
)
from tests.attribution.transcripts import Agent, ClaudeAgent, CodexAgent, HarkenAgent

START = 1_767_600_000
"""2026-01-05, in seconds since 1970."""


class OperationImpossible(Exception):
    """The files have nothing that an operation needs."""


@dataclass
class History:
    """A repository while it is built."""

    folder: Path
    seed: int
    random: Random = field(init=False)
    project: Project = field(default_factory=Project)
    committed: Files = field(default_factory=dict)
    """The files of the current commit."""
    agents: list[Agent] = field(default_factory=list)
    parent: Files | None = None
    """The files of the parent of the current commit, if that is known."""
    time: int = START
    commits: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, list[str]] = field(default_factory=dict)
    """The texts of committed lines that the person deleted, by file."""
    allowed: set[str] | None = None
    """The files that operations may change, or None for all."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        for number in range(3):
            self.agents += [
                ClaudeAgent(self.folder, 3 * number + 1),
                CodexAgent(self.folder, 3 * number + 2),
                HarkenAgent(3 * number + 3),
            ]

    # Git

    def git(self, *arguments: str, author_time: int | None = None) -> str:
        """Run git as the person, now. Return the output."""
        ran = self.try_git(*arguments, author_time=author_time)
        assert ran.returncode == 0, ran
        return ran.stdout.decode()

    def try_git(
        self, *arguments: str, author_time: int | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_COMMITTER_DATE": f"@{self.time} +0000",
            "GIT_EDITOR": "true",
        }
        if author_time is not None:
            environment["GIT_AUTHOR_DATE"] = f"@{author_time} +0000"
        settings = ("-c", "user.name=Jill", "-c", "user.email=jill@example.com")
        return subprocess.run(
            ["git", *settings, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            check=False,
        )

    def tick(self, seconds: int = 60) -> int:
        """Let time pass. Return the new time."""
        self.time += seconds
        return self.time

    def write_files(self) -> None:
        """Write the working tree."""
        listed = self.git("ls-files").split()
        for path in listed:
            if path not in self.project.files:
                (self.folder / path).unlink(missing_ok=True)
        for path in self.project.files:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.project.text(path))

    def commit(
        self, message: str, paths: Sequence[str] | None = None, *, amend: bool = False
    ) -> bool:
        """Commit the working tree, or only some of its files. Return whether it had changes."""
        self.write_files()
        self.tick()
        self.git("add", "-A", *([] if paths is None else ["--", *paths]))
        if not self.git("diff", "--cached", "--name-only").strip():
            return False
        self.parent = None if amend else self.committed
        options = ["--amend", "--no-edit"] if amend else ["-m", message]
        times = {} if amend else {"author_time": self.time}
        self.git("commit", "-q", *options, **times)
        if paths is None:
            self.committed = self.project.snapshot()
        else:
            self.committed = dict(self.committed)
            for path in paths:
                self.committed[path] = list(self.project.files[path])
        self.commits += 0 if amend else 1
        return True

    def check(self) -> None:
        """Check that git has the files of the truth."""
        for path in self.committed:
            text = self.git("show", f"HEAD:{path}")
            assert text == "".join(f"{line.text}\n" for line in self.committed[path]), path
        assert {*self.git("ls-tree", "-r", "--name-only", "HEAD").split()} == {*self.committed}

    # Choices

    def paths(self, suffix: str = "") -> list[str]:
        """Return the files that may be changed."""
        return sorted(
            path
            for path in self.project.files
            if path.endswith(suffix) and (self.allowed is None or path in self.allowed)
        )

    def choose_path(self, suffix: str = "") -> str:
        paths = self.paths(suffix)
        if not paths:
            raise OperationImpossible
        return self.random.choice(paths)

    def choose_function(self, path: str, size: int = 2) -> tuple[int, int]:
        functions = [(a, b) for a, b in self.project.functions(path) if b - a > size]
        if not functions:
            raise OperationImpossible
        return self.random.choice(functions)

    def new_path(self, suffix: str) -> str:
        """Return the name of a new file. Half of the names exist in another folder."""
        for _ in range(50):
            folder = self.random.choice(["", "shop/", "shop/core/", "tools/"])
            path = f"{folder}{self.random.choice(code.NOUNS)}s{suffix}"
            if path not in self.project.files and path not in self.committed:
                return path
        raise OperationImpossible

    def new_function(self, path: str) -> list[str]:
        if path.endswith(".js"):
            return code.js_function(self.random)
        return code.function(self.random)

    def new_statement(self, path: str) -> list[str]:
        if path.endswith(".js"):
            a, b = self.random.choice(code.NOUNS), self.random.choice(code.NOUNS)
            return [f"  {a}.{b} = {self.random.randrange(1000)};"]
        return code.block(self.random, "    ")

    def agent(self) -> Agent:
        agent = self.random.choice(self.agents)
        if self.random.random() < 0.3 or not agent.calls:
            agent.ask(self.tick(), f"Please do task {self.random.randrange(10_000)}.")
        return agent

    # Edits of agents

    def agent_creates(self) -> None:
        path = self.new_path(self.random.choice([".py", ".py", ".js"]))
        texts = (
            []
            if path.endswith(".js")
            else ["import logging", "", "logger = logging.getLogger(__name__)"]
        )
        for _ in range(self.random.randrange(1, 5)):
            texts += [*([""] * (2 if texts else 0)), *self.new_function(path)]
        text = "".join(f"{line}\n" for line in texts)
        call = self.agent().write(self.tick(), path, text, None)
        self.project.files[path] = lines_of(texts, call)
        if self.allowed is not None:
            self.allowed.add(path)

    def _replace(
        self, agent: Agent, path: str, start: int, end: int, new: Sequence[Line | str]
    ) -> None:
        """Let an agent replace lines. New lines are texts; kept ones are `Line` objects."""
        lines = self.project.files[path]
        first, last = self._context(path, start, end)
        before, after = lines[first:start], lines[end:last]
        texts = [line if isinstance(line, str) else line.text for line in new]
        old_text = "\n".join(line.text for line in lines[first:last])
        new_text = "\n".join([line.text for line in before] + texts + [line.text for line in after])
        call = agent.edit(self.tick(), path, old_text, new_text)
        lines[start:end] = _write_lines(new, call)

    def _context(self, path: str, start: int, end: int) -> tuple[int, int]:
        """Extend a range of lines until its text is unique in the file."""
        lines = [line.text for line in self.project.files[path]]
        text = "\n".join(["", *lines, ""])
        first, last = start, end
        while True:
            part = "\n".join(lines[first:last])
            if last > first and part.strip() and text.count(part) == 1:
                return first, last
            if first == 0 and last == len(lines):
                raise OperationImpossible
            if first > 0:
                first -= 1
            if last < len(lines) and (self.random.random() < 0.5 or first == 0):
                last += 1

    def agent_adds_function(self) -> None:
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        self._replace(self.agent(), path, end, end, ["", "", *self.new_function(path)])

    def agent_adds_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        self._replace(self.agent(), path, place, place, self.new_statement(path))

    def agent_changes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        stop = min(place + self.random.randrange(1, 4), end)
        new = [
            code.changed_line(self.random, line.text) if line.text.strip() else line.text
            for line in self.project.files[path][place:stop]
        ]
        self._replace(self.agent(), path, place, stop, new)

    def agent_changes_a_word(self) -> None:
        path = self.choose_path()
        agent = self.random.choice([a for a in self.agents if not isinstance(a, CodexAgent)])
        text = self.project.text(path)
        lines = self.project.files[path]
        for _ in range(20):
            index = self.random.randrange(len(lines))
            words = [w for w in lines[index].text.split() if len(w) > 8 and text.count(w) == 1]
            if words:
                word = self.random.choice(words)
                new = f"{word[:4]}{self.random.choice(code.NOUNS)}{word[4:]}"
                call = agent.edit(self.tick(), path, word, new)
                lines[index] = Line(lines[index].text.replace(word, new), frozenset({call}))
                return
        raise OperationImpossible

    def agent_rewrites_function(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        new: list[Line | str] = []
        for line in self.project.files[path][start:end]:
            kind = self.random.random()
            if kind < 0.6:
                new.append(line)
            elif kind < 0.8 and line.text.strip():
                new.append(code.changed_line(self.random, line.text))
            elif kind < 0.9:
                new += [line, *self.new_statement(path)]
        self._replace(self.agent(), path, start, end, new)

    def agent_rewrites_file(self) -> None:
        """An agent writes a complete file, in which a person has changed lines just before."""
        path = self.choose_path()
        if self.random.random() < 0.5:
            self._person_adds(path)
        before = self.project.text(path)
        lines = list(self.project.files[path])
        functions = self.project.functions(path)
        if not functions:
            raise OperationImpossible
        _, end = self.random.choice(functions)
        added = ["", "", *self.new_function(path)]
        texts = [line.text for line in lines]
        texts[end:end] = added
        text = "".join(f"{line}\n" for line in texts)
        call = self.agent().write(self.tick(), path, text, before)
        lines[end:end] = lines_of(added, call)
        self.project.files[path] = lines

    def agent_appends(self) -> None:
        path = self.choose_path()
        added = ["", "", *self.new_function(path)]
        text = "".join(f"{line}\n" for line in added)
        call = self.agent().append(self.tick(), path, text)
        self.project.files[path] += lines_of(added, call)

    def agent_deletes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path, 4)
        place = self.random.randrange(start + 1, end - 1)
        self._replace(self.agent(), path, place, place + 1, [])

    def agent_fails(self) -> None:
        """An edit fails or is denied; sometimes the person then writes the same lines."""
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        new = self.new_function(path)
        lines = self.project.files[path]
        old = "\n".join(line.text for line in lines[end - 2 : end])
        text = "\n".join([old, "", "", *new])
        self.agent().edit(self.tick(), path, old, text, fails=True)
        if self.random.random() < 0.4:
            lines[end:end] = lines_of(["", "", *new], PERSON)

    def agent_undoes(self) -> None:
        """An agent adds lines, removes them, and adds them again."""
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        added, agent = self.new_statement(path), self.agent()
        self._replace(agent, path, place, place, added)
        self._replace(agent, path, place, place + len(added), [])
        if self.random.random() < 0.7:
            self._replace(agent, path, place, place, added)

    # Edits of the person

    def _person_adds(self, path: str) -> None:
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        self.project.files[path][place:place] = lines_of(self.new_statement(path), PERSON)

    def person_adds_lines(self) -> None:
        self._person_adds(self.choose_path())

    def person_adds_function(self) -> None:
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        new = ["", "", *self.new_function(path)]
        self.project.files[path][end:end] = lines_of(new, PERSON)

    def person_changes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        lines = self.project.files[path]
        for index in range(start, end):
            if (
                self.random.random() < 0.25
                and lines[index].text.strip()
                and not is_start(lines[index].text)
            ):
                text = code.changed_line(self.random, lines[index].text)
                lines[index] = Line(text, frozenset({PERSON}))

    def person_deletes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path, 4)
        place = self.random.randrange(start + 1, end - 1)
        stop = place + self.random.randrange(1, 3)
        self._note_deleted(path, place, stop)
        del self.project.files[path][place:stop]

    def _note_deleted(self, path: str, start: int, end: int) -> None:
        """Note lines of the current commit that are deleted, if they are not trivial."""
        lines = self.project.files[path][start:end]
        committed = {id(line) for line in self.committed.get(path, ())}
        self.deleted.setdefault(path, []).extend(
            line.text for line in lines if id(line) in committed and len(line.text.strip()) > 12
        )

    def person_adds_trivial_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end + 1)
        text = self.random.choice(
            ["    return None", "    pass", "    return False"]
            if path.endswith(".py")
            else ["  return null;", "  {", "  }"]
        )
        self.project.files[path].insert(place, Line(text, frozenset({PERSON})))

    def person_copies_lines(self) -> None:
        """A person types lines that an agent wrote elsewhere, in a commit of its own.

        If the same commit removed the original, nothing would tell a copy from a move.
        """
        self.commit("Work")
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        first = self.random.randrange(start + 1, end)
        last = min(first + self.random.randrange(1, 5), end)
        texts = [line.text for line in self.project.files[source][first:last] if line.text.strip()]
        start, end = self.choose_function(target)
        place = self.random.randrange(start + 1, end)
        self.project.files[target][place:place] = lines_of(texts, PERSON)
        self.commit("Copy lines")

    def person_copies_function(self) -> None:
        self.commit("Work")
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        texts = [line.text for line in self.project.files[source][start:end]]
        name = code.name(self.random)
        texts[0] = (
            f"def {name}(other):" if source.endswith(".py") else f"export function {name}() {{"
        )
        self.project.files[target] += lines_of(["", "", *texts], PERSON)
        self.commit("Copy a function")

    def person_moves_function(self) -> None:
        """A person moves a function to another place or file; its lines stay those of an agent."""
        source = self.choose_path()
        if len(self.project.functions(source)) < 2:
            raise OperationImpossible
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        moved = self.project.files[source][start:end]
        del self.project.files[source][start:end]
        blanks = lines_of(["", ""], PERSON)
        if self.random.random() < 0.5 or not self.project.functions(target):
            self.project.files[target] += [*blanks, *moved]
        else:
            place, _ = self.random.choice(self.project.functions(target))
            self.project.files[target][place:place] = [*moved, *blanks]

    def person_renames_file(self) -> None:
        path = self.choose_path()
        new = self.new_path(path[-3:])
        self.project.files[new] = self.project.files.pop(path)
        if self.allowed is not None:
            self.allowed.add(new)

    def person_indents(self) -> None:
        """A person puts lines into a condition, which only changes their indentation."""
        path = self.choose_path(".py")
        start, end = self.choose_function(path, 4)
        first = self.random.randrange(start + 1, end - 1)
        last = min(first + self.random.randrange(1, 4), end)
        lines = self.project.files[path]
        condition = Line(f"    if {self.random.choice(code.NOUNS)}_enabled:", frozenset({PERSON}))
        indented = [
            Line(f"    {line.text}" if line.text.strip() else "", line.writers)
            for line in lines[first:last]
        ]
        lines[first:last] = [condition, *indented]

    def person_retypes_line(self) -> None:
        """A person types a line again that was deleted in an earlier commit."""
        path = self.choose_path()
        present = {line.text for line in self.project.files[path]}
        texts = [text for text in self.deleted.get(path, ()) if text not in present]
        if not texts or path not in self.committed:
            raise OperationImpossible
        start, end = self.choose_function(path)
        line = Line(self.random.choice(texts), frozenset({PERSON}))
        self.project.files[path].insert(self.random.randrange(start + 1, end), line)

    def agent_moves_function(self) -> None:
        """An agent moves a function to another file with two edits, and so writes it again."""
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        if len(self.project.functions(source)) < 2 or source == target:
            raise OperationImpossible
        start, end = self.choose_function(source)
        texts = [line.text for line in self.project.files[source][start:end]]
        _, place = self.choose_function(target, 0)
        agent = self.agent()
        self._replace(agent, target, place, place, ["", "", *texts])
        self._replace(agent, source, start, end, [])

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

    # Git operations

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


def _write_lines(new: Sequence[Line | str], call: str) -> list[Line]:
    """Return the lines of an edit. A text is new, and a `Line` is kept.

    If a new line equals a kept one, either may be the kept one: both have the writers of both.
    """
    texts = {line for line in new if isinstance(line, str)}
    kept: dict[str, frozenset[str]] = {}
    for line in new:
        if isinstance(line, Line) and line.text in texts:
            kept[line.text] = kept.get(line.text, frozenset({call})) | line.writers
    written: list[Line] = []
    for line in new:
        text = line if isinstance(line, str) else line.text
        if text in kept:
            written.append(Line(text, kept[text]))
        else:
            written.append(Line(text, frozenset({call})) if isinstance(line, str) else line)
    return written


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
