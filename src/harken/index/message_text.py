"""Extract the searchable text and the statistics of a message.

A message is read in its stored form, part by part; only the needed parts are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from harken.core import canonical
from harken.core.commits import Hash

T = TypeVar("T")
_MAX_WORD_CHARS = 100
"""A longer text without a blank is not indexed: it is an image, a key or a hash."""
_UNSPACED_PATTERN = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)
"""Characters of scripts without, or without regular, blanks between words.

Each one is indexed as a word, and several as a phrase.
"""
_OTHER_UTF8_BYTES = bytes(
    {*range(256)} - {0xE0, 0xE1, *range(0xE3, 0xEE), 0xEF, *range(0xF0, 0xF4)}
)
"""UTF-8 bytes that do not start any of these characters."""


class MessageText(msgspec.Struct):
    """The text of a message, and its statistics."""

    role: str = ""
    texts: list[str] = msgspec.field(default_factory=list)
    """Texts, thoughts and arguments, in order."""
    characters: int = 0
    """Number of characters of its texts, without thoughts and arguments."""
    thinking: int = 0
    images: int = 0
    calls: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Tool name and number of argument characters of each call."""
    is_error: bool = False


class StoredMessageShape(msgspec.Struct):
    """A stored message: its role and the hashes of its parts."""

    role: str = ""
    parts: list[Hash] = []


class _Part(msgspec.Struct):
    """The members of a message part of any type."""

    type: str
    text: str = ""
    name: str = ""
    arguments: str = ""
    data: str | None = None
    content: list[_Part] = []
    is_error: bool = False


def decode_shape(body: bytes) -> StoredMessageShape:
    """Decode the role and part hashes of a stored message. An unreadable one is empty."""
    try:
        return _decode(body, _shapes, StoredMessageShape)
    except ValueError:
        return StoredMessageShape()


def extract_text(shape: StoredMessageShape, parts: Mapping[Hash, bytes]) -> MessageText:
    """Extract the text of a message. Missing and unreadable parts are skipped."""
    text = MessageText(shape.role)
    for name in shape.parts:
        body = parts.get(name)
        if body is not None:
            try:
                _add_part(_decode(body, _parts, _Part), text)
            except ValueError:
                continue
    return text


def searchable_text(text: MessageText) -> str:
    r"""Return the text to index: blanks separate the characters of unspaced scripts.

    >>> searchable_text(MessageText("user", ["Tea, please.", "\u304a\u8336"]))
    'Tea, please.\n \u304a  \u8336 '
    """
    return separate_unspaced("\n".join(text.texts))


def separate_unspaced(text: str) -> str:
    """Add blanks around the characters of scripts that do not separate words.

    A lone surrogate becomes a question mark.
    """
    if text.isascii():
        return text
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return separate_unspaced(to_utf8(text))
    if not encoded.translate(None, _OTHER_UTF8_BYTES):
        return text  # The usual case; a substitution takes ten times as long.
    return _UNSPACED_PATTERN.sub(r" \1 ", text)


def to_utf8(text: str) -> str:
    """Return text that SQLite can store: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _add_part(part: _Part, text: MessageText) -> None:
    match part.type:
        case "text":
            text.texts.append(part.text)
            text.characters += len(part.text)
        case "thinking":
            text.texts.append(part.text)
            text.thinking += len(part.text)
        case "image":
            text.images += 1
        case "tool_call":
            text.calls.append((part.name, len(part.arguments)))
            text.texts.append(part.name)
            text.texts += _extract_json_texts(part.arguments)
        case "tool_result":
            text.is_error = part.is_error
            for inner in part.content:
                _add_part(inner, text)
        case "other":
            text.texts += _extract_json_texts(part.data or "")


def _extract_json_texts(data: str) -> list[str]:
    """Return the strings of a JSON document, or the text itself if it is not JSON.

    Strings are decoded: in escaped form, a word after a newline would start with an `n`.
    """
    texts: list[str] = []
    try:
        _collect_texts(canonical.from_json(data.encode("utf-8", "surrogatepass")), texts)
    except (ValueError, RecursionError):
        return [data]
    return texts


def _collect_texts(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        if len(value) < _MAX_WORD_CHARS or " " in value or "\n" in value:
            texts.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            texts.append(name)
            _collect_texts(item, texts)
    elif isinstance(value, list):
        for item in value:
            _collect_texts(item, texts)
    elif value is not None and not isinstance(value, bool):
        texts.append(str(value))


def _decode(body: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    """Decode a body, tolerating lone surrogates. Raises ValueError."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or a wrong shape
        return msgspec.convert(canonical.from_json(body), kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_shapes = msgspec.json.Decoder(StoredMessageShape)
_parts = msgspec.json.Decoder(_Part)
