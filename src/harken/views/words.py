"""Words: what a person reads of a content, and whether two contents say the same.

An utterance reaches others as `[Jack]: text`. Such a label is form, not substance: a text that
differs from its original in nothing but a label with its author's name says the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from harken.core.messages import (
    CallPlace,
    Content,
    ImagePart,
    OtherPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from harken.core.outside import from_outside

_LABEL = re.compile(r"\[([^\[\]\n]+)\]: ")


def words(content: Content) -> str:
    r"""Return what a person reads: texts, and a mark for each image; thoughts are left out.

    >>> words([ThinkingPart("hm"), TextPart("Look:"), ImagePart(media_type="image/png")])
    'Look:\n\n[image image/png]'
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(mark for part in content if (mark := _marked_part(part)))


def call_text(call: ToolCall) -> str:
    """Return a call as one text: tool and arguments, verbatim."""
    return f"{call.function.name} {call.function.arguments}"


def same_words(one: Content, other: Content, author: Collection[str] = ()) -> bool:
    """Whether two versions of one message say the same. `author`: all that its author is called.

    >>> same_words("[Jack]: Hi", "Hi", ["Jack"]), same_words("[Jill]: Hi", "Hi", ["Jack"])
    (True, False)

    Of an author without a name any label will do. A backslash that keeps a line from looking like
    a hook's comment is form, too.
    """
    if _unspoken(one) != _unspoken(other):
        return False
    a, b = from_outside(words(one)), from_outside(words(other))
    if a == b:
        return True
    bare_a, bare_b = without_label(a, author), without_label(b, author)
    return bare_a in (b, bare_b) or a == bare_b


def without_label(text: str, author: Collection[str]) -> str:
    """Return a text without the label that its author's name gave it.

    >>> without_label("[Jack]: Hi", ["Jack"]), without_label("[Jill]: Hi", ["Jack"])
    ('Hi', '[Jill]: Hi')
    """
    label = _LABEL.match(text)
    if label is None or (author and not any(_names(name, label[1]) for name in author)):
        return text
    return text[label.end() :]


def _marked_part(part: TextPart | ThinkingPart | ImagePart | OtherPart | CallPlace) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"[image {part.url or part.media_type or ''}".rstrip() + "]"
        case OtherPart():
            return f"[{part.kind}]"
        case ThinkingPart() | CallPlace():
            return ""


def _unspoken(content: Content) -> list[ImagePart | OtherPart]:
    """Return what is no text, without what varies from one occurrence to the next."""
    parts = content if isinstance(content, list) else []
    return [
        msgspec.structs.replace(part, meta=None)
        for part in parts
        if isinstance(part, ImagePart | OtherPart)
    ]


def _names(name: str, label: str) -> bool:
    """Whether a label (`Jack`, `Jack whispers`) holds the name as words of its own."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", label) is not None
