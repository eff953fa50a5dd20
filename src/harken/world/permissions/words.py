"""Shell words: a shell command as words, operators and redirections.

Just as much of the language as it takes to say which programs a command runs, and where that
cannot be said. Nothing is expanded. What stands in `$(...)` and its like is kept as text, to be
read in turn.

Source: POSIX.1-2024, Shell Command Language §2.2-§2.7; bash 5.2 for what goes beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_DEEPEST = 30
_END_OF_WORD = " \t\n;&|()<>"
_REDIRECTION = re.compile(r"\d*(?:<<<|<<-|<<|<>|<&|<(?!\()|>&|>>|>\||>(?!\())|&>>|&>")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|()\n]")
_PARAMETER = re.compile(r"\$(?:\w+|[@*#?$!-])")
_LITERAL = re.compile(r"[^\s;&|()<>\\'\"`$]+|[^\S \t\n]")
_QUOTED = re.compile(r"[^\\\"`$]+")


class Unreadable(Exception):
    """A text that is no shell command, as far as it can be read here: a quote has no end."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word."""

    raw: str
    """As it was written."""
    value: str
    """Without its quotes; where it is not plain, expansions stand as they were written."""
    bare: str
    """What stands outside of quotes."""
    is_plain: bool = True
    """Whether nothing in it is expanded, names of files and braces aside."""
    inner: Sequence[str] = ()
    """The commands that are run to expand it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What stands between commands; a newline, too."""

    text: str


@dataclass(slots=True)
class Redirection:
    """Where input comes from or output goes."""

    operator: str
    """Without the number of the descriptor."""
    target: Word
    body: str | None = None
    """The text of a here-document."""


@dataclass(slots=True)
class _Draft:
    """A word that is being read."""

    raw: list[str] = field(default_factory=list)
    value: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    is_plain: bool = True
    inner: list[str] = field(default_factory=list)

    def add(self, raw: str, value: str | None = None, *, bare: bool = False) -> None:
        """Add what stands next in it."""
        self.raw.append(raw)
        self.value.append(raw if value is None else value)
        if bare:
            self.bare.append(raw)

    def done(self) -> Word:
        """Return the word."""
        raw, value, bare = map("".join, (self.raw, self.value, self.bare))
        return Word(raw, value, bare, self.is_plain, self.inner)


Token: TypeAlias = Word | Operator | Redirection


def tokens_of(command: str) -> list[Token]:
    """Read a command. Raises Unreadable."""
    return _Scanner(command).tokens()


