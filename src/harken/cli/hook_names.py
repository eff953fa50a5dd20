"""What is typed of a new hook: a name and what it is told, or only what it is told.

One idea: no word of what somebody wants is lost, or `never push` would make a hook `never` that
is told `push`. So the first word is the name only where it is written as one.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from harken.agents.names import free_name

_MARKED = re.compile(r'(?:"([^"\\]+)"|([^\s:"]+):)\s+(?=\S)')
_PLAIN = re.compile(r"(\w[\w.-]*)\s+(?=(\S))")
_BEGINS = re.compile(
    r"""(?xi: an? | all | allow | always | and | answer | any | ask | avoid | be | before | block
    | check | deny | do | don't | each | every | ensure | explain | forbid | for | give | if | in
    | keep | let | make | never | no | not | only | please | prefer | remember | reply | say | speak
    | stop | tell | the | think | use | warn | watch | when | whenever | write | you )"""
)
"""Words with which an instruction begins, and that name no hook."""
WORDS, LETTERS = 3, 30
"""So much of a text makes a name."""


def name_and_text(typed: str, taken: Collection[str] = ()) -> tuple[str, str]:
    """Return what a hook is called and what it is told, nothing where only a name was typed.

    A name is followed by a sentence with a capital, or by a colon, or stands in quotes; it may have
    a `-`, a `_` or a digit. Else the hook is called after what it is told; taken: names that it
    cannot have then.

    >>> name_and_text("critic Watch the tea."), name_and_text("critic: watch it")
    (('critic', 'Watch the tea.'), ('critic', 'watch it'))
    >>> name_and_text("Be brief."), name_and_text("never push to main", ["never-push-to"])
    (('be-brief', 'Be brief.'), ('never-push-to (2)', 'never push to main'))
    >>> name_and_text("todo-reminder"), name_and_text("no-push do not push")
    (('todo-reminder', ''), ('no-push', 'do not push'))
    """
    typed = typed.strip()
    if marked := _MARKED.match(typed):
        return marked[1] or marked[2], typed[marked.end() :]
    plain = _PLAIN.match(typed)
    if plain is not None and _is_name(plain[1], plain[2]):
        return plain[1], typed[plain.end() :]
    if len(typed.split()) < 2:
        return typed, ""
    return free_name(_named_after(typed), taken), typed


def _is_name(word: str, next_letter: str) -> bool:
    if any(one in "-_" or one.isdigit() for one in word):
        return True
    return word[0].islower() and _BEGINS.fullmatch(word) is None and next_letter.isupper()


def _named_after(text: str) -> str:
    """Return a name made of the first words of a text."""
    words = re.findall(r"\w+", text.casefold())[:WORDS]
    name = "-".join(words)[:LETTERS].strip("-_")
    return name if "-" in name else f"rule-{name}".strip("-")
