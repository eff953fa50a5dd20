"""Agreement: whether a text has a plan in it, and whether an answer says yes to it and no more.

Whoever says "yes, but" has not agreed; and what is not understood is no agreement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAN = re.compile(r"^[\s#*_>`-]*plan\b[\s*_`]*(?::|$)", re.IGNORECASE | re.MULTILINE)
_YES = (
    *("yes", "yep", "yeah", "yup", "y", "ok", "okay", "sure", "agreed", "i agree", "approved"),
    *("go ahead", "go for it", "go on", "go", "proceed", "do it", "do so", "do that", "please do"),
    *("make it so", "let s go", "lets go", "lgtm", "looks good", "sounds good", "fine", "start"),
)
_BESIDE = (
    *("please", "thanks", "thank you", "then", "now", "good", "great", "perfect", "to me", "and"),
    *("with it", "with that", "with this", "with the plan", "as planned", "that s", "by me"),
)
"""What may stand beside a yes and says nothing."""
_LONGEST = 200
"""Who only agrees says it in fewer characters."""


def has_plan(text: str) -> bool:
    r"""Whether a line of a text announces a plan.

    >>> has_plan("I looked.\n**PLAN:** 1. Rename it."), has_plan("Planning takes time.")
    (True, False)
    """
    return _PLAN.search(text) is not None


def agrees(text: str, also: Iterable[str] = ()) -> bool:
    """Whether a text agrees, and says nothing else. `also` are more words for yes.

    >>> agrees("Yes, go ahead, please!"), agrees("Yes, but rename it first."), agrees("Thanks.")
    (True, False, False)
    """
    if len(text) > _LONGEST:
        return False
    rest, found = f" {_plain(text)} ", False
    for phrase in sorted({*_YES, *map(_plain, also)} - {""}, key=len, reverse=True):
        while f" {phrase} " in rest:
            rest, found = rest.replace(f" {phrase} ", "  ", 1), True
    for phrase in sorted(_BESIDE, key=len, reverse=True):
        while f" {phrase} " in rest:
            rest = rest.replace(f" {phrase} ", "  ", 1)
    return found and not rest.strip()


def _plain(text: str) -> str:
    """Return a text without case and signs, its words with one space between them."""
    return " ".join(re.findall(r"\w+", text.casefold()))
