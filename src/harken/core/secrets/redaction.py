"""Redaction: replace credentials in a text by their kind.

A credential is identified by a shape that its issuer designed to be recognizable
(`harken.core.secrets.patterns`), or by the name before it (`harken.core.secrets.named_secrets`).
No entropy is measured, so hashes, ids and code are preserved, and a password in prose is not
found: redaction is best effort, not a guarantee.

A match never contains the secret. Redaction is idempotent. A text that is JSON (a line of a log)
is still JSON after redaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from blake3 import blake3

from harken.core.replace import in_json, replace_in_bytes
from harken.core.secrets.named_secrets import NAMED_SHAPES
from harken.core.secrets.patterns import FRAMED_SHAPES, MIN_RUN_CHARS, RUN_CHARACTERS, WORD_SHAPES
from harken.core.secrets.shape import Shape

PLACEHOLDER_PATTERN = re.compile(r"\[redacted [a-z][a-z0-9-]*\]")
"""Matches the text that replaces a credential."""
_ESCAPE_PATTERN = re.compile(rb"\\[u/]")
"""Matches an escape in JSON that can hide a character of a credential."""
_MAX_CREDENTIAL_BYTES = 64 * 1024
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
    matches: tuple[SecretMatch, ...] = ()


@dataclass(slots=True)
class Credentials:
    """A remover of credentials that counts them by kind; see `harken.core.replace.TextRemover`."""

    _hashes: dict[str, set[bytes]] = field(default_factory=dict)
    """Kind -> hashes of the credentials, so that each is counted once."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind -> the number of distinct credentials."""
        return {kind: len(hashes) for kind, hashes in sorted(self._hashes.items())}

    @property
    def summary(self) -> str:
        """The kinds with their numbers, for a person to read. Empty if there are none."""
        return ", ".join(f"{kind} ({number})" for kind, number in self.kinds.items())

    def replace(self, text: str) -> str:
        """Return a text without credentials."""
        result = redact(text)
        for match in result.matches:
            self._count(match.kind, text[match.start : match.end].encode("utf-8", "surrogatepass"))
        return result.text

    def replace_in_bytes(self, data: bytes) -> bytes:
        """Return a text in bytes without credentials. JSON is still JSON.

        >>> Credentials().replace_in_bytes(b'{"text":"AKIAQ7WZX5T2MN3BVC4D"}').decode()
        '{"text":"[redacted aws-key-id]"}'
        """
        data = replace_in_bytes(data, self.replace)
        if _ESCAPE_PATTERN.search(data) is None:
            return data
        lines = data.split(b"\n")
        return b"\n".join(
            in_json(line, self.replace) if _ESCAPE_PATTERN.search(line) else line for line in lines
        )

    def replace_in_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a text in bytes without credentials, also without those in two pieces."""
        buffer = b""
        for piece in chain(pieces, [None]):
            buffer += piece or b""
            if piece is not None and len(buffer) < 4 * _MAX_CREDENTIAL_BYTES:
                continue
            end = len(buffer) if piece is None else len(buffer) - _MAX_CREDENTIAL_BYTES
            clean, position = bytearray(), 0
            # Shapes are ASCII, so bytes can be searched as if each were a letter.
            for match in find_credentials(buffer.decode("latin-1")):
                if match.start >= end:
                    break
                self._count(match.kind, buffer[match.start : match.end])
                clean += buffer[position : match.start] + f"[redacted {match.kind}]".encode()
                position = match.end
            end = max(end, position)
            yield bytes(clean + buffer[position:end])
            buffer = buffer[end:]

    def add(self, other: Credentials) -> None:
        """Count the credentials of another remover, too."""
        for kind, hashes in other._hashes.items():
            self._hashes.setdefault(kind, set()).update(hashes)

    def is_in_json(self, data: bytes) -> bool:
        """Return True: only a full search can exclude credentials."""
        return True

    def find_spans(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each credential in a stream of bytes, also across pieces."""
        buffer, offset = b"", 0
        for piece in chain(pieces, [None]):
            buffer += piece or b""
            if piece is not None and len(buffer) < 4 * _MAX_CREDENTIAL_BYTES:
                continue
            safe_end = len(buffer) if piece is None else len(buffer) - _MAX_CREDENTIAL_BYTES
            consumed = 0
            # Shapes are ASCII, so bytes can be searched as if each were a letter.
            for match in redact(buffer.decode("latin-1")).matches:
                if match.start >= safe_end:
                    break
                self._count(match.kind, buffer[match.start : match.end])
                consumed = match.end
                yield offset + match.start, offset + match.end
            consumed = max(consumed, min(safe_end, len(buffer)), 0)
            buffer, offset = buffer[consumed:], offset + consumed

    def _count(self, kind: str, credential: bytes) -> None:
        self._hashes.setdefault(kind, set()).add(blake3(credential).digest())


