"""Redaction: credentials in a text, known by their shape, become a word that says what it was.

One idea: only shapes count that their issuers made to be recognised: a prefix, a frame, the name of
a header. Nothing is guessed from how random a text looks. So hashes, ids and code stay as they are,
and a secret without a shape (a password in prose) is not found: this is a net, not a wall.

A finding never holds the secret. What is redacted has no shape: done twice, nothing changes. Text
that is JSON (a line of a log) may be given as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Where in a text a credential stands, in characters, and of which kind."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without credentials, and where they were in the original, in order."""

    text: str
    found: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of credential looks."""

    kind: str
    hint: str
    """Stands in every text that has one: looking for it costs next to nothing."""
    pattern: re.Pattern[str]
    """Begins with fixed letters, which `re` finds fast. The group `secret` is what goes, where
    there is one; else all of it."""


_END = r"(?![A-Za-z0-9])"
_QUOTES = r"[\"'\\]{0,3}"
_IS = rf"{_QUOTES}\s{{0,3}}[=:]\s{{0,3}}{_QUOTES}"
_HEADER = r"(?=[A-Za-z0-9._~+/=-]{0,60}\d)(?P<secret>[A-Za-z0-9._~+/=-]{16,})"
_NEW_LINE = r"(?:\s|\\{1,8}[nrt]){1,8}"
_END_OF_KEY = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"


def _shapes(kind: str, prefixes: str, rest: str) -> Iterator[Shape]:
    """Yield shapes that a prefix makes plain, wherever it stands."""
    for prefix in prefixes.split():
        yield Shape(kind, prefix, re.compile(re.escape(prefix) + rest))


def _words(kind: str, prefixes: str, rest: str) -> Iterator[Shape]:
    r"""Yield shapes that must be words of their own: others could hold their letters by chance.

    A line break that JSON writes as `\n` ends a word, too.
    """
    for prefix in prefixes.split():
        begins = rf"(?:(?<![A-Za-z0-9]{prefix})|(?<=\\[nrt]{prefix}))"
        yield Shape(kind, prefix, re.compile(prefix + begins + rest + _END))


SHAPES = (
    *_shapes("anthropic-key", "sk-ant-", r"[a-z]{2,10}\d{2}-[A-Za-z0-9_-]{20,}"),
    *_shapes("openrouter-key", "sk-or-v1-", r"[0-9a-f]{40,}"),
    *_shapes("openai-key", "sk-proj- sk-svcacct- sk-admin-", r"[A-Za-z0-9_-]{20,}"),
    *_words("openai-key", "sk-", r"(?:[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48})"),
    *_shapes("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,}"),
    *_shapes("github-token", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    *_shapes("gitlab-token", "glpat-", r"[A-Za-z0-9_-]{20,}"),
    *_words("aws-key-id", "AKIA ASIA", r"[A-Z2-7]{16}"),
    *_shapes(
        "aws-secret-key",
        "ecret_access_key ECRET_ACCESS_KEY ecretAccessKey",
        rf"{_IS}(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
    ),
    *_words("slack-token", "xoxa xoxb xoxe xoxo xoxp xoxr xoxs xapp", r"-\d[A-Za-z0-9-]{14,}"),
    *_shapes(
        "slack-webhook",
        "hooks.slack.com/",
        r"(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{24,})",
    ),
    *_words("google-key", "AIza", r"[A-Za-z0-9_-]{35}"),
    *_words("google-token", "ya29", r"\.[A-Za-z0-9_-]{30,}"),
    *_shapes("google-client-secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    *_words("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{20,}"),
    *_words("huggingface-token", "hf_", r"[A-Za-z]{34}"),
    *_words("npm-token", "npm_", r"[A-Za-z0-9]{36}"),
    *_shapes("pypi-token", "pypi-AgEIcHlwaS5vcmc", r"[A-Za-z0-9_-]{40,}"),
    *_words("jwt", "eyJ", r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}"),
    Shape(
        "private-key",
        "PRIVATE KEY",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:{_NEW_LINE}[A-Za-z-]{{3,20}}: [^\n\\]{{1,100}}){{0,5}}"
            rf"(?:{_NEW_LINE}[A-Za-z0-9+/=]{{16,}}){{1,400}}"
            rf"(?:{_NEW_LINE}[A-Za-z0-9+/=]{{1,15}})?"
            rf"(?:{_NEW_LINE}{_END_OF_KEY})?"
        ),
    ),
    *_shapes(
        "authorization-header",
        "uthorization UTHORIZATION",
        rf"{_IS}(?i:bearer|basic|token)\s{{1,3}}{_HEADER}",
    ),
    *_shapes(
        "authorization-header",
        "Bearer bearer",
        r"\s{1,3}(?=[A-Za-z0-9._~+/=-]{0,60}\d)(?P<secret>[A-Za-z0-9._~+/=-]{24,})",
    ),
    *_shapes("authorization-header", "api-key Api-Key API-Key API-KEY", rf"{_IS}{_HEADER}"),
)
"""Each as its issuer describes it, or as its kind has been seen in public again and again."""


def redact(text: str) -> Redacted:
    """Return the text with each credential as `[redacted KIND]`, and what was found.

    >>> redact("key=AKIAQ7WZX5T2MN3BVC4D!").text
    'key=[redacted aws-key-id]!'
    """
    found = findings(text)
    pieces: list[str] = []
    at = 0
    for one in found:
        pieces += [text[at : one.start], f"[redacted {one.kind}]"]
        at = one.end
    return Redacted("".join([*pieces, text[at:]]), tuple(found))


def findings(text: str) -> list[Finding]:
    """Return where credentials stand, in order; where shapes overlap, all they cover is one."""
    found: list[Finding] = []
    for one in sorted(_all(text), key=lambda one: (one.start, -one.end)):
        if found and one.start < found[-1].end:
            end = max(found[-1].end, one.end)
            found[-1] = Finding(found[-1].kind, found[-1].start, end)
        else:
            found.append(one)
    return found


def _all(text: str) -> Iterator[Finding]:
    for shape in SHAPES:
        if shape.hint in text:
            group = "secret" if "secret" in shape.pattern.groupindex else 0
            for match in shape.pattern.finditer(text):
                yield Finding(shape.kind, *match.span(group))
