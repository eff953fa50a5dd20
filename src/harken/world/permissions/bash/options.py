"""Read the options of programs: which of them name a program, code or a file of code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from harken.world.permissions.bash.parser import Word
from harken.world.permissions.bash.programs import PROGRAM_OPTIONS, SHORT_VALUES, name_set

_SAFE_VALUE = re.compile(
    r"ssh(?: -p ?\d+| -i [\w./~-]+| -q)*|zstd(?: -T?\d+)*|pigz(?: -\d)?|gzip(?: -\d)?|xz(?: -\d)?"
    r"|bzip2|lz4|lbzip2|pbzip2"
)
"""Programs that options for transport and compression usually name."""
_MIN_ABBREVIATION = 4
_SHELL_LONG = name_set("--norc --noprofile --login --posix --verbose --version --help")


def names_program(name: str, values: Sequence[str]) -> bool:
    """Whether an option (or subcommand) of a program names a program or code.

    >>> names_program("sort", ["--compress-program=x", "a"]), names_program("sort", ["-r", "a"])
    (True, False)
    """
    options = PROGRAM_OPTIONS.get(name, "").split()
    if not options:
        return False
    if name == "tar" and values and re.fullmatch(r"[a-zA-Z]*[IF][a-zA-Z]*", values[0]):
        return True
    for at, value in enumerate(values):
        if value == "--":
            return False
        following = "".join(values[at + 1 : at + 2])
        if _is_listed(name, value, at, options):
            attached = value.partition("=")[2] if value.startswith("--") else value[2:]
            if not _SAFE_VALUE.fullmatch(attached or following):
                return True
    return False


def _is_listed(name: str, value: str, at: int, options: Sequence[str]) -> bool:
    if value.startswith("--"):
        long = value.partition("=")[0]
        is_abbreviation = len(long) >= _MIN_ABBREVIATION
        return is_abbreviation and any(one.startswith(long) for one in options)
    if value.startswith("-"):
        for option in options:
            if len(option) > 2 and not option.startswith("--") and value.startswith(option):
                return True
        letters = {one[1] for one in options if len(one) == 2 and one[0] == "-"}
        for letter in value[1:]:
            if letter in letters:
                return True
            if letter in SHORT_VALUES.get(name, "") or not letter.isalpha():
                return False
        return "-TT" in options and "TT" in value
    if value.startswith("+"):
        return "+" in options
    return at < 2 and value in options


def shell_operands(
    values: Sequence[str],
) -> tuple[Literal["code", "script", "input", "unknown"], str]:
    """Return where a shell takes its commands from, and the name of its script.

    >>> shell_operands(["-e", "x.sh"]), shell_operands(["-lc", "ls"]), shell_operands(["-s"])
    (('script', 'x.sh'), ('code', ''), ('input', ''))
    """
    has_code, at = False, 0
    while at < len(values):
        value = values[at]
        if value == "--" or not value.startswith(("-", "+")) or value == "-":
            at += value == "--"
            break
        if value.startswith("--"):
            if value not in _SHELL_LONG:
                return "unknown", ""
            if value in ("--version", "--help"):
                return "code", ""
        else:
            if "s" in value or "i" in value:
                return "input", ""
            has_code = has_code or "c" in value
            at += value[-1] in "oO"
        at += 1
    if has_code:
        return "code", ""
    return ("script", values[at]) if at < len(values) else ("input", "")


def split_options(
    words: Sequence[Word],
    *,
    code: str,
    files: str,
    values: str,
    longs: str,
    optional: str = "",
    stop: bool = False,
) -> tuple[list[Word], list[Word], list[Word]]:
    """Return the code, the files of code and the other arguments of an interpreter.

    `code`, `files` and `values` are the letters of options with a value, `longs` the long options
    for code, `optional` letters whose value can only be attached. `stop`: options end at the first
    operand, at code and at a file.
    """
    codes: list[Word] = []
    named: list[Word] = []
    rest: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.value.startswith("--") and len(word.value) > 2:
            long, _, attached = word.value[2:].partition("=")
            if len(long) > 1 and any(one.startswith(long) for one in longs.split()):
                codes += [_rest(word, attached)] if attached else words[at : at + 1]
                at += not attached
            elif len(long) > 1 and "file".startswith(long) and files:
                named += [_rest(word, attached)] if attached else words[at : at + 1]
                at += not attached
            else:
                rest.append(word)
        elif re.match(r"-\w", word.value):
            at = _read_cluster(words, at, (code, files, values, optional), (codes, named, rest))
            if stop and named:
                return codes, named, rest
        else:
            rest.append(word)
            if stop:
                return codes, named, [*rest, *words[at:]] if codes or named else [*rest]
    return codes, named, rest


def _read_cluster(
    words: Sequence[Word],
    at: int,
    letters: tuple[str, str, str, str],
    out: tuple[list[Word], list[Word], list[Word]],
) -> int:
    """Read a cluster of short options; return the position of the next argument."""
    code, files, values, optional = letters
    codes, named, rest = out
    word = words[at - 1]
    for position, letter in enumerate(word.value[1:], start=2):
        attached = word.value[position:]
        if letter in optional and letter not in code:
            break
        if letter in code + files + values:
            value = _rest(word, attached) if attached else next(iter(words[at : at + 1]), None)
            if value is not None:
                target = codes if letter in code else named if letter in files else None
                if target is not None:
                    target.append(value)
            flags = word.value[: position - 1]
            if len(flags) > 1:
                rest.append(Word(flags, flags, flags))
            return at if attached else at + 1
    rest.append(word)
    return at


def _rest(word: Word, value: str) -> Word:
    return Word(value, value, value, word.is_plain)
