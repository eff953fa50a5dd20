"""Edits in the text of a patch: the envelope of Codex (`*** Begin Patch`), and unified diffs.

A hunk becomes a `Replacement` of its old lines by its new lines: the position in the file is found
by content, as the tool itself does. Line numbers are not trusted.

Source: codex-rs/apply-patch/apply_patch_tool_instructions.md of openai/codex.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from harken.edits.file_edit import (
    Addition,
    Change,
    Content,
    FileEdit,
    Replacement,
    join_path,
    split_lines,
)

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FILE_PATTERN = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE_PREFIX = "*** Move to: "
_HUNK_PATTERN = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_DEV_NULL = "/dev/null"


class _Section(msgspec.Struct):
    """The lines of one file of a patch in Codex's envelope."""

    kind: str
    path: str
    moved_to: str = ""
    hunks: list[list[str]] = msgspec.field(default_factory=list)


def has_patch(text: str) -> bool:
    """Whether a text contains a patch in Codex's envelope."""
    return _BEGIN in text


def is_patch(text: str) -> bool:
    """Whether a text is a patch in Codex's envelope, and nothing before it."""
    return text.lstrip().startswith(_BEGIN)


def find_patch_edits(text: str, folder: str = "") -> list[FileEdit]:
    """Return the edits of a patch in Codex's envelope. Its paths are relative to `folder`."""
    edits: list[FileEdit] = []
    for section in _iter_sections(text):
        path = join_path(folder, section.path)
        if section.kind == "Add":
            lines = [line[1:] for hunk in section.hunks for line in hunk if line.startswith("+")]
            edits.append(FileEdit(path, (Content("".join(f"{line}\n" for line in lines)),)))
        elif section.kind == "Update":
            changes = tuple(change for hunk in section.hunks for change in _hunk_changes(hunk))
            target = join_path(folder, section.moved_to) if section.moved_to else path
            edits.append(FileEdit(target, changes, path if section.moved_to else ""))
    return [edit for edit in edits if edit.changes or edit.moved_from]


def _iter_sections(text: str) -> Iterator[_Section]:
    section: _Section | None = None
    is_inside = False
    for line in split_lines(text):
        if line.strip() in (_BEGIN, _END):
            is_inside = line.strip() == _BEGIN
            continue
        match = _FILE_PATTERN.match(line) if is_inside else None
        if match is not None:
            if section is not None:
                yield section
            section = _Section(match[1], match[2].strip())
        elif section is None or not is_inside:
            continue
        elif line.startswith(_MOVE_PREFIX):
            section.moved_to = line.removeprefix(_MOVE_PREFIX).strip()
        elif line.startswith("@@") or not section.hunks:
            section.hunks.append([] if line.startswith("@@") else [line])
        elif not line.startswith("*** End of File"):
            section.hunks[-1].append(line)
    if section is not None:
        yield section


def _hunk_changes(hunk: list[str]) -> list[Change]:
    """Return the change of one hunk. Hunks without old lines add at the end of the file."""
    old = [line[1:] for line in hunk if not line.startswith("+")]
    new = [line[1:] for line in hunk if not line.startswith("-")]
    if old == new:
        return []
    if not old:
        return [Addition("".join(f"{line}\n" for line in new))]
    return [Replacement("\n".join(old), "\n".join(new))]


class DiffHunk(msgspec.Struct):
    """One hunk of a unified diff."""

    old_start: int
    new_start: int
    old_lines: list[str] = msgspec.field(default_factory=list)
    new_lines: list[str] = msgspec.field(default_factory=list)
    added: list[int] = msgspec.field(default_factory=list)
    """Indexes of the new lines that are not in the old file."""
    removed: list[int] = msgspec.field(default_factory=list)
    """Indexes of the old lines that are not in the new file."""


class FileDiff(msgspec.Struct):
    """The changes of one file in a unified diff."""

    old_path: str
    """Empty for a new file."""
    new_path: str
    """Empty for a deleted file."""
    hunks: list[DiffHunk] = msgspec.field(default_factory=list)


