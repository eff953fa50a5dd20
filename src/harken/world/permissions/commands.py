"""Commands: a line of shell as the commands that it runs, where nothing else is in it.

What is here answers only where nothing can be hidden; so a rule that allows can judge every part.
What a line may run in disguise is in `reach`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harken.world.permissions.words import Operator, Redirection, Token, Unreadable, Word, tokens_of

SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&", "\n"})
_KEYWORDS = """
! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while
"""
KEYWORDS = frozenset(_KEYWORDS.split())
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]|[^\\S \t\n]")
"""Characters that shells may read in different ways: controls, unusual blanks, half characters."""
LONGEST = 131_072
"""In bytes: a system takes no longer argument, so what is longer cannot run."""
_GLOB = re.compile(r"[*?\[{]")


@dataclass(slots=True)
class Part:
    """A command between two operators."""

    words: list[Word] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    is_piped_into: bool = False


def parts_of(tokens: Sequence[Token]) -> list[Part]:
    """Split at operators of every kind; a part may be empty."""
    parts = [Part()]
    for token in tokens:
        match token:
            case Operator():
                parts.append(Part(is_piped_into=token.text in ("|", "|&")))
            case Redirection():
                parts[-1].redirections.append(token)
            case Word():
                parts[-1].words.append(token)
    return parts


def plain_parts(command: str) -> list[str] | None:
    """Return the commands of a line as they are written, blanks and redirections apart.

    None where it is more than plain commands, one after the other, whose words are known: with
    substitutions, variables, redirections to files, assignments, loops, groups, odd characters.

    >>> plain_parts("cd src &&  pytest -x 2>&1 | tail -5")
    ['cd src', 'pytest -x', 'tail -5']
    >>> plain_parts("pytest $(cat args)"), plain_parts("pytest > log"), plain_parts("X=1 pytest")
    (None, None, None)
    """
    if len(command) > LONGEST or ODD.search(command):
        return None
    try:
        tokens = tokens_of(command)
    except Unreadable:
        return None
    parts = [part.words for part in parts_of(tokens) if part.words]
    if not parts or not all(map(_is_plain, tokens)):
        return None
    if not all(_is_plain_name(words[0]) for words in parts):
        return None
    return [" ".join(word.raw for word in words) for words in parts]


def is_known(word: Word) -> bool:
    """Whether the name of a program is just what stands there."""
    return word.is_plain and (word.bare == "[" or not _GLOB.search(word.bare))


def is_fixed(word: Word) -> bool:
    """Whether a word is one word, and just what stands there."""
    return word.is_plain and not _GLOB.search(word.bare)


def _is_plain(token: Token) -> bool:
    match token:
        case Operator():
            return token.text in SEPARATORS
        case Word():
            return token.is_plain and not _may_be_several(token.bare)
        case Redirection():
            target = token.target.raw
            if token.operator in (">&", "<&"):
                return re.fullmatch(r"\d+|-", target) is not None
            return token.operator in (">", ">>", "<", "&>", "&>>") and target == "/dev/null"


def _is_plain_name(word: Word) -> bool:
    """Whether a first word is the name of a program, and neither a keyword nor an assignment."""
    if not word.value or word.raw in KEYWORDS or ASSIGNMENT.match(word.raw):
        return False
    return is_known(word) and "~" not in word.bare


def _may_be_several(bare: str) -> bool:
    """Whether braces may make several words of one: `{a,b}`, `{1..3}`, and what is not closed."""
    opened, closed = bare.count("{"), bare.count("}")
    return opened > 0 and (opened != closed or "," in bare or ".." in bare)