class _Scanner:
    """Goes once through a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def tokens(self, *, inside: bool = False) -> list[Token]:
        """Read to the end; `inside` parentheses, to the closing one."""
        found: list[Token] = []
        waiting: list[Redirection] = []
        opened = 0
        while self._skip_blanks():
            if redirection := _REDIRECTION.match(self.text, self.at):
                one = self._redirection(redirection)
                found.append(one)
                waiting += [one] if one.operator in ("<<", "<<-") else []
            elif self.text.startswith("((", self.at):
                found.append(self._arithmetic())
            elif operator := _OPERATOR.match(self.text, self.at):
                opened += {"(": 1, ")": -1}.get(operator[0], 0)
                self.at = operator.end()
                if inside and opened < 0:
                    return found
                found.append(Operator(operator[0]))
                if operator[0] == "\n":
                    self._read_bodies(waiting)
            else:
                found.append(self._word())
        if inside:
            raise Unreadable("a parenthesis is not closed")
        return found

    def _skip_blanks(self) -> bool:
        """Go to the next token, over comments and continued lines; return whether there is one."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return True
        return False

    def _redirection(self, found: re.Match[str]) -> Redirection:
        self.at = found.end()
        self._skip_blanks()
        return Redirection(found[0].lstrip("0123456789"), self._word())

    def _read_bodies(self, waiting: list[Redirection]) -> None:
        """Read the here-documents that begin after this line."""
        for redirection in waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                indented = redirection.operator == "<<-"
                if (line.lstrip("\t") if indented else line) == redirection.target.value:
                    break
                lines.append(line)
            redirection.body = "\n".join(lines)
        self.at = min(self.at, len(self.text))
        waiting.clear()

    def _word(self) -> Word:
        word = _Draft()
        while self.at < len(self.text):
            character = self.text[self.at]
            if literal := _LITERAL.match(self.text, self.at):
                word.add(literal[0], bare=True)
                self.at = literal.end()
            elif character == "\\":
                self._escape(word)
            elif character == "'":
                self._single(word)
            elif character == '"':
                self._double(word)
            elif character in "`$" or self.text.startswith(("<(", ">("), self.at):
                self._expansion(word)
            elif character in _END_OF_WORD:
                break
        if not word.raw:
            raise Unreadable("a word is missing")
        return word.done()

    def _escape(self, word: _Draft) -> None:
        escaped = self.text[self.at : self.at + 2]
        self.at += 2
        if escaped == "\\":
            raise Unreadable("a backslash stands at the end")
        if escaped != "\\\n":
            word.add(escaped, escaped[1])

    def _single(self, word: _Draft) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise Unreadable("a quote is not closed")
        word.add(self.text[self.at : end + 1], self.text[self.at + 1 : end])
        self.at = end + 1

    def _double(self, word: _Draft) -> None:
        word.add('"', "")
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if quoted := _QUOTED.match(self.text, self.at):
                word.add(quoted[0])
                self.at = quoted.end()
            elif character == '"':
                word.add('"', "")
                self.at += 1
                return
            elif character == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                self._escape(word)
            elif character == "\\":
                word.add("\\")
                self.at += 1
            else:
                self._expansion(word, quoted=True)
        raise Unreadable("a quote is not closed")

    def _expansion(self, word: _Draft, *, quoted: bool = False) -> None:
        """Read what begins with `$`, a backquote, `<(` or `>(`."""
        start, opening = self.at, self.text[self.at : self.at + 2]
        if self.text[start] == "`":
            word.inner.append(self._backquoted(quoted=quoted))
        elif self.text.startswith("$((", start):
            self.at += 1
            word.inner += [self._balanced("()")]
        elif opening in ("$(", "<(", ">("):
            word.inner.append(self._substitution())
        elif opening in ("${", "$["):
            self.at += 1
            word.inner.append(self._balanced("{}" if opening == "${" else "[]"))
        elif opening == "$'" and not quoted:
            self._ansi_c()
        elif parameter := _PARAMETER.match(self.text, start):
            self.at = parameter.end()
        else:
            self.at += 1
            if quoted or opening != '$"':
                word.is_plain &= opening != "$\\"  # the line may go on: `$\`, newline, `x`
                word.add("$", bare=not quoted)
                return
        word.is_plain = False
        word.add(self.text[start : self.at])

    def _backquoted(self, *, quoted: bool) -> str:
        found = re.compile(r"`((?:[^\\`]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise Unreadable("a backquote is not closed")
        self.at = found.end()
        return re.sub(r"\\([\\`$\"])" if quoted else r"\\([\\`$])", r"\1", found[1])

    def _substitution(self) -> str:
        """Read `$(...)`; return the command inside."""
        self.at += 2
        start = self.at
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable("commands are nested too deeply")
        found = self.tokens(inside=True)
        if any(isinstance(one, Word) and one.raw == "case" for one in found):
            raise Unreadable("a parenthesis may belong to a `case`")
        self.depth -= 1
        return self.text[start : self.at - 1]

    def _arithmetic(self) -> Word:
        """Read `((...))`, which may also be a subshell in a subshell."""
        start, inner = self.at, self._balanced("()")
        written = self.text[start : self.at]
        return Word(written, written, written, is_plain=False, inner=[inner])

    def _balanced(self, pair: str) -> str:
        """Read from an opening bracket to its closing one; return what is between.

        That is no command, but commands stand in it where they do in a double-quoted text.
        """
        start, opened, skipped = self.at, 0, _Draft()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable("expansions are nested too deeply")
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\":
                self._escape(skipped)
            elif character == "'":
                self._single(skipped)
            elif character == '"':
                self._double(skipped)
            elif character in "`$":
                self._expansion(skipped)
            else:
                opened += (character == pair[0]) - (character == pair[1])
                self.at += 1
                if not opened:
                    self.depth -= 1
                    return self.text[start + 1 : self.at - 1]
        raise Unreadable("a bracket is not closed")

    def _ansi_c(self) -> None:
        found = re.compile(r"\$'(?:[^\\']|\\.)*'", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise Unreadable("a quote is not closed")
        self.at = found.end()
