"""A git repository with the true origin of each line, and its choices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.attribution import code_lines as code
from tests.attribution.project import PERSON, Files, Project, lines_of
from tests.attribution.transcripts import Agent, ClaudeAgent, CodexAgent, HarkenAgent

START = 1_767_600_000
"""2026-01-05, in seconds since 1970."""


class OperationImpossible(Exception):
    """The files have nothing that an operation needs."""


@dataclass
class GeneratedRepository:
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

    def _person_adds(self, path: str) -> None:
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        self.project.files[path][place:place] = lines_of(self.new_statement(path), PERSON)
