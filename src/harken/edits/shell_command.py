"""Edits by shell commands, if the text of the command shows the new content.

Found are here-documents to `cat` and `tee`, redirections of `echo` and `printf`, patches given to
`apply_patch`, `git apply` and `patch`, literal substitutions of `sed -i`, moves of files, and the
literals of inline Python code. A command is parsed, never run, and an expansion makes its text
unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from harken.edits.file_edit import (
    Addition,
    Change,
    Content,
    FileEdit,
    Fragment,
    Replacement,
    join_path,
)
from harken.edits.patch_text import find_patch_edits, find_unified_edits, has_patch
from harken.edits.python_code import find_code_edits
from harken.formats.json_records import Record
from harken.world.permissions.bash.parser import SimpleCommand, parse

_COMMAND_MEMBERS = ("command", "cmd", "script", "commandLine", "input")
_FOLDER_MEMBERS = ("workdir", "cwd", "working_directory", "dir_path", "directory")
_SIGN_PATTERN = re.compile(r">|\btee\b|-i|\*\*\* Begin Patch|<<|\bmv\b|python|\bpatch\b|\bapply\b")
"""Matches every command that may show an edit."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_OPTION_CODE_PATTERN = re.compile(r"-[a-z]*c")
_PYTHON_PATTERN = re.compile(r"(?:.*/)?python[\d.]*")
_ESCAPE_PATTERN = re.compile(r"\\([0abefnrtv\\]|x[0-9a-fA-F]{1,2}|[0-7]{1,3})")
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES |= {"v": "\v", "\\": "\\", "0": "\0"}
_EXPANSION_PATTERN = re.compile(r"[$`*?\[{\"]")
"""Matches a path that the shell expands."""
_REGEX_SIGNS = re.compile(r"[.*^$\[\]+?(){}|]")
_MAX_DEPTH = 4


def find_shell_edits(arguments: Record) -> list[FileEdit]:
    """Return the edits of a call of a shell tool."""
    command = next((arguments[name] for name in _COMMAND_MEMBERS if name in arguments), None)
    folder = next(
        (value for name in _FOLDER_MEMBERS if isinstance(value := arguments.get(name), str)), ""
    )
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        command = _unwrap(words)
    if not isinstance(command, str) or not _SIGN_PATTERN.search(command):
        return []
    return _CommandReader(join_path("", folder)).read(command)


def _unwrap(words: Sequence[str]) -> str:
    """Return the command that a list of words runs: the text of `bash -lc TEXT`."""
    if len(words) > 2 and words[0].rpartition("/")[2] in _SHELLS:
        for index, word in enumerate(words[1:-1], start=1):
            if _OPTION_CODE_PATTERN.fullmatch(word):
                return words[index + 1]
    return shlex.join(words)


class _CommandReader(msgspec.Struct):
    """Collect the edits of commands, and follow `cd`."""

    folder: str
    edits: list[FileEdit] = msgspec.field(default_factory=list)

    def read(self, text: str, depth: int = 0) -> list[FileEdit]:
        """Add the edits of a command line. Return all edits so far."""
        piped: str | None = None
        for command in parse(text).commands:
            output = _output(command, piped)
            self._add_redirected(command, output)
            self._add_by_program(command, output, depth)
            piped = output
        return self.edits

    def _add(self, path: str, *changes: Change, moved_from: str = "") -> None:
        if not path.startswith("/dev/") and not _EXPANSION_PATTERN.search(path):
            self.edits.append(FileEdit(join_path(self.folder, path), changes, moved_from))

    def _add_redirected(self, command: SimpleCommand, output: str | None) -> None:
        """Add the edit of `... > FILE`, if the output is known."""
        for redirection in command.redirections:
            is_output = redirection.operator in (">", ">>", ">|", "&>", "1>", "1>>")
            if is_output and redirection.target.is_plain and output is not None:
                is_append = redirection.operator.endswith(">>")
                self._add(
                    redirection.target.value, Addition(output) if is_append else Content(output)
                )

    def _add_by_program(self, command: SimpleCommand, output: str | None, depth: int) -> None:
        if not command.arguments:
            return
        words = [word.value for word in command.arguments]
        name = words[0].rpartition("/")[2]
        operands = [word for word in words[1:] if not word.startswith("-")]
        document = _here_document(command)
        if name == "cd" and operands:
            self.folder = join_path(self.folder, operands[0])
        elif name == "tee" and output is not None:
            is_append = any(word in ("-a", "--append") for word in words[1:])
            for path in operands:
                self._add(path, Addition(output) if is_append else Content(output))
        elif name in ("apply_patch", "applypatch") or any(map(has_patch, words)):
            text = document or next(filter(has_patch, words), "")
            self.edits += find_patch_edits(text, self.folder)
        elif name == "patch" or (name == "git" and "apply" in operands[:1]):
            self.edits += find_unified_edits(document or "", self.folder)
        elif name in ("sed", "gsed", "perl") and any(word.startswith("-") for word in words[1:]):
            self._add_substitutions(words)
        elif name == "mv" or (name == "git" and operands[:1] == ["mv"]):
            self._add_move(operands[1:] if name == "git" else operands)
        elif _PYTHON_PATTERN.fullmatch(words[0]):
            code = words[words.index("-c") + 1 :][:1] if "-c" in words else [document or ""]
            self.edits += find_code_edits("".join(code), self.folder)
        elif name in _SHELLS and depth < _MAX_DEPTH:
            self._read_inner(words, document, depth)

    def _read_inner(self, words: Sequence[str], document: str | None, depth: int) -> None:
        """Read the command of `bash -c TEXT`, or of `bash <<EOF`."""
        text = _unwrap(words) if len(words) > 2 else document
        if text and _SIGN_PATTERN.search(text):
            folder = self.folder
            self.read(text, depth + 1)
            self.folder = folder

    def _add_move(self, operands: Sequence[str]) -> None:
        if len(operands) == 2:
            old, new = operands
            if new.endswith("/") or new in (".", ".."):
                new = f"{new}/{old.rpartition('/')[2]}"
            self._add(new, moved_from=join_path(self.folder, old))

    def _add_substitutions(self, words: Sequence[str]) -> None:
        """Add the edits of `sed -i` and `perl -pi`, as far as their texts are literal."""
        is_in_place = any(
            word.startswith("--in-place") or re.match(r"-\w*i", word) for word in words[1:]
        )
        scripts, files = _split_sed_words(words[1:])
        changes = [change for script in scripts for change in _sed_changes(script)]
        if is_in_place and changes:
            for path in files:
                self._add(path, *changes)


