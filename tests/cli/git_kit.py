"""A git repository, and transcripts of Claude Code about its files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

START = "2026-02-01T10:00:00+00:00"


@dataclass(frozen=True)
class Repository:
    """A git repository of Jill."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Repository:
        """Create an empty repository."""
        folder.mkdir(parents=True, exist_ok=True)
        repository = cls(folder)
        repository.git("init", "-q", "-b", "main")
        return repository

    def git(self, *arguments: str, time: str = START, stdin: bytes = b"") -> str:
        """Run git at a time; return the output."""
        settings = ("-c", "user.name=Jill", "-c", "user.email=jill@example.com")
        dates = {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
        ran = subprocess.run(
            ["git", *settings, "-c", "commit.gpgsign=false", *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_CONFIG_NOSYSTEM": "1",
                **dates,
            },
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 0, ran
        return ran.stdout.decode()

    def commit(self, message: str = "Work", **files: str) -> str:
        """Write files (`a_py` is a.py) and commit everything; return the id."""
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_py", ".py"), text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class Session:
    """A transcript of Claude Code whose calls edit files of a repository."""

    def __init__(self, repository: Repository, number: int = 1) -> None:
        self.transcript = Transcript(session=f"5e5510{number:02d}-0000-4000-8000-000000000001")
        self.transcript.shared = {"cwd": str(repository.folder)}
        self._folder, self._number, self._calls = repository.folder, number, 0

    def ask(self, prompt: str) -> Session:
        """Add a prompt."""
        self.transcript.user(prompt)
        return self

    def call(
        self, name: str, reason: str = "", *, fails: bool = False, **arguments: Any
    ) -> Session:
        """Add a call and its result."""
        self._calls += 1
        id_ = f"toolu_{self._number:02d}{self._calls:018d}"
        texts = [text_block(reason)] if reason else []
        self.transcript.answer(*texts, tool_use_block(id_, name, **arguments))
        options: dict[str, Any] = {"is_error": True} if fails else {}
        self.transcript.result(id_, "no" if fails else "done", **options)
        return self

    def write(self, path: str, content: str, reason: str = "", **options: Any) -> Session:
        """Add a call of `Write`."""
        file = str(self._folder / path)
        return self.call("Write", reason, file_path=file, content=content, **options)

    def edit(self, path: str, old: str, new: str, reason: str = "", **options: Any) -> Session:
        """Add a call of `Edit`."""
        file = str(self._folder / path)
        return self.call("Edit", reason, file_path=file, old_string=old, new_string=new, **options)

    def save(self, folder: Path) -> Path:
        """Write the transcript into a folder."""
        path = folder / "projects" / f"session{self._number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.transcript.data)
        return path
