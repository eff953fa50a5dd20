"""Redaction: replace credentials in a text by their kind.

A credential is known by a shape that its issuer made to be recognized
(`harken.core.secrets.patterns`), or by the name before it (`harken.core.secrets.named_secrets`).
Nothing is guessed from how random a text looks, so hashes, ids and code stay, and a password in
prose is not found: this is a net, not a wall.

A finding never holds the secret. A redacted text holds no shape: redacting twice changes nothing.
A text that is JSON (a line of a log) may be given as it stands, and is JSON afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from blake3 import blake3

from harken.core.secrets.named_secrets import NAMED
from harken.core.secrets.patterns import FRAMED, RUN, SHORTEST, WORDS
from harken.core.secrets.shape import Shape

_LONGEST_BYTES = 64 * 1024
"""A credential is no longer, so it is found whole where bytes come in pieces."""


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """Where in a text a credential stands, in characters, and of which kind."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """A text without credentials, and where they were in the original, in order."""

    text: str
    found: tuple[SecretMatch, ...] = ()


@dataclass(slots=True)
class Credentials:
    """What was found, without what it was; it replaces as `harken.core.replace.Secret` does."""

    _seen: dict[str, set[bytes]] = field(default_factory=dict)
    """Kind -> hashes of the credentials, so that each counts once."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind -> how many different ones."""
        return {kind: len(seen) for kind, seen in sorted(self._seen.items())}

    def replace(self, text: str) -> str:
        """Return a text without credentials."""
        done = redact(text)
        for one in done.found:
            self._see(one.kind, text[one.start : one.end].encode("utf-8", "surrogatepass"))
        return done.text

    def is_in_json(self, data: bytes) -> bool:
        """Whether there may be one: only looking for them tells."""
        return True

    def spans_in(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield where they begin and end in bytes that come piece by piece, also across borders."""
        held, at = b"", 0
        for piece in chain(pieces, [None]):
            held += piece or b""
            if piece is not None and len(held) < 4 * _LONGEST_BYTES:
                continue
            sure = len(held) if piece is None else len(held) - _LONGEST_BYTES
            done = 0
            # Shapes are ASCII, so bytes may be looked at as if each were a letter.
            for one in redact(held.decode("latin-1")).found:
                if one.start >= sure:
                    break
                self._see(one.kind, held[one.start : one.end])
                done = one.end
                yield at + one.start, at + one.end
            done = max(done, min(sure, len(held)), 0)
            held, at = held[done:], at + done

    def _see(self, kind: str, credential: bytes) -> None:
        self._seen.setdefault(kind, set()).add(blake3(credential).digest())


def _by_hint(named: Iterable[tuple[str, Shape]]) -> tuple[tuple[str, list[Shape]], ...]:
    found: dict[str, list[Shape]] = {}
    for hint, shape in named:
        found.setdefault(hint, []).append(shape)
    return tuple(found.items())


_WORDS = _by_hint((shape.hint, shape) for shape in WORDS)
_FRAMED = _by_hint((shape.hint.lower(), shape) for shape in (*FRAMED, *NAMED))
_OF_RUN = bytes(ord("a") if chr(code) in RUN else ord(" ") for code in range(256))
_RUN = b"a" * SHORTEST


def redact(text: str) -> RedactionResult:
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
    return RedactionResult("".join([*pieces, text[at:]]), tuple(found))


def findings(text: str) -> list[SecretMatch]:
    """Return where credentials stand, in order; where shapes overlap, all they cover is one."""
    found: list[SecretMatch] = []
    for one in sorted(_all(text), key=lambda one: (one.start, -one.end)):
        if found and one.start < found[-1].end:
            end = max(found[-1].end, one.end)
            found[-1] = SecretMatch(found[-1].kind, found[-1].start, end)
        else:
            found.append(one)
    return found


def _all(text: str) -> Iterator[SecretMatch]:
    for shape in _shapes_in(text):
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        for match in shape.pattern.finditer(text):
            yield SecretMatch(shape.kind, *match.span(group))


def _shapes_in(text: str) -> list[Shape]:
    """Return the shapes that are worth looking for: no others can be there."""
    data = text.encode("utf-8", "surrogatepass")
    small = data.lower().decode("latin-1")  # looking into a text is faster than into bytes
    framed = [shape for hint, some in _FRAMED if hint in small for shape in some]
    shapes = [shape for shape in framed if shape.begins in text]
    if runs := _long_runs(data):
        words = [shape for hint, some in _WORDS if hint in runs for shape in some]
        shapes += [one for one in words if one.begins in runs and one.pattern.search(runs)]
    return shapes


def _long_runs(data: bytes) -> str:
    """Return the runs in which a word may stand, each with what is before it: few of most texts."""
    letters = data.translate(_OF_RUN)
    runs: list[bytes] = []
    begin = letters.find(_RUN)
    while begin >= 0:
        end = letters.find(b" ", begin + SHORTEST)
        end = len(data) if end < 0 else end
        runs.append(data[max(begin - 1, 0) : end])
        begin = letters.find(_RUN, end)
    return b" ".join(runs).decode("latin-1")
