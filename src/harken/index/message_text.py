"""The words of a message: what of it is looked for, and how much of what it is.

One idea: a message is read as a store has it, its parts by their names, and nothing is put
together that nobody asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from harken.core import canonical
from harken.core.commits import Hash

T = TypeVar("T")
_NO_WORD = 100
"""So many characters without a blank are no words: an image, a key, a hash."""
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)
"""Characters of scripts that do not, or not always, write blanks between words: each is found by
itself, and several as a phrase."""
_NOT_UNSPACED = bytes({*range(256)} - {0xE0, 0xE1, *range(0xE3, 0xEE), 0xEF, *range(0xF0, 0xF4)})
"""Bytes with which none of them begins in UTF-8."""


@dataclass(slots=True)
class MessageText:
    """What is in a message."""

    role: str = ""
    texts: list[str] = field(default_factory=list)
    """Texts, thoughts and arguments, in order: all that has words."""
    characters: int = 0
    """Of its texts alone."""
    thinking: int = 0
    images: int = 0
    calls: list[tuple[str, int]] = field(default_factory=list)
    """The tool of each call, and how many characters its arguments have."""
    is_error: bool = False


class StoredMessageShape(msgspec.Struct):
    """A message as a store has it: its parts by their names."""

    role: str = ""
    parts: list[Hash] = []


class _Inside(msgspec.Struct):
    """A part of any kind: its members."""

    type: str
    text: str = ""
    name: str = ""
    arguments: str = ""
    data: str | None = None
    content: list[_Inside] = []
    is_error: bool = False


def shape_of(body: bytes) -> StoredMessageShape:
    """Return what a message consists of; of one that cannot be read, nothing."""
    try:
        return _decoded(body, _shapes, StoredMessageShape)
    except ValueError:
        return StoredMessageShape()


def extract_text(shape: StoredMessageShape, parts: Mapping[Hash, bytes]) -> MessageText:
    """Return what is in a message. Parts that are not there, or cannot be read, are left out."""
    said = MessageText(shape.role)
    for name in shape.parts:
        body = parts.get(name)
        if body is not None:
            try:
                _take(_decoded(body, _parts, _Inside), said)
            except ValueError:
                continue
    return said


def words_of(said: MessageText) -> str:
    r"""Return what is indexed of a message: its words, with blanks where a script has none.

    >>> words_of(MessageText("user", ["Tea, please.", "\u304a\u8336"]))
    'Tea, please.\n \u304a  \u8336 '
    """
    return spaced("\n".join(said.texts))


def spaced(text: str) -> str:
    """Return a text with blanks around the characters of scripts that have none between words.

    A lone surrogate becomes a question mark.
    """
    if text.isascii():
        return text
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return spaced(utf8(text))
    if not data.translate(None, _NOT_UNSPACED):
        return text  # as most are; a search by the pattern takes ten times as long
    return _UNSPACED.sub(r" \1 ", text)


def utf8(text: str) -> str:
    """Return a text that a database takes: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _take(part: _Inside, said: MessageText) -> None:
    match part.type:
        case "text":
            said.texts.append(part.text)
            said.characters += len(part.text)
        case "thinking":
            said.texts.append(part.text)
            said.thinking += len(part.text)
        case "image":
            said.images += 1
        case "tool_call":
            said.calls.append((part.name, len(part.arguments)))
            said.texts.append(part.name)
            said.texts += _inside(part.arguments)
        case "tool_result":
            said.is_error = part.is_error
            for inner in part.content:
                _take(inner, said)
        case "other":
            said.texts += _inside(part.data or "")


def _inside(data: str) -> list[str]:
    """Return the texts in arguments, or in what else is JSON; where it is none, it is a text.

    As they are, not as JSON spells them: else a word after a line's end would begin with an `n`.
    """
    found: list[str] = []
    try:
        _collect(canonical.from_json(data.encode("utf-8", "surrogatepass")), found)
    except (ValueError, RecursionError):
        return [data]
    return found


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        if len(value) < _NO_WORD or " " in value or "\n" in value:
            found.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            found.append(name)
            _collect(item, found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)
    elif value is not None and not isinstance(value, bool):
        found.append(str(value))


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    """Read a body. Raises ValueError."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or a wrong shape
        return msgspec.convert(canonical.from_json(body), kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_shapes = msgspec.json.Decoder(StoredMessageShape)
_parts = msgspec.json.Decoder(_Inside)
