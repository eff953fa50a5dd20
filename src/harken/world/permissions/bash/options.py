"""Parse the options of programs that name a program, code or a file of code."""

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
    for index, value in enumerate(values):
        if value == "--":
            return False
        following = "".join(values[index + 1 : index + 2])
        if _is_listed(name, value, index, options):
            attached = value.partition("=")[2] if value.startswith("--") else value[2:]
            if not _SAFE_VALUE.fullmatch(attached or following):
                return True
    return False


def _is_listed(name: str, value: str, index: int, options: Sequence[str]) -> bool:
    if value.startswith("--"):
        long = value.partition("=")[0]
        is_abbreviation = len(long) >= _MIN_ABBREVIATION
        return is_abbreviation and any(option_name.startswith(long) for option_name in options)
    if value.startswith("-"):
        for option in options:
            if len(option) > 2 and not option.startswith("--") and value.startswith(option):
                return True
        letters = {
            option_name[1]
            for option_name in options
            if len(option_name) == 2 and option_name[0] == "-"
        }
        for letter in value[1:]:
            if letter in letters:
                return True
            if letter in SHORT_VALUES.get(name, "") or not letter.isalpha():
                return False
        return "-TT" in options and "TT" in value
    if value.startswith("+"):
        return "+" in options
    return index < 2 and value in options


def shell_operands(
    values: Sequence[str],
) -> tuple[Literal["code", "script", "input", "unknown"], str]:
    """Return the source of the commands of a shell, and the name of its script.

    >>> shell_operands(["-e", "x.sh"]), shell_operands(["-lc", "ls"]), shell_operands(["-s"])
    (('script', 'x.sh'), ('code', ''), ('input', ''))
    """
    has_code, index = False, 0
    while index < len(values):
        value = values[index]
        if value == "--" or not value.startswith(("-", "+")) or value == "-":
            index += value == "--"
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
            index += value[-1] in "oO"
        index += 1
    if has_code:
        return "code", ""
    return ("script", values[index]) if index < len(values) else ("input", "")


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
    code_files: list[Word] = []
    others: list[Word] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.value.startswith("--") and len(word.value) > 2:
            long, _, attached = word.value[2:].partition("=")
            if len(long) > 1 and any(long_option.startswith(long) for long_option in longs.split()):
                codes += [_attached_word(word, attached)] if attached else words[index : index + 1]
                index += not attached
            elif len(long) > 1 and "file".startswith(long) and files:
                code_files += (
                    [_attached_word(word, attached)] if attached else words[index : index + 1]
                )
                index += not attached
            else:
                others.append(word)
        elif re.match(r"-\w", word.value):
            index = _parse_option_cluster(
                words, index, (code, files, values, optional), (codes, code_files, others)
            )
            if stop and code_files:
                return codes, code_files, others
        else:
            others.append(word)
            if stop:
                return (
                    codes,
                    code_files,
                    [*others, *words[index:]] if codes or code_files else [*others],
                )
    return codes, code_files, others


def _parse_option_cluster(
    words: Sequence[Word],
    index: int,
    letters: tuple[str, str, str, str],
    out: tuple[list[Word], list[Word], list[Word]],
) -> int:
    """Read a cluster of short options; return the position of the next argument."""
    code, files, values, optional = letters
    codes, code_files, others = out
    word = words[index - 1]
    for position, letter in enumerate(word.value[1:], start=2):
        attached = word.value[position:]
        if letter in optional and letter not in code:
            break
        if letter in code + files + values:
            value = (
                _attached_word(word, attached)
                if attached
                else next(iter(words[index : index + 1]), None)
            )
            if value is not None:
                target = codes if letter in code else code_files if letter in files else None
                if target is not None:
                    target.append(value)
            flags = word.value[: position - 1]
            if len(flags) > 1:
                others.append(Word(flags, flags, flags))
            return index if attached else index + 1
    others.append(word)
    return index


def _attached_word(word: Word, value: str) -> Word:
    return Word(value, value, value, word.is_plain)
