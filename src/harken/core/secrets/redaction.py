"""Redaction: replace credentials in a text by their kind.

A credential is identified by a shape that its issuer designed to be recognizable
(`harken.core.secrets.patterns`), or by the name before it (`harken.core.secrets.named_secrets`).
No entropy is measured, so hashes, ids and code are preserved, and a password in prose is not
found: redaction is best effort, not a guarantee.

A match never contains the secret. Redaction is idempotent. A text that is JSON (a line of a log)
is still JSON after redaction.
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
"""Maximum length of a credential: an overlap of this size between pieces always contains it."""


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """The kind and the span of a credential in a text, in characters."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """A text without credentials, and their spans in the original, in order."""

    text: str
    found: tuple[SecretMatch, ...] = ()


@dataclass(slots=True)
class Credentials:
    """A remover of credentials that counts them by kind; see `harken.core.replace.TextRemover`."""

    _seen: dict[str, set[bytes]] = field(default_factory=dict)
    """Kind -> hashes of the credentials, so that each is counted once."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind -> the number of distinct credentials."""
        return {kind: len(seen) for kind, seen in sorted(self._seen.items())}

    def replace(self, text: str) -> str:
        """Return a text without credentials."""
        done = redact(text)
        for one in done.found:
            self._see(one.kind, text[one.start : one.end].encode("utf-8", "surrogatepass"))
        return done.text

    def is_in_json(self, data: bytes) -> bool:
        """Return True: only a full search can exclude credentials."""
        return True

    def spans_in(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each credential in a stream of bytes, also across pieces."""
        held, at = b"", 0
        for piece in chain(pieces, [None]):
            held += piece or b""
            if piece is not None and len(held) < 4 * _LONGEST_BYTES:
                continue
            sure = len(held) if piece is None else len(held) - _LONGEST_BYTES
            done = 0
            # Shapes are ASCII, so bytes can be searched as if each were a letter.
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
    """Replace each credential in a text with `[redacted KIND]`. Return the text and the matches.

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
    """Return the credentials in a text, in order. Overlapping matches are merged."""
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
    """Return the shapes that may match, by a search for their hints."""
    data = text.encode("utf-8", "surrogatepass")
    small = data.lower().decode("latin-1")  # searching a str is faster than searching bytes
    framed = [shape for hint, some in _FRAMED if hint in small for shape in some]
    shapes = [shape for shape in framed if shape.begins in text]
    if runs := _long_runs(data):
        words = [shape for hint, some in _WORDS if hint in runs for shape in some]
        shapes += [one for one in words if one.begins in runs and one.pattern.search(runs)]
    return shapes


def _long_runs(data: bytes) -> str:
    """Return the runs that may contain a word, each with the character before it."""
    letters = data.translate(_OF_RUN)
    runs: list[bytes] = []
    begin = letters.find(_RUN)
    while begin >= 0:
        end = letters.find(b" ", begin + SHORTEST)
        end = len(data) if end < 0 else end
        runs.append(data[max(begin - 1, 0) : end])
        begin = letters.find(_RUN, end)
    return b" ".join(runs).decode("latin-1")
