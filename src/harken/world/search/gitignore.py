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
    paths: Sequence[IgnoreRule]
    """The rules that match paths, in the same order."""

    def say(self, names: Sequence[str], *, is_folder: bool) -> bool | None:
        """Whether a path is ignored. Return None if no rule matches."""
        rules = self.rules if self.any_name.match(names[-1]) else self.paths
        relative_names = names[self.depth :] if self.paths else ()
        for rule in rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.name.match(names[-1]) if rule.name else match_parts(rule.parts, relative_names):
                return rule.ignores
        return None


def read_ignore_file(folder: str, depth: int) -> IgnoreFile | None:
    """Parse the `.gitignore` of a folder. Return None if it has no rule."""
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:  # noqa: PTH123, PTH118 - fast
            lines = os.fsdecode(file.read(_MAX_FILE_BYTES)).replace("\r\n", "\n").split("\n")
    except OSError:
        return None
    rules = [rule for line in reversed(lines) if (rule := parse_ignore_rule(line)) is not None]
    names = "|".join(rule.name.pattern for rule in rules if rule.name is not None)
    paths = [rule for rule in rules if rule.name is None]
    return IgnoreFile(depth, rules, re.compile(names or r"(?!)"), paths) if rules else None


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


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder during the walk."""

    path: str
    """The path relative to the start, with a final slash; or ""."""
    names: Sequence[str]
    """The names from the topmost folder with rules."""
    rules: Sequence[IgnoreFile]
    """The ignore files, deepest first."""
    in_repository: bool


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
        folder = _load_rules(base, folder, {entry.name for entry in entries})
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if _is_excluded(folder, entry.name, hidden=hidden, is_folder=is_folder):
                continue
            path = folder.path + entry.name
            if is_folder:
                names = [*folder.names, entry.name]
                pending.append(_Folder(path + "/", names, folder.rules, folder.in_repository))
            else:
                yield path


def _is_excluded(folder: _Folder, name: str, *, hidden: bool, is_folder: bool) -> bool:
    if name[0] == "." and (name == ".git" or not hidden):
        return True
    if folder.rules:
        names = [*folder.names, name]
        for rules in folder.rules:
            is_ignored = rules.say(names, is_folder=is_folder)
            if is_ignored is not None:
                return is_ignored
    return False


def _load_rules(base: str, folder: _Folder, entries: set[str]) -> _Folder:
    """Return the folder with its own `.gitignore`; a repository discards outer rules."""
    is_repository = ".git" in entries
    if not is_repository and not (folder.in_repository and ".gitignore" in entries):
        return folder
    own_rules = read_ignore_file(os.path.join(base, folder.path), len(folder.names))  # noqa: PTH118 - fast
    outer_rules = () if is_repository else folder.rules
    rules = outer_rules if own_rules is None else (own_rules, *outer_rules)
    return _Folder(folder.path, folder.names, rules, in_repository=True)


def _start_folder(base: str) -> _Folder:
    """Return the start of a walk, with the rules of the folders above it."""
    parts = base.split("/")
    for top in range(len(parts) - 1, 0, -1):
        if os.path.lexists("/".join(parts[:top]) + "/.git"):
            depths = range(len(parts) - 1 - top, -1, -1)
            ignore_files = [
                read_ignore_file("/".join(parts[: top + depth]) + "/", depth) for depth in depths
            ]
            rules = [rules for rules in ignore_files if rules is not None]
            return _Folder("", parts[top:], rules, in_repository=True)
    return _Folder("", [], [], in_repository=False)
