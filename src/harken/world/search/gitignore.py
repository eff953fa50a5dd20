"""Walking a folder as ripgrep does: without hidden files, and without what git ignores.

Rules of a `.gitignore` count from the folder that holds it, the deepest one that says something
decides, and an ignored folder is not entered. They count inside a git repository only, and not
across the border of one. Symbolic links are not followed.

Source: gitignore(5); ripgrep's guide, "Automatic filtering".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harken.world.search.glob import Part, fits, name_regex, parse_glob_parts

_LONGEST = 1_000_000
"""Bytes of a `.gitignore` that are read."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of a `.gitignore`."""

    ignores: bool
    """False: what it fits is not ignored, whatever earlier lines say."""
    folders_only: bool
    name: re.Pattern[str] | None
    """Fits a name in any folder; None where it is `parts` that fit, from the folder on."""
    parts: Sequence[Part | None] = ()


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """What one `.gitignore` says."""

    depth: int
    """How many names of a path come before what its rules are about."""
    rules: Sequence[IgnoreRule]
    """The last one first: it decides."""
    any_name: re.Pattern[str]
    """Fits where one of the names does: most names fit none, and one look says so."""
    paths: Sequence[IgnoreRule]
    """Those of the rules that are about paths, in the same order."""

    def say(self, names: Sequence[str], *, is_folder: bool) -> bool | None:
        """Return whether a path is ignored; None: nothing is said of it."""
        rules = self.rules if self.any_name.match(names[-1]) else self.paths
        below = names[self.depth :] if self.paths else ()
        for rule in rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.name.match(names[-1]) if rule.name else fits(rule.parts, below):
                return rule.ignores
        return None


def rules_in(folder: str, depth: int) -> IgnoreFile | None:
    """Read the `.gitignore` of a folder; None where there is none that says anything."""
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:  # noqa: PTH123, PTH118 - fast
            lines = os.fsdecode(file.read(_LONGEST)).replace("\r\n", "\n").split("\n")
    except OSError:
        return None
    rules = [rule for line in reversed(lines) if (rule := rule_of(line)) is not None]
    names = "|".join(rule.name.pattern for rule in rules if rule.name is not None)
    paths = [rule for rule in rules if rule.name is None]
    return IgnoreFile(depth, rules, re.compile(names or r"(?!)"), paths) if rules else None


def rule_of(line: str) -> IgnoreRule | None:
    """Read one line; None where it is no rule."""
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
    """A folder that is walked."""

    path: str
    """From where the walk begins, with a slash at its end; or ""."""
    names: Sequence[str]
    """From the topmost folder whose rules count."""
    rules: Sequence[IgnoreFile]
    """The deepest one first."""
    in_repository: bool


def walk(base: str, *, hidden: bool = False) -> Iterator[str]:
    """Yield the files below a folder, from there. What cannot be read is passed over."""
    waiting = [_above(os.path.abspath(base))]  # noqa: PTH100 - texts, not Paths: it is fast
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(base, folder.path)) as found:  # noqa: PTH118 - as above
                entries = list(found)
        except OSError:
            continue
        folder = _with_own_rules(base, folder, {entry.name for entry in entries})
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if _left_out(folder, entry.name, hidden=hidden, is_folder=is_folder):
                continue
            path = folder.path + entry.name
            if is_folder:
                names = [*folder.names, entry.name]
                waiting.append(_Folder(path + "/", names, folder.rules, folder.in_repository))
            else:
                yield path


def _left_out(folder: _Folder, name: str, *, hidden: bool, is_folder: bool) -> bool:
    if name[0] == "." and (name == ".git" or not hidden):
        return True
    if folder.rules:
        names = [*folder.names, name]
        for rules in folder.rules:
            said = rules.say(names, is_folder=is_folder)
            if said is not None:
                return said
    return False


def _with_own_rules(base: str, folder: _Folder, entries: set[str]) -> _Folder:
    """Return the folder with what its own `.gitignore` says; a repository begins anew."""
    begins = ".git" in entries
    if not begins and not (folder.in_repository and ".gitignore" in entries):
        return folder
    own = rules_in(os.path.join(base, folder.path), len(folder.names))  # noqa: PTH118 - fast
    above = () if begins else folder.rules
    rules = above if own is None else (own, *above)
    return _Folder(folder.path, folder.names, rules, in_repository=True)


def _above(base: str) -> _Folder:
    """Return where a walk begins, with the rules of the folders above it."""
    parts = base.split("/")
    for top in range(len(parts) - 1, 0, -1):
        if os.path.lexists("/".join(parts[:top]) + "/.git"):
            depths = range(len(parts) - 1 - top, -1, -1)
            found = [rules_in("/".join(parts[: top + depth]) + "/", depth) for depth in depths]
            rules = [rules for rules in found if rules is not None]
            return _Folder("", parts[top:], rules, in_repository=True)
    return _Folder("", [], [], in_repository=False)
