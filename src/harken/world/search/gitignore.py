"""Walk a folder as ripgrep does: without hidden files and files that git ignores.

Rules of a `.gitignore` apply below its folder, the deepest matching one wins, and an ignored folder
is not entered. They apply only inside a git repository, up to its border. Symbolic links are not
followed.

Source: gitignore(5); ripgrep's guide, "Automatic filtering".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harken.world.search.glob import Part, match_parts, name_regex, parse_glob_parts

_MAX_FILE_BYTES = 1_000_000
"""The maximum size of a `.gitignore` that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A rule: one line of a `.gitignore`."""

    ignores: bool
    """Whether it ignores a match; False re-includes it."""
    folders_only: bool
    name: re.Pattern[str] | None
    """Matches a name in any folder. None if `parts` match a path from the folder."""
    parts: Sequence[Part | None] = ()


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The parsed rules of one `.gitignore`."""

    depth: int
    """The number of path components above the folder of the file."""
    rules: Sequence[IgnoreRule]
    """The rules, last one first, because it takes precedence."""
    any_name: re.Pattern[str]
    """Matches if any rule for names matches: one check excludes most names."""
    path_rules: Sequence[IgnoreRule]
    """The rules that match paths, in the same order."""

    def is_ignored(self, names: Sequence[str], *, is_folder: bool) -> bool | None:
        """Whether a path is ignored. Return None if no rule matches."""
        name = names[-1]
        for rule in self.rules if self.any_name.match(name) else self.path_rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.name.match(name) if rule.name else match_parts(rule.parts, names[self.depth :]):
                return rule.ignores
        return None


def parse_ignore_rule(line: str) -> IgnoreRule | None:
    """Parse a line. Return None if it is no rule."""
    text = re.sub(r"(?<!\\) +$", "", line)
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    folders_only = text.endswith("/")
    text = text.rstrip("/") if folders_only else text
    if not text or re.search(r"(?<!\\)(\\\\)*\\$", text):
        return None
    if "/" not in text:
        return IgnoreRule(ignores, folders_only, re.compile(name_regex(text)))
    return IgnoreRule(ignores, folders_only, None, parse_glob_parts(text, anchored=True))


def read_ignore_file(folder: str, depth: int) -> list[IgnoreFile]:
    """Return the parsed `.gitignore` of a folder, or an empty list if it has no rule."""
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:  # noqa: PTH123, PTH118 - fast
            lines = os.fsdecode(file.read(_MAX_FILE_BYTES)).replace("\r\n", "\n").split("\n")
    except OSError:
        return []
    rules = [rule for line in reversed(lines) if (rule := parse_ignore_rule(line)) is not None]
    any_name = "|".join(rule.name.pattern for rule in rules if rule.name is not None) or r"(?!)"
    path_rules = [rule for rule in rules if rule.name is None]
    return [IgnoreFile(depth, rules, re.compile(any_name), path_rules)] if rules else []


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder during the walk."""

    path: str
    """The path relative to the start, with a final slash; or ""."""
    names: Sequence[str]
    """The names from the topmost folder with rules."""
    ignore_files: Sequence[IgnoreFile] | None
    """The ignore files, deepest first. None outside a repository."""


def walk(base: str, *, hidden: bool = False) -> Iterator[str]:
    """Yield the files below a folder, as relative paths. Unreadable folders are skipped."""
    pending = [_start_folder(os.path.abspath(base))]  # noqa: PTH100 - texts, not Paths: it is fast
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(base, folder.path)) as scan:  # noqa: PTH118 - as above
                entries = list(scan)
        except OSError:
            continue
        ignore_files = _find_ignore_files(base, folder, {entry.name for entry in entries})
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if entry.name[0] == "." and (entry.name == ".git" or not hidden):
                continue
            path, names = folder.path + entry.name, [*folder.names, entry.name]
            if _is_ignored(ignore_files, names, is_folder=is_folder):
                continue
            if is_folder:
                pending.append(_Folder(path + "/", names, ignore_files))
            else:
                yield path


def _is_ignored(
    ignore_files: Sequence[IgnoreFile] | None, names: Sequence[str], *, is_folder: bool
) -> bool:
    for ignore_file in ignore_files or ():
        is_ignored = ignore_file.is_ignored(names, is_folder=is_folder)
        if is_ignored is not None:
            return is_ignored
    return False


def _find_ignore_files(
    base: str, folder: _Folder, entries: set[str]
) -> Sequence[IgnoreFile] | None:
    """Return the ignore files of a folder; a repository discards those above it."""
    outer_files = () if ".git" in entries else folder.ignore_files
    if outer_files is None or ".gitignore" not in entries:
        return outer_files
    own_file = read_ignore_file(os.path.join(base, folder.path), len(folder.names))  # noqa: PTH118 - fast
    return [*own_file, *outer_files]


def _start_folder(base: str) -> _Folder:
    """Return the start of a walk, with the rules of the folders above it."""
    parts = base.split("/")
    for top in range(len(parts) - 1, 0, -1):
        if os.path.lexists("/".join(parts[:top]) + "/.git"):
            ignore_files = [
                ignore_file
                for end in range(len(parts) - 1, top - 1, -1)
                for ignore_file in read_ignore_file("/".join(parts[:end]) + "/", end - top)
            ]
            return _Folder("", parts[top:], ignore_files)
    return _Folder("", [], None)
