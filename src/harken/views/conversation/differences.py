"""Differences of texts and files, with bounded work.

`difflib` takes quadratic time, or longer for texts whose lines repeat. `Work` counts the steps in
advance, and what exceeds it is not compared line by line or word by word; the row tells so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from harken.views.conversation.arguments import read_members
from harken.views.message_diff import TextSpan, spans, split_words

_PATCH = "*** Begin Patch"
_PATCH_MEMBERS = ("input", "patch")
_PATH_MEMBERS = ("file_path", "path", "filename")
_REPLACEMENTS = (("old_string", "new_string"), ("oldText", "newText"))
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@$")
_POPULAR_FROM = 200
"""The length from which difflib ignores elements that are more than 1% of a list."""
_MAX_COMPARED_CHARS = 300_000
"""The maximum length of compared texts, without their equal ends."""
_CHARS_PER_STEP = 4
"""The number of characters that are split into words in the time of a step."""
_STEPS = 1_000_000


class Work:
    """The steps that comparisons may still take. 1,000,000 are some tenths of a second."""

    def __init__(self, steps: int = _STEPS) -> None:
        self.steps = steps
        self.spent = 0

    def spend(self, steps: int) -> bool:
        """Subtract the steps of a comparison if they are left. Return whether they were."""
        if steps > self.steps:
            return False
        self.steps -= steps
        self.spent += steps
        return True


class TextDifference(msgspec.Struct, frozen=True):
    """The changes from one text to another, word by word, with unchanged text shortened."""

    spans: list[TextSpan]
    is_partial: bool
    """Whether changes were left out, or not compared word by word."""


class FileChange(msgspec.Struct, frozen=True):
    """The change of a file that the arguments of a call describe."""

    diff: str
    """A unified diff, or a patch that begins with `*** Begin Patch`."""
    is_partial: bool
    """Whether a replacement was not compared line by line."""
    other_arguments: str | None
    """The members of the arguments that the diff does not represent, verbatim."""


def compare_texts(before: str, after: str, work: Work, max_chars: int) -> TextDifference:
    """Compare two whole texts, and return at most `max_chars` characters of differences."""
    head = _count_common(before, after)
    tail = _count_common(before[head:][::-1], after[head:][::-1])
    # Words must not be split at an end, and some context is shown.
    head, tail = max(0, head - 200), max(0, tail - 200)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    is_partial = max(len(old), len(new)) > _MAX_COMPARED_CHARS
    old, new = old[:_MAX_COMPARED_CHARS], new[:_MAX_COMPARED_CHARS]
    is_compared = work.spend((len(old) + len(new)) // _CHARS_PER_STEP) and work.spend(
        _count_steps(split_words(old), split_words(new))
    )
    if is_compared:
        rows = spans(old, new)
    else:
        is_partial = True
        rows = [TextSpan(kind="dropped", text=old), TextSpan(kind="added", text=new)]
    short_rows = [*_cut_spans(rows, max_chars)]
    return TextDifference(short_rows, is_partial or short_rows != rows)


def change_of_call(arguments: str, work: Work) -> FileChange | None:
    r"""Return the change that a call makes to a file, from its arguments alone.

    Return None if the arguments describe no change, or do not so unambiguously.

    >>> arguments = '{"path": "a", "old_string": "1\\n2", "new_string": "1\\n3", "all": true}'
    >>> change = change_of_call(arguments, Work())
    >>> print(change.diff)
    --- a
    +++ a
    @@ line 1 of the replaced text @@
     1
    -2
    +3
    >>> change.other_arguments
    '{"all": true}'
    """
    if arguments.lstrip().startswith(_PATCH):
        return FileChange(arguments, is_partial=False, other_arguments=None)
    members = read_members(arguments)
    if members is None:
        return None
    values = {name: member.value for name, member in members.items()}
    for name in _PATCH_MEMBERS:
        patch = values.get(name)
        if isinstance(patch, str) and patch.lstrip().startswith(_PATCH):
            rest = {other: member.text for other, member in members.items() if other != name}
            return FileChange(patch, is_partial=False, other_arguments=_join_members(rest))
    return _change_of_edits(values, {name: member.text for name, member in members.items()}, work)


def _change_of_edits(
    values: Mapping[str, Any], texts: Mapping[str, str], work: Work
) -> FileChange | None:
    path_name = next((name for name in _PATH_MEMBERS if isinstance(values.get(name), str)), None)
    pairs = [*_iter_replacements(values)]
    if path_name is None or not pairs:
        return None
    represented, is_partial = {path_name}, False
    hunks: list[str] = []
    for names, old, new in pairs:
        represented |= names
        lines = _diff_texts(old, new, work)
        is_partial = is_partial or lines is None
        hunks += lines or [f"@@ {_count_lines(old)} lines are replaced by {_count_lines(new)} @@"]
    path = " ".join(values[path_name].split("\n"))
    rest = {name: text for name, text in texts.items() if name not in represented}
    diff = "\n".join([f"--- {path}", f"+++ {path}", *hunks])
    return FileChange(diff, is_partial, _join_members(rest))


def _iter_replacements(arguments: Mapping[str, Any]) -> Iterator[tuple[set[str], str, str]]:
    """Yield the represented members, the replaced and the new text of each edit of a call."""
    for names in _REPLACEMENTS:
        old, new = (arguments.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str):
            yield set(names), old, new
    edits = arguments.get("edits")
    if not isinstance(edits, list):
        return
    is_complete = all(isinstance(edit, dict) and _has_only_texts(edit) for edit in edits)
    for edit in edits:
        for names in _REPLACEMENTS:
            old, new = (edit.get(name) if isinstance(edit, dict) else None for name in names)
            if isinstance(old, str) and isinstance(new, str):
                yield {"edits"} if is_complete else set(), old, new


def _has_only_texts(edit: Mapping[str, Any]) -> bool:
    """Whether an edit consists of a replaced and a new text."""
    texts = all(isinstance(value, str) for value in edit.values())
    return texts and any(set(edit) == set(names) for names in _REPLACEMENTS)


def _diff_texts(before: str, after: str, work: Work) -> list[str] | None:
    """Return the hunks of two texts, none if they are equal. Return None if it is too much work."""
    old, new = before.split("\n"), after.split("\n")
    if not work.spend(_count_steps(old, new)):
        return None
    lines = [*unified_diff(old, new, n=3, lineterm="")][2:]
    return [_format_hunk(line) for line in lines] or ["@@ no change @@"]


def _format_hunk(line: str) -> str:
    """Return a line of a diff. A hunk names its line of the replaced text, not that of the file."""
    hunk = _HUNK.match(line)
    return line if hunk is None else f"@@ line {hunk[1]} of the replaced text @@"


def _count_lines(text: str) -> int:
    return text.count("\n") + 1


def _join_members(texts: Mapping[str, str]) -> str | None:
    return "{" + ", ".join(texts.values()) + "}" if texts else None


def _count_steps(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Return how many steps difflib takes at most to compare two lists, roughly."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    inner = _count_pairs(inner_old, inner_new) * (min(len(inner_old), len(inner_new)) // 8 + 1)
    return len(old) + len(new) + _count_pairs(old, new) + inner


def _count_pairs(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Return the number of pairs of equal elements that difflib looks at."""
    limit = len(new) // 100 + 1 if len(new) >= _POPULAR_FROM else len(new)
    counts = Counter(new)
    return sum(counts[item] for item in old if counts[item] <= limit)


def _count_common(left: str, right: str) -> int:
    """Return the length of the common beginning of two texts."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut_spans(rows: Sequence[TextSpan], max_chars: int) -> Iterator[TextSpan]:
    """Yield spans up to a number of characters. A long span is cut, so that others have room."""
    for row in rows:
        if max_chars <= 0:
            return
        text = row.text[: max(max_chars // 2, 64)]
        max_chars -= len(text) + 16
        yield row if text == row.text else TextSpan(kind=row.kind, text=text + " …")
