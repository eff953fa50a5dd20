"""Find the commands that a simple command starts: itself, and arguments of wrappers such as `sudo`.

Which options of a wrapper take a value is not known for all of them, so both readings are tried.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from harken.world.permissions.bash.parser import Word
from harken.world.permissions.bash.programs import (
    INERT,
    INTERPRETERS,
    OPAQUE,
    PROJECT_TOOLS,
    SHELLS,
    WRAPPER_VALUES,
    WRAPPERS,
)
from harken.world.permissions.pattern import fold_text

MAX_WORDS = 32
"""The maximum number of words of a wrapper that are examined."""
RUNNERS = SHELLS | WRAPPERS | INTERPRETERS | OPAQUE | {"."} | {"source"}
"""Programs that run the commands in their arguments."""
APPENDING = frozenset({"parallel", "xargs"})
"""Wrappers that append arguments which are not in the text."""

OPTION = re.compile("-")
BEFORE_COMMAND = re.compile(r"-|[^=]*=|\d+(?:\.\d+)?[smhd]?$")
"""Words before the command of a wrapper: options, assignments, durations."""
_GLOB = re.compile(r"[*?\[{]")
_UNFIXED = re.compile(r"[^\w./:=+-]")


def is_known(word: Word) -> bool:
    """Whether the name of a program is literal."""
    return word.is_plain and (word.bare == "[" or not _GLOB.search(word.bare))


def is_fixed(word: Word) -> bool:
    """Whether a word is exactly one literal argument."""
    return word.is_plain and not _GLOB.search(word.bare)


def program_name(value: str) -> str:
    """Return the name of a program without its folder and version.

    >>> program_name("/usr/bin/python3.11")
    'python'
    """
    name = posixpath.basename(value).casefold()
    if name in INERT or name in OPAQUE or name in PROJECT_TOOLS:  # `base64` is no version of `base`
        return name
    return name.rstrip("0123456789.-") or name


def command_starts(words: Sequence[Word], start: int, skipped: re.Pattern[str]) -> Iterator[int]:
    """Yield the positions at which the arguments after options may begin, first `start` itself.

    Which options take a value is not known, so both are tried: `git -C there push` is `git push`.
    """
    starts = {start}
    for index in range(start, min(len(words), start + MAX_WORDS)):
        if index in starts:
            yield index
            if skipped.match(words[index].value):
                starts.add(index + 1)
            if words[index].value.startswith("-"):
                starts.add(index + 2)
    if len(words) in starts or start >= len(words):
        yield len(words)


def certain_start(words: Sequence[Word], index: int, wrapper: str) -> int:
    """Return the index of the command in a wrapper with known options.

    >>> certain_start([Word(w, w, w) for w in "nice -n 5 A=b make all".split()], 0, "nice")
    4
    """
    with_value = WRAPPER_VALUES.get(wrapper, "")
    index += 1
    while index < len(words):
        value = words[index].value
        if value.startswith("-") and not value.startswith("--") and len(value) > 1:
            index += value[-1] in with_value and value[1] == value[-1]
        elif not BEFORE_COMMAND.match(value):
            break
        index += 1
    return index


def attached_texts(word: str) -> Iterator[str]:
    """Yield possible commands within an option: `-czap`, `-vSzap`, `--run=zap`."""
    if word.startswith("--"):
        yield word.partition("=")[2]
    elif word.startswith("-"):
        yield from (word[2:], word.partition("S")[2])


class Forms:
    """The texts by which a rule may name a command that starts at one of the words."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.raw = [fold_text(word.raw) for word in words]
        self.values = [fold_text(word.value) for word in words]
        self.unfixed = [index for index, word in enumerate(words) if not is_fixed(word)]

    def from_word(self, start: int, names: Sequence[str] = ()) -> dict[str, None]:
        """Return the command as written, without quotes, without options, and by name.

        `names`: further names of the program, such as the target of a symbolic link.
        """
        forms = {" ".join(self.raw[start:]): None}
        value = self.values[start]
        known = {value, posixpath.basename(value), *map(fold_text, names)}
        # git-push is the program that `git push` starts.
        known |= {name.replace("-", " ", 1) for name in tuple(known) if name.startswith("git-")}
        for name in known:
            for index in command_starts(self.words, start + 1, OPTION):
                forms[" ".join([name, *self.values[index:]])] = None
        return forms

    def prefixes(
        self, start: int, *, is_open: bool = False, names: Sequence[str] = ()
    ) -> dict[str, None]:
        """Return the known beginning of a command that goes on with an unknown word.

        `is_open`: arguments are appended, so all of it is only a beginning.
        """
        end = next((index for index in self.unfixed if index > start), len(self.words))
        if end == len(self.words) and not is_open:
            return {}
        last = fold_text(_UNFIXED.split(self.words[end].raw, 1)[0]) if end < len(self.words) else ""
        value = self.values[start]
        return {
            " ".join([name, *self.values[index:end], last]): None
            for name in (value, posixpath.basename(value), *map(fold_text, names))
            for index in command_starts(self.words[:end], start + 1, OPTION)
        }