def _group_by_hint(hinted: Iterable[tuple[str, Shape]]) -> tuple[tuple[str, list[Shape]], ...]:
    by_hint: dict[str, list[Shape]] = {}
    for hint, shape in hinted:
        by_hint.setdefault(hint, []).append(shape)
    return tuple(by_hint.items())


_WORDS = _group_by_hint((shape.hint, shape) for shape in WORD_SHAPES)
_FRAMED = _group_by_hint((shape.hint.lower(), shape) for shape in (*FRAMED_SHAPES, *NAMED_SHAPES))
_RUN_TABLE = bytes(ord("a") if chr(code) in RUN_CHARACTERS else ord(" ") for code in range(256))
_MIN_RUN = b"a" * MIN_RUN_CHARS


def redact(text: str) -> RedactionResult:
    """Replace each credential in a text with `[redacted KIND]`. Return the text and the matches.

    >>> redact("key=AKIAQ7WZX5T2MN3BVC4D!").text
    'key=[redacted aws-key-id]!'
    """
    matches = find_credentials(text)
    pieces: list[str] = []
    position = 0
    for match in matches:
        pieces += [text[position : match.start], f"[redacted {match.kind}]"]
        position = match.end
    return RedactionResult("".join([*pieces, text[position:]]), tuple(matches))


def find_kind(data: bytes, *, is_chunk: bool = False) -> str:
    """Return the kind of the first credential in a text. Return "" if it has none.

    is_chunk: whether the text may be cut at both ends, also inside of a placeholder.
    """
    text = data.decode("utf-8", "surrogateescape")
    for match in find_credentials(text):
        is_cut = (match.start == 0 and "]" in text[: match.end]) or (
            match.end == len(text) and "[" in text[match.start :]
        )
        if not (is_chunk and is_cut):
            return match.kind
    credentials = Credentials()
    if _ESCAPE_PATTERN.search(data) is not None:
        credentials.replace_in_bytes(data)
    return next(iter(credentials.kinds), "")


def find_credentials(text: str) -> list[SecretMatch]:
    """Return the credentials in a text, in order. Overlapping matches are merged."""
    matches: list[SecretMatch] = []
    for match in sorted(_iter_matches(text), key=lambda match: (match.start, -match.end)):
        if matches and match.start < matches[-1].end:
            end = max(matches[-1].end, match.end)
            matches[-1] = SecretMatch(matches[-1].kind, matches[-1].start, end)
        else:
            matches.append(match)
    return matches


def _iter_matches(text: str) -> Iterator[SecretMatch]:
    for shape in _find_candidate_shapes(text):
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        for match in shape.pattern.finditer(text):
            yield SecretMatch(shape.kind, *match.span(group))


def _find_candidate_shapes(text: str) -> list[Shape]:
    """Return the shapes that may match, by a search for their hints."""
    data = text.encode("utf-8", "surrogatepass")
    lowered = data.lower().decode("latin-1")  # searching a str is faster than searching bytes
    framed = [shape for hint, group in _FRAMED if hint in lowered for shape in group]
    shapes = [shape for shape in framed if shape.begins in text]
    if runs := _find_long_runs(data):
        words = [shape for hint, group in _WORDS if hint in runs for shape in group]
        shapes += [shape for shape in words if shape.begins in runs and shape.pattern.search(runs)]
    return shapes


def _find_long_runs(data: bytes) -> str:
    """Return the runs that may contain a word, each with the character before it."""
    letters = data.translate(_RUN_TABLE)
    runs: list[bytes] = []
    begin = letters.find(_MIN_RUN)
    while begin >= 0:
        end = letters.find(b" ", begin + MIN_RUN_CHARS)
        end = len(data) if end < 0 else end
        runs.append(data[max(begin - 1, 0) : end])
        begin = letters.find(_MIN_RUN, end)
    return b" ".join(runs).decode("latin-1")
