"""Names as they are in the tables: 32 bytes, and the prefix of a kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

from blake3 import blake3

from harken.store.base import Name, ObjectKind
from harken.store.batch import PREFIX_BY_KIND

_FULL_NAME = re.compile(r"(?:ctx-|art-)?[0-9a-f]{64}")
_DIGITS = re.compile(r"[0-9a-f]{0,64}")


def is_full_name(name: str, prefix: str | None = None) -> bool:
    """Whether a text is a full name: of the kinds with this prefix, or of any kind."""
    return bool(_FULL_NAME.fullmatch(name)) and prefix in (None, name[:-64])


def to_digest(name: Name) -> bytes:
    """Return the 32 bytes of a full name."""
    return bytes.fromhex(name[-64:])


def to_digests(names: Iterable[Name]) -> list[bytes]:
    """Return the distinct digests of full names, sorted; other texts are left out."""
    return sorted({to_digest(name) for name in names if is_full_name(name)})


def to_name(kind: ObjectKind, digest: bytes) -> Name:
    """Return the full name of an object."""
    return PREFIX_BY_KIND.get(kind, "") + digest.hex()


def has_prefix_of(name: Name, kind: ObjectKind) -> bool:
    """Whether a full name has the prefix of a kind."""
    return name[:-64] == PREFIX_BY_KIND.get(kind, "")


def digest_range(digits: str) -> tuple[bytes, bytes] | None:
    """Return the first and last digest with these first digits, or None if no name has them."""
    if not _DIGITS.fullmatch(digits):
        return None
    return bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))


def encode_text(text: str) -> bytes:
    """Encode a text for the tables, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Decode a text of the tables."""
    return bytes(data).decode("utf-8", "surrogatepass")


def hash_text(text: str) -> bytes:
    """Return a key of constant size for a text of any size."""
    return blake3(encode_text(text)).digest(16)
