"""`GitRepository`: run git in a repository and read its objects.

Git is run as a program: what users see with `git blame` is what attribution starts from. Programs
that a repository configures (external diffs, text converters, filters, file monitors, transports)
are not run, and settings do not change the output: `git.commands` has the flags of each command.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO

from harken.attribution.git.commands import (
    FILTER_PATTERN,
    FILTERED_COMMANDS,
    command_line,
    git_environment,
)
from harken.errors import ConfigError

HEAD = "HEAD"
SUBMODULE_MODE = 0o160000
_MAX_DEPTH = 100
_MISSING_OBJECTS = ("lazy fetching", "promisor remote", "transport '")
"""Words of the messages about an object that only a remote has."""
_NO_SETTING = 1
"""The exit code of `git config` if no setting matches."""
_HEADER_PATTERN = re.compile(rb"[0-9a-f]{40,64} \d+ \d+")
MAX_FILE_BYTES = 32 * 1024 * 1024
"""A larger file is not attributed."""


class GitRepository:
    """A repository with a working tree. Close it after use: it keeps a process that reads objects.

    Paths are relative to the top folder, with slashes.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str] = os.environ,
        *,
        open_timeout_s: float = 30.0,
    ) -> None:
        """Find the repository that contains a folder. Raises ConfigError if there is none.

        open_timeout_s: git may take so long. A configuration that includes a pipe never answers.
        """
        self._environment = git_environment(folder, environ)
        self._reader: subprocess.Popen[bytes] | None = None
        self._earlier_paths: dict[str, bool] = {}
        self.top = self.folder = folder
        arguments = ("rev-parse", "--show-toplevel", "--show-prefix")
        ran = self._start(arguments, None, timeout_s=open_timeout_s)
        output = _check(arguments, ran)
        lines = output.decode("utf-8", "surrogateescape").split("\n")
        if not lines[0]:
            raise ConfigError(f"{folder}: the repository has no working tree")
        self.top = Path(lines[0])
        self.folder = self.top / lines[1] if len(lines) > 1 else self.top
        """The folder in which the repository was found, without symbolic links."""

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git and return its output. Raises ConfigError with git's message if it fails."""
        return _check(arguments, self._start(arguments, stdin, settings))

    def try_run(self, *arguments: str, stdin: bytes | None = None) -> bytes | None:
        """Run git and return its output, or None if it fails."""
        ran = self._start(arguments, stdin)
        return ran.stdout if ran.returncode == 0 else None

    @cached_property
    def _filters(self) -> Sequence[str]:
        """The settings that name a program through which git reads files of the working tree.

        They are turned off whoever set them: a filter of the user, such as Git LFS, may itself run
        programs that the repository names.
        """
        arguments = ("config", "--null", "--name-only", "--get-regexp", FILTER_PATTERN)
        ran = self._start(arguments, None)
        if ran.returncode == _NO_SETTING:
            return ()
        return _check(arguments, ran).decode("utf-8", "surrogateescape").split("\0")[:-1]

    def _start(
        self,
        arguments: Sequence[str],
        stdin: bytes | None,
        settings: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        filters = self._filters if arguments[0] in FILTERED_COMMANDS else ()
        try:
            return subprocess.run(
                command_line(*arguments, settings=settings, filters=filters),
                cwd=self.top,
                input=b"" if stdin is None else stdin,
                capture_output=True,
                env=self._environment,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{self.top}: git has no answer after {timeout_s:g} s") from None
        except FileNotFoundError as error:
            if error.filename != "git":
                raise ConfigError(f"{self.top}: no such folder") from None
            raise ConfigError("git is not installed, or not on PATH; install git") from None
        except NotADirectoryError:
            raise ConfigError(f"{self.top}: not a folder") from None

    def read_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the contents of files, named `REVISION:PATH` or by id, without missing ones."""
        contents: dict[str, bytes] = {}
        for name in dict.fromkeys(names):
            data = self._read_line_blob(name) if "\n" in name else self._read_blob(name)
            if data is not None:
                contents[name] = data
        return contents

    def _read_line_blob(self, name: str) -> bytes | None:
        """Return the content of a file with a newline in its path, which ends a request."""
        data = self.try_run("cat-file", "blob", name)
        return data if data is not None and len(data) <= MAX_FILE_BYTES else None

    def _read_blob(self, name: str) -> bytes | None:
        stdin, stdout = self._open_reader()
        stdin.write(name.encode("utf-8", "surrogateescape") + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:  # It ends at an object that only a remote has.
            self.close()
            return None
        header = line.rsplit(b" ", 2)
        if len(header) < 3 or not header[2].strip().isdigit():
            return None
        size = int(header[2])
        data = stdout.read(size)
        stdout.read(1)
        return data if header[1] == b"blob" and size <= MAX_FILE_BYTES else None

    def _open_reader(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the pipes of `git cat-file --batch`, which is started when it is first needed."""
        if self._reader is None:
            self._reader = subprocess.Popen(
                command_line("cat-file", "--batch"),
                cwd=self.top,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
            )
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        return self._reader.stdin, self._reader.stdout

    def list_entry(self, path: str, revision: str = "") -> int | None:
        """Return the mode of a tracked file, or None if git does not track it.

        A file inside of a submodule has the mode of the submodule.
        """
        arguments = ("ls-tree", "-z", revision) if revision else ("ls-files", "-s", "-z")
        parents = [path]
        while (parent := parents[-1].rpartition("/")[0]) and len(parents) < _MAX_DEPTH:
            parents.append(parent)
        output = self.run(*arguments, "--", *parents)
        for record in output.split(b"\0"):
            head, _, name = record.partition(b"\t")
            mode = int(head.split(b" ")[0], 8) if head else 0
            is_file = name.decode("utf-8", "surrogateescape") == path
            if mode == SUBMODULE_MODE or (is_file and not stat.S_ISDIR(mode)):
                return mode
        return None

    def is_tracked(self, path: str) -> bool:
        """Whether git tracks a file in the working tree."""
        return path in self.tracked_paths

    @cached_property
    def tracked_paths(self) -> frozenset[str]:
        """The files that git tracks in the working tree."""
        output = self.run("ls-files", "-z")
        return frozenset(output.decode("utf-8", "surrogateescape").split("\0")) - {""}

    def is_folder(self, path: str) -> bool:
        """Whether git tracks a file below a folder of the working tree."""
        return path in self._tracked_folders

    @cached_property
    def _tracked_folders(self) -> frozenset[str]:
        return frozenset(
            str(folder) for path in self.tracked_paths for folder in PurePosixPath(path).parents
        )

    @cached_property
    def common_folder(self) -> Path:
        """The folder of git that all worktrees of the repository share."""
        output = self.run("rev-parse", "--git-common-dir").decode("utf-8", "surrogateescape")
        return (self.top / output.removesuffix("\n")).resolve()

    @cached_property
    def first_commits(self) -> frozenset[bytes]:
        """The ids of the commits without parents, which all clones of a repository share."""
        return frozenset(self.run("rev-list", "--max-parents=0", "--all").split())

    @cached_property
    def is_shallow(self) -> bool:
        """Whether the earliest commits are missing."""
        return self.run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def was_tracked(self, path: str) -> bool:
        """Whether git tracks a file, or tracked it in an ancestor of HEAD."""
        if path not in self._earlier_paths:
            is_tracked = self.is_tracked(path) or bool(
                self.try_run("rev-list", "-1", HEAD, "--", path)
            )
            self._earlier_paths[path] = is_tracked
        return self._earlier_paths[path]

    def find_lines(self, lines: Iterable[str], revision: str) -> list[str]:
        """Return the lines of all files of a commit that contain one of some lines."""
        texts = {text for line in lines if (text := line.strip()) and "\0" not in text}
        if not texts:
            return []
        patterns = "".join(f"{text}\n" for text in sorted(texts))
        stdin = patterns.encode("utf-8", "surrogateescape")
        output = self.try_run("grep", "-hIF", "-f", "-", revision, stdin=stdin)
        return (output or b"").decode("utf-8", "surrogateescape").split("\n")

    def find_function(self, path: str, name: str, revision: str = "") -> tuple[int, int]:
        """Return the lines of a function by git's rules for the file. Raises ConfigError."""
        pattern = re.sub(r"([.^$*\[\]\\/])", r"\\\1", name)
        revisions = [revision] if revision else []
        output = self.run("blame", "--porcelain", "-L", f":{pattern}", *revisions, "--", path)
        numbers = [
            int(line.split(b" ")[2]) for line in output.split(b"\n") if _HEADER_PATTERN.match(line)
        ]
        return min(numbers), max(numbers)

    def close(self) -> None:
        """End the process that reads objects."""
        if self._reader is not None:
            with suppress(OSError), self._reader:
                pass
            self._reader = None


def _check(arguments: Sequence[str], ran: subprocess.CompletedProcess[bytes]) -> bytes:
    """Return the output of git. Raises ConfigError with its message if it failed."""
    if ran.returncode != 0:
        raise ConfigError(_explain(arguments, ran.stderr.decode("utf-8", "replace")))
    return ran.stdout


def _explain(arguments: Sequence[str], message: str) -> str:
    """Return the message of a failure of git on one line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else "it failed"
    if text.startswith("not a git repository"):
        return "this folder is not in a git repository; run the command in one"
    if "dubious ownership" in text:
        return f"{text}; `git config --global --add safe.directory FOLDER` allows it"
    if any(words in message for words in _MISSING_OBJECTS):
        return (
            f"git {arguments[0]}: objects are missing; `git fetch --refetch --no-filter` gets them"
        )
    return f"git {arguments[0]}: {text}"
