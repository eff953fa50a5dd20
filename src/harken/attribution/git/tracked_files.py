"""The files that git tracks: by folder, and by a part of their path."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harken.attribution.git.repository import SUBMODULE_MODE, GitRepository

EntryKind: TypeAlias = Literal["folder", "file", "submodule", "link"]
_MAX_QUERY_CHARS = 100


class TreeEntry(msgspec.Struct, frozen=True):
    """A folder, or a file, of the tree of a commit or of the working tree."""

    path: str
    kind: EntryKind
    files: int = 1
    """The number of tracked files below a folder."""

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        name = posixpath.basename(self.path)
        return {"name": name, "path": self.path, "kind": self.kind, "files": self.files}


def list_tracked(repository: GitRepository, revision: str = "") -> dict[str, EntryKind]:
    """Return the tracked files of the working tree or of a commit, with their kinds, in order.

    Raises ConfigError.
    """
    command = ("ls-tree", "-r", "-z", revision) if revision else ("ls-files", "-s", "-z")
    files: dict[str, EntryKind] = {}
    for record in repository.run(*command).split(b"\0"):
        head, tab, name = record.partition(b"\t")
        if tab:
            files[name.decode("utf-8", "surrogateescape")] = _kind(int(head.split(b" ")[0], 8))
    return files


def list_folder(files: Mapping[str, EntryKind], folder: str) -> list[TreeEntry]:
    """Return the entries of a folder, folders first. `folder`: empty for the top folder."""
    prefix = f"{folder}/" if folder else ""
    folders: dict[str, int] = {}
    entries: list[TreeEntry] = []
    for path, kind in files.items():
        if not path.startswith(prefix):
            continue
        first, slash, _ = path[len(prefix) :].partition("/")
        if slash:
            folders[prefix + first] = folders.get(prefix + first, 0) + 1
        else:
            entries.append(TreeEntry(path, kind))
    return [
        *(TreeEntry(path, "folder", count) for path, count in sorted(folders.items())),
        *sorted(entries, key=lambda entry: entry.path),
    ]


def filter_paths(paths: Iterable[str], query: str, limit: int) -> list[str]:
    """Return the paths that contain the characters of a query in order, the best ones first.

    A path is better if the characters are together, in the name of the file, and if it is short.

    >>> filter_paths(["src/mapper.py", "docs/main.py", "main.py"], "main", 9)
    ['main.py', 'docs/main.py']
    >>> filter_paths(["a/b/core_test.py", "tests/core.py"], "tcore", 9)
    ['tests/core.py']
    """
    characters = query.casefold().replace(" ", "")[:_MAX_QUERY_CHARS]
    if not characters:
        return [*paths][:limit]
    pattern = re.compile(".*?".join(map(re.escape, characters)), re.DOTALL)
    ranked: list[tuple[int, int, str]] = []
    for path in paths:
        lower_path = path.casefold()
        match = pattern.search(lower_path)
        if match is not None:
            ranked.append((_rank(lower_path, characters, match), len(path), path))
    return [path for _, _, path in sorted(ranked)[:limit]]


def _rank(path: str, characters: str, match: re.Match[str]) -> int:
    """Return how bad a match is: 0 for a file of this name."""
    name = posixpath.basename(path)
    if name.startswith(characters):
        return 0
    if characters in name:
        return 1
    if characters in path:
        return 2
    return 3 + match.end() - match.start() - len(characters)


def find_current_names(repository: GitRepository, paths: Sequence[str]) -> dict[str, str]:
    """Return the names to which files were moved since, by their earlier paths.

    The history is only read if a path is not tracked. Raises ConfigError.
    """
    missing = [path for path in paths if path and not repository.is_tracked(path)]
    if not missing:
        return {}
    output = repository.try_run(
        "log", "--reverse", "-M", "--diff-filter=R", "--name-status", "-z", "--format="
    )
    names = {path: path for path in missing}
    words = (output or b"").decode("utf-8", "surrogateescape").split("\0")
    moves = [
        (words[index + 1], words[index + 2])
        for index, word in enumerate(words[:-2])
        if re.fullmatch(r"\n?R\d+", word)
    ]
    for before, after in moves:
        for path, name in names.items():
            if name == before:
                names[path] = after
    return {path: name for path, name in names.items() if repository.is_tracked(name)}


def _kind(mode: int) -> EntryKind:
    if stat.S_IFMT(mode) == SUBMODULE_MODE:
        return "submodule"
    return "link" if stat.S_ISLNK(mode) else "file"
