"""The partial: what had arrived of an answer that did not end, as the one text that a log keeps.

Text stands there as it came. Thinking stands below a line that says so, and text after thinking
below another.
"""

from __future__ import annotations

_THINKING = "[thinking]\n"
_ANSWER = "\n[answer]\n"


def partial_of(thinking: str, text: str) -> str | None:
    r"""Return thinking and text as a partial; None where nothing had arrived.

    >>> partial_of("hm, ", "The te")
    '[thinking]\nhm, \n[answer]\nThe te'
    >>> partial_of("", "The te")
    'The te'
    """
    if not thinking.strip():
        return text or None
    return f"{_THINKING}{thinking}{_ANSWER}{text}" if text else f"{_THINKING}{thinking}"


def thinking_in(partial: str | None) -> str:
    r"""Return the thinking in a partial.

    >>> thinking_in("[thinking]\nhm, \n[answer]\nThe te")
    'hm, '
    """
    if partial is None or not partial.startswith(_THINKING):
        return ""
    return partial.removeprefix(_THINKING).partition(_ANSWER)[0]


def text_in(partial: str | None) -> str:
    r"""Return the text in a partial, without the thinking.

    >>> text_in("[thinking]\nhm, \n[answer]\nThe te"), text_in("The te"), text_in("[thinking]\nhm")
    ('The te', 'The te', '')
    """
    if partial is None or not partial.startswith(_THINKING):
        return partial or ""
    return partial.removeprefix(_THINKING).partition(_ANSWER)[2]