def _here_document(command: SimpleCommand) -> str | None:
    """Return the literal here-document or here-string of a command, or None."""
    for redirection in command.redirections:
        if redirection.is_text and redirection.target.is_plain:
            text = redirection.target.value
            if redirection.operator == "<<-":
                text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
            return text if redirection.operator != "<<<" else f"{text}\n"
    return None


def _output(command: SimpleCommand, piped: str | None) -> str | None:
    """Return the literal output of a command, or None if it is unknown."""
    words = command.arguments
    name = words[0].value.rpartition("/")[2] if words else ""
    if name in ("cat", "tee", ""):
        operands = [word for word in words[1:] if not word.value.startswith("-")]
        if name == "cat" and operands:
            return None
        return piped if command.is_piped_into else _here_document(command)
    if not all(word.is_plain for word in words):
        return None
    values = [word.value for word in words[1:]]
    if name == "echo":
        return _echo(values)
    return _printf(values) if name == "printf" and values else None


def _echo(values: list[str]) -> str:
    r"""Return the output of `echo`.

    >>> _echo(["-e", "a\\tb"])
    'a\tb\n'
    """
    end, is_escaped = "\n", False
    while values and re.fullmatch(r"-[neE]+", values[0]):
        option = values.pop(0)
        end = "" if "n" in option else end
        is_escaped = is_escaped or "e" in option
    text = " ".join(values)
    return (_unescape(text) if is_escaped else text) + end


def _printf(values: list[str]) -> str | None:
    r"""Return the output of `printf` with a format of plain text and `%s`, or None.

    >>> _printf(["%s\\n", "a", "b"])
    'a\nb\n'
    """
    template, *operands = values[1:] if values[0] == "--" else values
    pieces = _unescape(template).replace("%%", "\0").split("%s")
    if any("%" in piece for piece in pieces):
        return None
    size = len(pieces) - 1
    output = ""
    while True:
        arguments, operands = operands[:size], operands[size:]
        arguments += [""] * (size - len(arguments))
        output += "".join(
            piece + word for piece, word in zip(pieces, [*arguments, ""], strict=True)
        )
        if not size or not operands:
            return output.replace("\0", "%")


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        return chr(int(escape[1:], 16) if escape[0] == "x" else int(escape, 8) & 0xFF)

    return _ESCAPE_PATTERN.sub(character, text)


def _split_sed_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the scripts and the files in the arguments of `sed` or `perl`."""
    scripts: list[str] = []
    operands: list[str] = []
    is_script = False
    for word in words:
        if is_script:
            scripts.append(word)
            is_script = False
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word.startswith("-"):
            is_script = re.fullmatch(r"-\w*e", word) is not None or word == "--expression"
        elif word:
            operands.append(word)
    return (scripts, operands) if scripts else (operands[:1], operands[1:])


def _sed_changes(script: str) -> Iterator[Change]:
    """Yield the changes of a script of literal substitutions, or of added lines."""
    added = re.match(r"(?:\d+|\$|/[^/]*/)?\s*[aic]\\?\s*\n?(.+)", script, re.DOTALL)
    if added is not None and not script.startswith("s"):
        yield Fragment(added[1].replace("\\\n", "\n"))
        return
    for part in script.split("\n"):
        match = re.fullmatch(r"[\d,$\s]*s(.)(.+?)\1(.*?)\1[gIip]*;?", part.strip())
        if match is None:
            continue
        old, new = (match[index].replace(f"\\{match[1]}", match[1]) for index in (2, 3))
        old = re.sub(r"\\([.*^$\[\]/&])", "\0\\1", old)
        literal = re.sub("\0.", "", old)
        if _REGEX_SIGNS.search(literal) or "\\" in literal or re.search(r"\\[\d&]|&", new):
            continue
        yield Replacement(old.replace("\0", ""), new.replace("\\n", "\n"), replaces_all=True)