def parse_unified_diff(text: str) -> list[FileDiff]:
    """Parse a unified diff, of git or of another program."""
    files: list[FileDiff] = []
    hunk: DiffHunk | None = None
    old_path, header, counts = "", "", [0, 0]
    for line in text.split("\n"):
        if hunk is not None and max(counts) > 0 and line[:1] in (" ", "+", "-", ""):
            _add_diff_line(hunk, line, counts)
        elif line.startswith(_GIT_HEADER):
            header = line.removeprefix(_GIT_HEADER).rstrip("\r")
        elif line.startswith("--- "):
            old_path, hunk = _parse_diff_path(line), None
        elif line.startswith("+++ "):
            files.append(FileDiff(*_remove_prefixes(old_path, _parse_diff_path(line), header)))
            header = ""
        elif (match := _HUNK_PATTERN.match(line)) is not None and files:
            counts = [int(match[2] or "1"), int(match[4] or "1")]
            hunk = DiffHunk(int(match[1]), int(match[3]))
            files[-1].hunks.append(hunk)
    return files


def _add_diff_line(hunk: DiffHunk, line: str, counts: list[int]) -> None:
    """Add a line to a hunk. `counts`: the number of old and of new lines that are still missing."""
    text = line[1:].removesuffix("\r")
    if not line.startswith("+"):
        if line.startswith("-"):
            hunk.removed.append(len(hunk.old_lines))
        hunk.old_lines.append(text)
        counts[0] -= 1
    if not line.startswith("-"):
        if line.startswith("+"):
            hunk.added.append(len(hunk.new_lines))
        hunk.new_lines.append(text)
        counts[1] -= 1


def _parse_diff_path(line: str) -> str:
    """Return the path in a `---` or `+++` line; of /dev/null, none."""
    path = line[4:].partition("\t")[0].rstrip("\r")
    if path.startswith('"') and path.endswith('"'):
        path = unquote_path(path)
    return "" if path == _DEV_NULL else path


_PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/")
_GIT_HEADER = "diff --git "


def _remove_prefixes(old: str, new: str, header: str) -> tuple[str, str]:
    """Return paths without the `a/` and `b/` of git, which a setting leaves out.

    Git gives both paths different prefixes. If there is one path only, the header has both.
    """
    half = len(header) // 2
    is_equal = header[:half] == header[half + 1 :] if header else False
    has_prefixes = old[:2] != new[:2] if old and new else not is_equal
    if not has_prefixes:
        return old, new
    old, new = (path[2:] if path[:2] in _PREFIXES else path for path in (old, new))
    return old, new


_ESCAPE_PATTERN = re.compile(r"\\([abfnrtv\"\\]|[0-7]{3})")
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, '"': 34, "\\": 92}


def unquote_path(path: str) -> str:
    r"""Return a path that git quoted.

    >>> unquote_path(r'"a/\303\244.py"')
    'a/ä.py'
    """

    def unescape(match: re.Match[bytes]) -> bytes:
        text = match[1].decode("ascii")
        return bytes([_ESCAPES[text] if text in _ESCAPES else int(text, 8) & 0xFF])

    data = path[1:-1].encode("utf-8", "surrogateescape")
    pattern = re.compile(_ESCAPE_PATTERN.pattern.encode("ascii"))
    return pattern.sub(unescape, data).decode("utf-8", "surrogateescape")


def find_unified_edits(text: str, folder: str = "") -> list[FileEdit]:
    """Return the edits of a unified diff. Its paths are relative to `folder`."""
    edits: list[FileEdit] = []
    for file in parse_unified_diff(text):
        if not file.new_path:
            continue
        path = join_path(folder, file.new_path)
        if not file.old_path:
            lines = [line for hunk in file.hunks for line in hunk.new_lines]
            changes: tuple[Change, ...] = (Content("".join(f"{line}\n" for line in lines)),)
        else:
            changes = tuple(
                Replacement("\n".join(hunk.old_lines), "\n".join(hunk.new_lines))
                if hunk.old_lines
                else Addition("".join(f"{line}\n" for line in hunk.new_lines))
                for hunk in file.hunks
            )
        moved_from = join_path(folder, file.old_path) if file.old_path else ""
        edits.append(FileEdit(path, changes, moved_from if moved_from != path else ""))
    return edits
