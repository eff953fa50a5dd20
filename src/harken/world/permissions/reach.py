"""`Reach`: what a line of shell may run, in disguise, too. For rules that deny or ask.

It looks through what commonly stands around a command (quotes, folders, options, `sudo`, `sh -c`),
and says where it cannot tell. It is no sandbox: what a script or a program does is not seen here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from harken.world.permissions.commands import (
    ASSIGNMENT,
    KEYWORDS,
    LONGEST,
    ODD,
    Part,
    is_fixed,
    is_known,
    parts_of,
)
from harken.world.permissions.pattern import folded
from harken.world.permissions.words import Operator, Redirection, Token, Unreadable, Word, tokens_of

_SHELL_NAMES = "ash bash dash eval fish ksh mksh pwsh sh trap zsh"
_RUNNER_NAMES = """
. awk bun builtin busybox bwrap caffeinate chroot chrt chronic command compgen deno direnv docker
doas entr env exec expect fakeroot faketime fd find firejail flock gawk gdb gosu hyperfine ionice
kubectl ltrace lua make mapfile mise nice nix-shell node nodejs nohup npx nsenter osascript parallel
perl php pipenv pkexec podman poetry prlimit proxychains python readarray rlwrap ruby runuser screen
script setarch setpriv setsid source ssh stdbuf strace su sudo systemd-run taskset tclsh time
timeout tmux toybox tsx unbuffer unshare uv uvx valgrind watch xargs xvfb-run
"""
_SHELLS = frozenset(_SHELL_NAMES.split())
RUNNERS = _SHELLS | frozenset(_RUNNER_NAMES.split())
"""Programs that run what their arguments name."""

_OPTION = re.compile("-")
_BEFORE_A_COMMAND = re.compile(r"-|[^=]*=|\d+(?:\.\d+)?[smhd]?$")
"""What stands before the command that a runner runs: options, assignments, times."""
_ADDING = frozenset({"parallel", "xargs"})
"""Runners that add arguments which are not in the line."""
_UNFIXED = re.compile(r"[^\w./:=+-]")
"""From where on a word may be something else than what stands there."""
_SEVERAL = re.compile(r"[\s;&|]")
_IN_DISGUISE = re.compile(r"[()'\"\\$`]")
"""What makes of a word another command, where it is read once more."""
_QUOTED, _LATER = re.compile(r"['\\]"), re.compile(r"\$\(|`")
"""What is quoted, and would be run where a text is read once more."""
_SIGNS = re.compile(r"[;&|(){}<>`\"'$\n]+")
_MOST_WORDS = 32
_DEEPEST = 8


class Reach:
    """What a command may run, as far as it can be told."""

    def __init__(self, command: str, depth: int = 0) -> None:
        """Look through a command; `depth`: within how many others it stands."""
        self.commands: dict[str, None] = {folded(command): None}
        """What it surely runs, in several forms each, folded; and the whole line."""
        self.possible: dict[str, None] = {}
        """What it perhaps runs: further arguments of runners, lines of here-documents."""
        self.begun: dict[str, None] = {}
        """How commands begin of which only the beginning is known: `git ` of `git $what`."""
        self.is_clear = True
        """Whether all that it runs is among these, the doings of programs themselves aside."""
        self._seen: set[str] = set()
        self._read(command, depth)

    def _read(self, command: str, depth: int) -> None:
        if command in self._seen:
            return
        self._seen.add(command)
        if depth > _DEEPEST or len(command) > LONGEST:
            self.is_clear = False
            return
        self.is_clear = self.is_clear and not ODD.search(command)
        try:
            tokens = tokens_of(command)
        except Unreadable:  # a shell runs the lines before the one that it cannot read
            self.is_clear = False
            tokens = _torn_apart(command)
        for token in tokens:
            self._read_inner(token, depth)
        for part in parts_of(tokens):
            self._read_part(part, depth)

    def _read_inner(self, token: Token, depth: int) -> None:
        """Read what is run to expand a token."""
        word = token.target if isinstance(token, Redirection) else token
        if isinstance(word, Word):
            for inner in word.inner:
                self._read(inner, depth + 1)
            if _QUOTED.search(word.raw) and _LATER.search(word.value):
                self._perhaps(" ; ".join(_SIGNS.split(word.value)), depth)
        if isinstance(token, Redirection) and token.body is not None:
            self._perhaps(token.body, depth)

    def _perhaps(self, text: str, depth: int) -> None:
        """Note what a text would run, were it a command."""
        found = Reach(text, depth + 1)
        self.possible |= found.commands | found.possible
        self.begun |= found.begun

    def _read_part(self, part: Part, depth: int) -> None:
        words = _without_keywords(part.words)
        if not words:
            return
        self.is_clear = self.is_clear and is_known(words[0])
        forms = _Forms(words)
        self.commands |= forms.from_word(0)
        self.begun |= forms.begun(0)
        runners = self._read_runners(words, forms)
        if runners:
            self._read_arguments(words, runners, depth)
            for at in range(1, min(len(words), _MOST_WORDS)):
                self.possible |= forms.from_word(at)
                self.begun |= forms.begun(at, goes_on=bool(runners & _ADDING))
        is_fed = part.is_piped_into or any("<" in one.operator for one in part.redirections)
        if runners & _SHELLS and (is_fed or not all(word.is_plain for word in words)):
            self.is_clear = False

    def _read_runners(self, words: Sequence[Word], forms: _Forms) -> set[str]:
        """Note what a command runs in turn: `sudo -u me git push` runs `git push`.

        Return the names of those of its programs that run others.
        """
        runners: set[str] = set()
        waiting, seen = [0], {0}
        while waiting:
            at = waiting.pop()
            if _name(words[at]) not in RUNNERS:
                continue
            runners.add(_name(words[at]))
            is_added_to = at > 0 and bool(runners & _ADDING)
            for after in _after(words, at + 1, _BEFORE_A_COMMAND):
                self.is_clear = self.is_clear and not (is_added_to and after == len(words))
                if after < min(len(words), _MOST_WORDS) and after not in seen:
                    seen.add(after)
                    waiting.append(after)
                    self.commands |= forms.from_word(after)
                    self.is_clear = self.is_clear and is_known(words[after])
        return runners

    def _read_arguments(self, words: Sequence[Word], runners: set[str], depth: int) -> None:
        """Read texts that runners may run as commands: `sh -c '...'`."""
        values = [word.value for word in words[1:]]
        texts = [value for value in values if _SEVERAL.search(value)]
        odd = [value for value in values[:_MOST_WORDS] if _IN_DISGUISE.search(value)]
        if "eval" in runners:
            texts = [" ".join(values)]
        for text in texts + (odd if runners & _SHELLS else []):
            self._read(text, depth + 1)
        attached = [text for value in values[:_MOST_WORDS] for text in _attached(value) if text]
        for text in odd + attached:
            self._perhaps(text, depth)
        self.is_clear = self.is_clear and len(words) <= _MOST_WORDS


class _Forms:
    """The forms in which a rule may name a command, or what one of its words begins."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.raw = [folded(word.raw) for word in words]
        self.values = [folded(word.value) for word in words]
        self.unknown = [at for at, word in enumerate(words) if not is_fixed(word)]
        """Where words stand that are not what they look like."""

    def from_word(self, start: int) -> dict[str, None]:
        """Return all that begins there: as written, as it is run, without options, by name."""
        forms = {" ".join(self.raw[start:]): None}
        value = self.values[start]
        for name in {value, posixpath.basename(value)}:
            for at in _after(self.words, start + 1, _OPTION):
                forms[" ".join([name, *self.values[at:]])] = None
        return forms

    def begun(self, start: int, *, goes_on: bool = False) -> dict[str, None]:
        """Return how what begins there begins, up to what is not known; `goes_on`: to its end."""
        end = next((at for at in self.unknown if at > start), len(self.words))
        if end == len(self.words) and not goes_on:
            return {}
        last = folded(_UNFIXED.split(self.words[end].raw, 1)[0]) if end < len(self.words) else ""
        value = self.values[start]
        return {
            " ".join([name, *self.values[at:end], last]): None
            for name in (value, posixpath.basename(value))
            for at in _after(self.words[:end], start + 1, _OPTION)
        }


