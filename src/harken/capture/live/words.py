"""Words of a command line: which are options, which are values of these, and which stand alone.

One idea: only the program itself knows its options. So those that take values are listed, for the
few programs that are known; any other option is a switch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program that take values."""

    one: frozenset[str] = frozenset()
    """The next word, whatever it is."""
    perhaps: frozenset[str] = frozenset()
    """The next word, unless it is an option."""
    many: frozenset[str] = frozenset()
    """All words up to the next option."""


@dataclass(frozen=True, slots=True)
class Word:
    """An option with its values, or a word that stands alone."""

    option: str
    """Empty: it stands alone."""
    values: tuple[str, ...]
    start: int
    """Where it begins in the command line."""
    end: int

    @property
    def value(self) -> str:
        """Its first value; empty: it has none."""
        return self.values[0] if self.values else ""


def names(listed: str) -> frozenset[str]:
    """Return names that stand in a text, with blanks between them."""
    return frozenset(listed.split())


def words(arguments: Sequence[str], options: Options) -> Iterator[Word]:
    """Yield the words of a command line, without the name of the program.

    >>> [*words(["-p", "Hi", "--model=m"], Options())][-1]
    Word(option='--model', values=('m',), start=2, end=3)
    """
    at = 0
    while at < len(arguments):
        arg, start = arguments[at], at
        at += 1
        if arg == "--":
            for alone in range(at, len(arguments)):
                yield Word("", (arguments[alone],), alone, alone + 1)
            return
        if not arg.startswith("-") or arg == "-":
            yield Word("", (arg,), start, at)
            continue
        name, equals, value = arg.partition("=")
        if equals and arg.startswith("--"):
            yield Word(name, (value,), start, at)
            continue
        if arg in options.one:
            at = min(at + 1, len(arguments))
        elif arg in options.perhaps:
            at += at < len(arguments) and not arguments[at].startswith("-")
        elif arg in options.many:
            while at < len(arguments) and not arguments[at].startswith("-"):
                at += 1
        yield Word(arg, tuple(arguments[start + 1 : at]), start, at)
