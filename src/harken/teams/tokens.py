"""Access tokens: random, shown once, and kept as a hash only."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.teams.directory import TokenRecord
from harken.teams.scopes import Right

_PREFIX = "hkt_"
_TOKEN_PATTERN = re.compile(_PREFIX + r"[A-Za-z0-9_-]{43}")


def create_token(
    user: str,
    name: str,
    *,
    now_us: int,
    lifetime_s: float | None = None,
    rights: tuple[Right, ...] = (),
) -> tuple[str, TokenRecord]:
    """Return a new token of 256 random bits, and its record, which does not contain it."""
    token = _PREFIX + secrets.token_urlsafe(32)
    record = TokenRecord(
        id=secrets.token_hex(6),
        user=user,
        name=name,
        digest=hash_token(token),
        created_at=format_rfc3339(now_us),
        expires_at=None
        if lifetime_s is None
        else format_rfc3339(now_us + int(lifetime_s * 1_000_000)),
        rights=rights,
    )
    return token, record


def hash_token(token: str) -> str:
    """Return the hash under which a token is kept.

    A token has 256 random bits, so a fast hash without salt cannot be inverted.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_token(text: str) -> bool:
    """Whether a text has the form of a token."""
    return _TOKEN_PATTERN.fullmatch(text) is not None


def find_fault(record: TokenRecord | None, token: str, now_us: int) -> str:
    """Return the reason why a token is not accepted, or "". Contents are compared in equal time."""
    digest = "0" * 64 if record is None else record.digest
    if not hmac.compare_digest(digest, hash_token(token)) or record is None:
        return "unknown"
    if record.revoked_at is not None:
        return "revoked"
    if record.expires_at is not None and parse_rfc3339(record.expires_at) <= now_us:
        return "expired"
    return ""