def _torn_apart(command: str) -> list[Token]:
    """Return the words of what cannot be read, apart at whatever may stand between commands."""
    tokens: list[Token] = []
    for segment in _SIGNS.split(command):
        tokens += [*(Word(word, word, word) for word in segment.split()), Operator(";")]
    return tokens


def _without_keywords(words: Sequence[Word]) -> Sequence[Word]:
    """Return a command without the keywords and assignments before it; nothing for a test."""
    while words and (words[0].raw in KEYWORDS or ASSIGNMENT.match(words[0].raw)):
        words = words[_passed([word.raw for word in words]) :]
    return words


def _passed(words: Sequence[str]) -> int:
    """Return how many words stand before a command, of which the first is none."""
    match words:
        case ["[[" | "case", *_]:
            return len(words)
        case ["for" | "select", *_]:
            body = (at for at, word in enumerate(words) if at > 1 and word in ("do", "{"))
            return next(body, len(words))
        case ["coproc", _, third, *_] if third in KEYWORDS:
            return 2  # it has a name
        case ["function", *_]:
            return 2
        case ["time", *rest]:
            return 1 + sum(1 for _ in takewhile(_OPTION.match, rest))
    return 1


def _attached(word: str) -> Iterator[str]:
    """Yield what may be a command in one word with an option: `-czap`, `-vSzap`, `--run=zap`."""
    if word.startswith("--"):
        yield word.partition("=")[2]
    elif word.startswith("-"):
        yield from (word[2:], word.partition("S")[2])


def _name(word: Word) -> str:
    """Return a program's name, without its folder and version."""
    name = posixpath.basename(word.value).casefold()
    return name.rstrip("0123456789.") or name


def _after(words: Sequence[Word], start: int, passed: re.Pattern[str]) -> Iterator[int]:
    """Yield where the arguments may begin that stand after options: first `start` itself.

    Which options take a value is not known, so both are tried: `git -C there push` is `git push`.
    """
    reached = {start}
    for at in range(start, min(len(words), start + _MOST_WORDS)):
        if at in reached:
            yield at
            if passed.match(words[at].value):
                reached.add(at + 1)
            if words[at].value.startswith("-"):
                reached.add(at + 2)
    if len(words) in reached or start >= len(words):
        yield len(words)
