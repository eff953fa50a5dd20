"""Read the answers of judges and moderators of discussions.

This runs once for each answer, before its event is logged: the event has the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from harken.core.events import Judgement
from harken.core.verdict import iter_unfenced_lines, unwrap

_THINKING_PATTERN = re.compile(
    r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
_VERDICT_PATTERN = re.compile(
    r"[\s#*_]*(?:(?:(?:final|my)\s+)?(?:verdict|decision|answer)[*_]*\s*:[\s*_]*)?"
    r"(not done|done|continue|go on)[*_\"'`]*\s*(?:[:.,;!\-\u2013\u2014]+[*_\s]*(.*)|$)",
    re.IGNORECASE,
)
_MARKS = " \n*_[]\"'`.:!@"
"""Marks around a name that is the whole answer."""
_VERDICTS: dict[str, Judgement] = {
    "done": "done",
    "not done": "continue",
    "continue": "continue",
    "go on": "continue",
}


class ParsedJudgement(NamedTuple):
    """A verdict of a judge, and its reason."""

    verdict: Judgement
    text: str


def parse_judgement(answer: str) -> ParsedJudgement | None:
    r"""Parse the answer of a judge. Return None if it has no verdict, or two that differ.

    A verdict begins a line that is no quotation. The reason follows it, or precedes it.

    >>> parse_judgement("**DONE:** Ada won.")
    ParsedJudgement(verdict='done', text='Ada won.')
    >>> parse_judgement("Ben has not replied.\nContinue.")
    ParsedJudgement(verdict='continue', text='Ben has not replied.')
    >>> parse_judgement("We are done here."), parse_judgement("DONE\nCONTINUE")
    (None, None)
    """
    lines = unwrap(_THINKING_PATTERN.sub("", answer).strip()).split("\n")
    matches = [
        (index, match)
        for index in iter_unfenced_lines(lines)
        if (match := _VERDICT_PATTERN.fullmatch(lines[index].rstrip())) is not None
    ]
    verdicts = {_VERDICTS[match[1].lower()] for _, match in matches}
    if len(verdicts) != 1:
        return None
    index, match = matches[0]
    after = "\n".join([match[2] or "", *lines[index + 1 :]]).strip()
    return ParsedJudgement(verdicts.pop(), after or "\n".join(lines[:index]).strip())


def parse_choice(answer: str, names: Sequence[str]) -> str | None:
    """Parse the answer of a moderator: one name alone, or one name in a sentence.

    Return None if it has none, or several.

    >>> parse_choice("[Ann]", ["Ann", "Ben"]), parse_choice("I ask Ann Lee.", ["Ann", "Ann Lee"])
    ('Ann', 'Ann Lee')
    >>> parse_choice("Ann or Ben", ["Ann", "Ben"]), parse_choice("Nobody.", ["Ann"])
    (None, None)
    """
    text = _THINKING_PATTERN.sub("", answer).strip()
    exact = text.strip(_MARKS)
    if exact in names:
        return exact
    for name in names:
        if exact.casefold() == name.casefold():
            return name
    mentioned: list[str] = []
    for name in sorted(names, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
        if pattern.search(text):
            mentioned.append(name)
            text = pattern.sub(" ", text)  # so that a part of this name is not another name
    return mentioned[0] if len(mentioned) == 1 else None
