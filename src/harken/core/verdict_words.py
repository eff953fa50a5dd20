"""The words of a verdict, as hooks say them: `OK`, `COMMENT: ...`, `DENY: ...`, `REWRITE: ...`.

Code says exactly these; a model says them with reasons before and Markdown around. One rule keeps
what a model says apart from what it quotes: a verdict begins a line of its own, and what stands in
a code block or in quotes is a verdict only where there is nothing else. So a text that a hook
judges does not become its verdict by being repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from harken.core.events import TranscriptEntry
from harken.core.messages import text_of

FAILED = "[hook failed] "
"""How the entry begins that stands in a hook's transcript in place of a verdict."""

VerdictWord: TypeAlias = Literal["OK", "COMMENT", "DENY", "REWRITE"]

_EXACT = re.compile(r"\s*(COMMENT|DENY|REWRITE)\s*[:.]\s*(.*)", re.DOTALL)
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_MARKS = r"[*_]{0,3}"
_LABEL = rf"(?:(?:final|my)\s+)?(?:verdict|answer|decision){_MARKS}[ \t]*[:\uff1a]{_MARKS}[ \t]*"
_BEGIN = rf"[ \t]{{0,3}}(?:#{{1,6}}[ \t]+)?({_MARKS})(?:{_LABEL})?({_MARKS})"
_OK = re.compile(rf"{_BEGIN}OK[.!]?{_MARKS}\s*", re.IGNORECASE)
_SAID = re.compile(
    rf"{_BEGIN}(COMMENT|DENY|REWRITE)({_MARKS})[ \t]*[:\uff1a]({_MARKS})[ \t]*(.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u00ab": "\u00bb"}


class Said(NamedTuple):
    """A verdict in words."""

    word: VerdictWord
    text: str
    """What follows it: the comment, the reason, the other text; empty for OK."""


def said_in(entry: TranscriptEntry) -> Said | None:
    """Read what a hook said as a verdict; None where it is none.

    Code answers a question with the question as its cause, a model just answers.
    """
    if not entry.is_utterance:
        return None
    words = text_of(entry.content)
    return freely(words) if entry.cause is None else exactly(words)


def exactly(words: str) -> Said | None:
    r"""Read a verdict as code writes it; None where it is none.

    >>> exactly("COMMENT: Mind this:\nOK"), exactly("I think: OK")
    (Said(word='COMMENT', text='Mind this:\nOK'), None)
    """
    if words.strip().rstrip(".").upper() == "OK":
        return Said("OK", "")
    match = _EXACT.fullmatch(words)
    return None if match is None else Said(_word(match[1]), match[2])


def freely(words: str) -> Said | None:
    r"""Read a verdict as a model says it; None where it says none, or two that differ.

    >>> freely("It only reads.\n\n**Verdict:** ok")
    Said(word='OK', text='')
    >>> freely("It deletes files.\n**DENY:** ask first")
    Said(word='DENY', text='ask first')
    >>> freely("It says:\n```\nOK\n```"), freely("OK\nDENY: no")
    (None, None)
    """
    lines = _unwrapped(_THOUGHT.sub("", words).strip()).split("\n")
    found = list(_verdicts(lines))
    if not found or any(one != found[0] for one in found):
        return None
    is_last = found[0].word != "OK" or _OK.fullmatch(lines[-1]) is not None
    return found[0] if is_last else None


def unfenced(text: str) -> str:
    r"""Return what stands in a code block where a text is nothing else.

    >>> unfenced('```json\n{"a": 1}\n```'), unfenced("a")
    ('{"a": 1}', 'a')
    """
    first, *lines = text.strip().split("\n")
    mark = _FENCE.match(first)
    if mark is None or not lines or lines[-1].strip() != mark[1]:
        return text
    inner = lines[:-1]
    return text if any(line.startswith(mark[1]) for line in inner) else "\n".join(inner)


def _unwrapped(text: str) -> str:
    """Take away what stands around all of it: a code block, quotes."""
    inner = unfenced(text).strip()
    closing = _QUOTES.get(inner[:1])
    if closing is not None and len(inner) > 1 and inner.endswith(closing):
        middle = inner[1:-1]
        return middle.strip() if closing not in middle else inner
    return inner


def _verdicts(lines: list[str]) -> Iterator[Said]:
    """Yield the verdicts that begin lines, each with what is said up to the next one."""
    starts = [at for at in _outside_blocks(lines) if _begins(lines[at])]
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        match = _SAID.fullmatch(lines[at])
        yield Said("OK", "") if match is None else _said(match, lines[at + 1 : end])


def _outside_blocks(lines: list[str]) -> Iterator[int]:
    """Yield the positions of lines that stand in no code block."""
    fence = ""
    for at, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark is None and not fence:
            yield at
        elif mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]


def _begins(line: str) -> bool:
    return _SAID.fullmatch(line) is not None or _OK.fullmatch(line) is not None


def _said(match: re.Match[str], more: list[str]) -> Said:
    """Return the verdict that a line begins, without the marks that stand around all of it."""
    text = "\n".join([match[6], *more]).strip()
    around = match[1] + match[2]
    if around and not match[4] and not match[5]:
        text = text.removesuffix(around)
    return Said(_word(match[3].upper()), text)


def _word(written: str) -> VerdictWord:
    words: dict[str, VerdictWord] = {"COMMENT": "COMMENT", "DENY": "DENY", "REWRITE": "REWRITE"}
    return words[written]
