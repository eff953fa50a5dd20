"""Differences of texts and files, with bounded work.

`difflib` takes quadratic time, or longer for texts whose lines repeat. `Work` counts the steps in
advance, and what exceeds it is not compared line by line or word by word; the row tells so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import unified_diff

import msgspec

from harken.core import structs
from harken.edits.file_edit import Change, FileEdit, Replacement
from harken.edits.tools import find_argument_change
from harken.views.conversation.arguments import read_members
from harken.views.interventions import Intervention
from harken.views.message_diff import TextSpan, spans, split_words
from harken.views.message_text import strip_label

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@$")
_HUNK_START, _NEW_TEXT = "@@ line ", "@@ new text @@"
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


class EditDifference(msgspec.Struct, frozen=True):
    """The lines of a unified diff of an edit, without the lines that name the file."""

    lines: list[str]
    is_partial: bool
    """Whether a replacement was not compared line by line."""


class FileChange(msgspec.Struct, frozen=True):
    """The change of files that the arguments of a call describe."""

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


def compare_intervention(row: Intervention, work: Work, max_chars: int) -> Intervention:
    """Return a row with the changes that the hook made."""
    became = row.became
    if row.kind == "message":
        became = strip_label(became, () if row.name is None else (row.name,))
    difference = compare_texts(row.proposed, became, work, max_chars)
    return structs.replace(row, spans=difference.spans)


def change_of_call(name: str, arguments: str, work: Work) -> FileChange | None:
    r"""Return the change that a call makes to a file, from its arguments alone.

    Return None if the arguments describe no change, or do not so unambiguously.

    >>> arguments = '{"path": "a", "old_string": "1\\n2", "new_string": "1\\n3", "all": true}'
    >>> change = change_of_call("edit", arguments, Work())
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
    change = find_argument_change(name, arguments)
    if change is None:
        return None
    if change.members is None:
        return FileChange(arguments, is_partial=False, other_arguments=None)
    members = read_members(arguments)
    if members is None:
        return None
    others = {name: member.text for name, member in members.items() if name not in change.members}
    if change.patch is not None:
        return FileChange(change.patch, is_partial=False, other_arguments=_join_members(others))
    lines, is_partial = [], False
    for edit in change.edits:
        path = " ".join(edit.path_argument.split("\n"))
        difference = compare_edit(edit, work)
        lines += [f"--- {path}", f"+++ {path}", *difference.lines]
        is_partial = is_partial or difference.is_partial
    return FileChange("\n".join(lines), is_partial, _join_members(others))


def compare_edit(edit: FileEdit, work: Work, context_lines: int = 3) -> EditDifference:
    """Compare the replaced and the new texts of an edit, line by line."""
    lines: list[str] = []
    is_partial = False
    for change in edit.changes:
        old, new = _list_lines(change)
        hunks = _diff_lines(old, new, work, context_lines)
        is_partial = is_partial or hunks is None
        lines += hunks or [f"@@ {len(old)} lines are replaced by {len(new)} @@"]
    return EditDifference(lines, is_partial)


def _list_lines(change: Change) -> tuple[list[str], list[str]]:
    """Return the replaced and the new lines of a change."""
    if isinstance(change, Replacement):
        return change.old.split("\n"), change.new.split("\n")
    return [], change.text.removesuffix("\n").split("\n") if change.text else []


def _diff_lines(
    old: Sequence[str], new: Sequence[str], work: Work, context_lines: int
) -> list[str] | None:
    """Return the hunks of two lists of lines. Return None if it is too much work."""
    if not work.spend(_count_steps(old, new)):
        return None
    lines = [*unified_diff(old, new, n=context_lines, lineterm="")][2:]
    return [_format_hunk(line) for line in lines] or ["@@ no change @@"]


def is_hunk_heading(line: str) -> bool:
    """Whether a line of a difference is the heading of a hunk, which only tells its place."""
    return line == _NEW_TEXT or line.startswith(_HUNK_START)


def _format_hunk(line: str) -> str:
    """Return a line of a diff. A hunk names its line of the replaced text, not that of the file."""
    hunk = _HUNK.match(line)
    if hunk is None:
        return line
    return _NEW_TEXT if hunk[1] == "0" else f"{_HUNK_START}{hunk[1]} of the replaced text @@"


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
