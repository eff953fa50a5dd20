"""Find the commands that a shell command may run, for rules that deny or ask.

`Analysis` collects the commands that surely run, those that may run, and doubts: reasons why it may
run more than that. A doubt does not depend on a rule. A rule that denies or asks treats a command
with a doubt as one that may match, so the user is asked.

The content of a script or program of the project is not examined.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from harken.world.permissions.bash.findings import Doubt, Findings
from harken.world.permissions.bash.parser import SimpleCommand, Word, parse
from harken.world.permissions.bash.program_check import KNOWN, ProgramCheck
from harken.world.permissions.bash.programs import (
    EXACT_WRAPPERS,
    INTERPRETERS,
    PROGRAM_VARIABLE,
    PROJECT_TOOLS,
    SAFE_VALUE,
    SHELLS,
    TEXT_WRAPPERS,
    WRAPPERS,
    name_set,
)
from harken.world.permissions.bash.syntax import MAX_LENGTH
from harken.world.permissions.bash.wrappers import (
    APPENDING,
    BEFORE_COMMAND,
    MAX_WORDS,
    RUNNERS,
    Forms,
    attached_texts,
    certain_start,
    command_starts,
    is_known,
    program_name,
)
from harken.world.permissions.pattern import fold_text

_MAX_DEPTH = 8
_MAX_ARGUMENTS = 200
"""The maximum number of words that are examined in a command that may start another one."""
_SEPARATORS = re.compile(r"[\s;&|]")
_DISGUISE = re.compile(r"[()'\"\\$`]")
"""Characters that make another command of a text when it is read once more."""
_SIGNS_PATTERN = re.compile(r"[;&|(){}<>`\"'$\n]+")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=(.*)", re.DOTALL)
_SETTERS = name_set(
    """
    declare export getopts local mapfile printf read readarray readonly typeset unset let env
    """
)
"""Builtins that set the variables which their arguments name."""
_EXEC_OPTIONS = name_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_SUBCOMMANDS = name_set("-- exec run x dlx")
_COPIERS = name_set("cat cp dd gzip install ln mv rsync scp tar tee")
_WRITERS = name_set("base64 cp curl dd install ln mv rsync scp tee wget")
_KEYWORDS = name_set(
    """
    ! case coproc do done elif else esac fi for function if in select then until while
    """
)
_NON_WORD_PATTERN = re.compile(r"[^\w./+-]+")


class Analysis:
    """The commands that a shell command runs or may run, and doubts about it."""

    def __init__(
        self, text: str, resolve: Callable[[str], Sequence[str]] = lambda _: (), depth: int = 0
    ) -> None:
        """Analyze a text.

        `resolve` returns further names of a program, such as the target of a symbolic link.
        `depth`: in how many other texts this one is nested.
        """
        self.commands: dict[str, None] = {fold_text(text): None}
        """The commands that certainly run, in several folded forms each, and the full text."""
        self.possible: dict[str, None] = {}
        """The commands that may run: arguments of wrappers, lines of here-documents."""
        self.prefixes: dict[str, None] = {}
        """The prefixes of commands with an unknown remainder: `git ` of `git $what`."""
        self.findings = Findings()
        self.written_files: set[str] = set()
        """The names of files that are written."""
        self.writes_text = False
        self.copied: list[str] = []
        """Arguments of programs that copy files."""
        self._resolve = lru_cache(maxsize=256)(resolve)
        self._seen: set[str] = set()
        self._read(text, depth)
        self._finish(text)

    @property
    def doubts(self) -> set[Doubt]:
        """The reasons why it may run more than is known."""
        return self.findings.doubts

    def may_mention(self, pattern: str) -> bool:
        """Whether a program that cannot be examined gets arguments that name a denied command.

        `pattern`: a folded pattern of a rule.
        """
        first, *others = pattern.split() or [""]
        name = posixpath.basename(first).rstrip("*")
        if not name:
            pieces = [piece for piece in pattern.split("*") if piece.strip()]
            texts = [*self.findings.loose_mentions, *self.findings.mentions]
            return any(all(piece in fold_text(text) for piece in pieces) for text in texts)
        words = [name, *(word.rstrip("*") for word in others if word.strip("*"))]
        return (
            any(_has_words(text, [name]) for text in self.findings.loose_mentions)
            or any(_has_words(text, words) for text in self.findings.mentions)
            or any(_is_program_file(text, name) for text in self.copied)
        )

    def _read(self, text: str, depth: int) -> None:
        if text in self._seen:
            return
        self._seen.add(text)
        if depth > _MAX_DEPTH or len(text) > MAX_LENGTH:
            self.doubts.add(Doubt.SIZE)
            return
        script = parse(text)
        if not script.is_complete:  # A shell runs the lines before the line that it cannot parse.
            self.doubts.add(Doubt.SYNTAX)
            script.commands += _split_roughly(text)
        if script.expands_prompt:
            self.doubts.add(Doubt.EVALUATED_TWICE)
        if script.has_arithmetic:
            self.findings.mentions.append(fold_text(text))
        for quoted in script.quoted:
            self._add_possible(" ; ".join(_SIGNS_PATTERN.split(quoted)), depth)
        for nested in script.backquoted:
            self._read(nested, depth + 1)
        check = ProgramCheck(script, self.findings)
        for command in script.commands:
            self._read_assignments(command)
            self._read_redirections(command, depth)
            self._read_command(command, check, depth)

    def _finish(self, text: str) -> None:
        """Compare the files that are written with those that are run."""
        ran = {posixpath.basename(script) for script in self.findings.scripts}
        if ran & self.written_files:
            self.doubts.add(Doubt.WRITTEN_PROGRAM)
        if self.writes_text and self.findings.runs_project:
            self.findings.mentions.append(_SIGNS_PATTERN.sub(" ", fold_text(text)))

    def _add_possible(self, text: str, depth: int) -> None:
        """Add the commands that a text would run if it were a command."""
        if text in self._seen:
            return
        self._seen.add(text)
        if depth >= _MAX_DEPTH:
            self.doubts.add(Doubt.SIZE)
            return
        analysis = Analysis(text, self._resolve, depth + 1)
        self.possible |= analysis.commands | analysis.possible
        self.prefixes |= analysis.prefixes

    def _read_assignments(self, command: SimpleCommand) -> None:
        pairs = [(assignment.name, assignment.value) for assignment in command.assignments]
        first = program_name(command.arguments[0].value) if command.arguments else ""
        if first in _SETTERS or first in WRAPPERS:
            for word in command.arguments[1:]:
                match = _ASSIGNMENT.match(word.value)
                if match is not None:
                    value = Word(match[2], match[2], match[2], word.is_plain)
                    pairs.append((match[1], value))
                elif first in _SETTERS - {"unset", "env"}:
                    pairs.append((word.value, Word("?", "?", "?")))
        for name, value in pairs:
            name = name.partition("[")[0]
            is_safe = value.is_plain and SAFE_VALUE.fullmatch(value.value)
            if PROGRAM_VARIABLE.fullmatch(name) and not is_safe and first != "unset":
                self.doubts.add(Doubt.PROGRAM_VARIABLE)
            if first:
                self.findings.mentions.append(value.value)

    def _read_redirections(self, command: SimpleCommand, depth: int) -> None:
        for redirection in command.redirections:
            if redirection.is_text:
                self._add_possible(redirection.target.value, depth)
            elif (
                not redirection.is_input
                and "/dev/" not in redirection.target.value
                and not redirection.is_descriptor
            ):
                self.written_files.add(posixpath.basename(redirection.target.value))
                self.writes_text = True

    def _read_command(self, command: SimpleCommand, check: ProgramCheck, depth: int) -> None:
        words = _without_coproc(command.arguments)
        if not words:
            return
        if len(words) > _MAX_ARGUMENTS and program_name(words[0].value) in RUNNERS:
            self.doubts.add(Doubt.SIZE)
            words = words[:_MAX_ARGUMENTS]
        if not is_known(words[0]):
            self.doubts.add(Doubt.UNKNOWN_PROGRAM)
        names = self._names(words[0])
        forms = Forms(words)
        self.commands |= forms.from_word(0, names)
        self.prefixes |= forms.prefixes(0, names=names)
        check.check(words, command)
        for name in map(program_name, names):
            if name in KNOWN:
                check.check(words, command, name=name)
        runners = self._read_runners(words, forms, command, check)
        if runners:
            self._read_arguments(words, runners, depth)
            for position in range(1, min(len(words), MAX_WORDS)):
                self.possible |= forms.from_word(position)
                self.prefixes |= forms.prefixes(position, is_open=bool(runners & APPENDING))
        self._note_files(words)

    def _names(self, word: Word) -> Sequence[str]:
        return self._resolve(word.value) if is_known(word) else ()

    def _read_runners(
        self,
        words: Sequence[Word],
        forms: Forms,
        command: SimpleCommand,
        check: ProgramCheck,
    ) -> set[str]:
        """Add the commands that a wrapper starts: `sudo -u me git push` starts `git push`.

        Return the names of the wrappers.
        """
        runners: set[str] = set()
        pending, seen_starts = [0], {0}
        while pending:
            position = pending.pop()
            name = program_name(words[position].value)
            if name not in RUNNERS:
                continue
            runners.add(name)
            appends = bool(runners & APPENDING)
            certain = certain_start(words, position, name) if runners <= EXACT_WRAPPERS else None
            for start in _starts(words, position, name):
                if position > 0 and appends and start == len(words):
                    self.doubts.add(Doubt.UNKNOWN_PROGRAM)
                if start < min(len(words), MAX_WORDS) and start not in seen_starts:
                    seen_starts.add(start)
                    pending.append(start)
                    self.commands |= forms.from_word(start, self._names(words[start]))
                    inner = _with_placeholders(words[start:], words[:start], runners)
                    if not is_known(inner[0]) and _is_marked(words, position, start, name):
                        self.doubts.add(Doubt.UNKNOWN_PROGRAM)
                    check.check(inner, command, is_first=start == certain, appends=appends)
        if runners & WRAPPERS and not runners <= EXACT_WRAPPERS | PROJECT_TOOLS:
            for start in range(1, min(len(words), MAX_WORDS)):
                name = program_name(words[start].value)
                if name in RUNNERS and name != "." and start not in seen_starts:
                    runners |= {name} & SHELLS
                    check.check(words[start:], command, is_first=False)
        return runners

    def _read_arguments(self, words: Sequence[Word], runners: set[str], depth: int) -> None:
        """Read texts that runners may run as commands: `sh -c '...'`."""
        values = [word.value for word in words[1:]]
        texts = [value for value in values if _SEPARATORS.search(value.strip("; "))]
        quoted_values = [value for value in values[:MAX_WORDS] if _DISGUISE.search(value)]
        if "eval" in runners:
            texts = [" ".join(values)]
        for text in texts + (quoted_values if runners & SHELLS else []):
            if runners & (SHELLS | TEXT_WRAPPERS):
                self._read(text, depth + 1)
            else:
                self._read_code(text, depth)
        attached = [text for value in values[:MAX_WORDS] for text in attached_texts(value) if text]
        for text in quoted_values + attached:
            self._add_possible(text, depth)
        if len(words) > MAX_WORDS:
            self.doubts.add(Doubt.SIZE)

    def _read_code(self, text: str, depth: int) -> None:
        """Add the commands in a text of another language, without doubts about its syntax."""
        analysis = Analysis(text, self._resolve, min(depth + 1, _MAX_DEPTH))
        self.commands |= analysis.commands
        self.possible |= analysis.possible
        self.prefixes |= analysis.prefixes

    def _note_files(self, words: Sequence[Word]) -> None:
        """Note the files that a command writes or copies, as far as its arguments name them."""
        name = program_name(words[0].value)
        values = [word.value for word in words[1:]]
        if name in _WRITERS:
            self.written_files |= {
                posixpath.basename(value.partition("=")[2] or value) for value in values
            }
            self.writes_text = True
        if name in ("sed", "perl") and any(value.startswith("-i") for value in values):
            self.writes_text = True
        if name in _COPIERS:
            self.copied += values


def _starts(words: Sequence[Word], wrapper_index: int, name: str) -> set[int]:
    """Return where the commands may begin that a wrapper at a position starts."""
    marks = _EXEC_OPTIONS
    starts: set[int] = set()
    if name in INTERPRETERS - {"python"} or (name == "." and wrapper_index > 0):
        return starts
    if name not in ("find", "fd", "fdfind"):
        marks = frozenset() if name in EXACT_WRAPPERS else _SUBCOMMANDS
        if name not in PROJECT_TOOLS or name in ("npx", "uvx", "pipx"):
            starts |= set(command_starts(words, wrapper_index + 1, BEFORE_COMMAND))
    for position in range(wrapper_index + 1, min(len(words), MAX_WORDS)):
        if words[position].value in marks:
            starts |= set(command_starts(words, position + 1, BEFORE_COMMAND))
    return starts


def _is_marked(words: Sequence[Word], wrapper_index: int, start: int, name: str) -> bool:
    """Whether a command probably begins here, not the value of an option of a wrapper."""
    return (
        name not in PROJECT_TOOLS
        or start == wrapper_index + 1
        or words[start - 1].value in _SUBCOMMANDS
    )


def _with_placeholders(
    words: Sequence[Word], before: Sequence[Word], runners: set[str]
) -> Sequence[Word]:
    """Return the words of a command; those in which a wrapper replaces a token are unknown."""
    tokens = {"{}"} if runners & {"find", "fd", "fdfind", "xargs"} else set()
    for index, word in enumerate(before):
        if "xargs" in runners and word.value.startswith(("-I", "-i", "--replace")):
            value = word.value[2:] if word.value[1] != "-" else word.value.partition("=")[2]
            tokens |= {
                value or "".join(next_word.value for next_word in before[index + 1 : index + 2])
            } - {""}
    return [
        Word(word.raw, word.value, word.bare, is_plain=False)
        if any(token in word.value for token in tokens)
        else word
        for word in words
    ]


def _without_coproc(words: Sequence[Word]) -> Sequence[Word]:
    """Return a command without `coproc NAME {`, which the grammar reads as words."""
    if words and words[0].raw == "coproc":
        braces = [index for index, word in enumerate(words[:3]) if word.raw == "{"]
        return words[braces[0] + 1 :] if braces else words
    return [] if [word.raw for word in words] in (["}"], ["{"]) else words


def _split_roughly(text: str) -> list[SimpleCommand]:
    """Return the words of a text that cannot be parsed, split wherever a command may begin."""
    commands = []
    for segment in _SIGNS_PATTERN.split(text):
        words = [Word(word, word, word) for word in segment.split()]
        while words and words[0].raw in _KEYWORDS:
            words.pop(0)
        commands += [SimpleCommand(words)] if words else []
    return commands


def _has_words(text: str, words: Sequence[str]) -> bool:
    """Whether all of these words are pieces of a text, also in paths and behind option letters."""
    text = fold_text(text)
    if not all(word in text for word in words):
        return False
    pieces = [piece for piece in _NON_WORD_PATTERN.split(text) if piece]
    return all(any(_is_piece(piece, word) for piece in pieces) for word in words)


def _is_piece(piece: str, word: str) -> bool:
    name = posixpath.basename(piece)
    is_attached = piece.startswith("-") and not piece.startswith("--") and piece.endswith(word)
    return name == word or name.startswith(f"{word}-") or is_attached or piece == f"./{word}"


def _is_program_file(text: str, name: str) -> bool:
    """Whether a text names the file of a program in a folder of programs, or asks for it."""
    text = fold_text(text)
    is_file = posixpath.basename(text) == name and "bin/" in text
    return is_file or ("$(" in text and _has_words(text.strip('"$()'), [name]))
