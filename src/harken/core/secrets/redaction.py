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
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.core.secrets.json_strings import (
    MAX_DEPTH,
    SEPARATOR,
    iter_decoded,
    normalize_escapes,
    replace_strings,
)
from harken.core.secrets.named_secrets import NAMED_SHAPES
from harken.core.secrets.patterns import FRAMED_SHAPES, MIN_RUN_CHARS, RUN_CHARACTERS, WORD_SHAPES
from harken.core.secrets.removal import replace_in_bytes
from harken.core.secrets.shape import Shape

PLACEHOLDER_PATTERN = re.compile(r"\[redacted [a-z][a-z0-9-]*\]")
"""Matches the text that replaces a credential."""
_TERMINAL_PATTERN = re.compile(
    r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))(?:\[[0-9;:?]{0,32}[A-Za-z]|[()][A-Za-z0-9])"
)
"""Matches an escape sequence of a terminal, which ends a word. JSON and code escape it."""
_TERMINAL_BEGINS = ("\x1b", "u001b", "u001B", "x1b", "x1B", "\\033", "\\e[", "\\e(")
"""Beginnings of these sequences, which are cheap to search for."""
_MAX_CREDENTIAL_BYTES = 64 * 1024
"""Maximum length of a credential of several lines."""
_SEGMENT_BYTES = 4 * 1024 * 1024
"""The size of the segments of a stream, which end at line ends."""
_MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is searched in several segments."""
_MAX_PASSES = 8
"""Maximum number of searches of a line, since a replacement may complete another credential."""


class SecretMatch(msgspec.Struct, frozen=True):
    """The kind and the span of a credential in a text, in characters."""

    kind: str
    start: int
    end: int


class RedactionResult(msgspec.Struct, frozen=True):
    """A text without credentials, and their spans in the original, in order."""

    text: str
    matches: tuple[SecretMatch, ...] = ()


class Credentials(msgspec.Struct):
    """A `TextRemover` that removes credentials and counts them by kind."""

    _hashes: dict[str, set[bytes]] = msgspec.field(default_factory=dict)
    """Kind -> hashes of the credentials, so that each is counted once."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind -> the number of distinct credentials."""
        return {kind: len(hashes) for kind, hashes in sorted(self._hashes.items())}

    @property
    def summary(self) -> str:
        """The kinds with their numbers, for a person to read. Empty if there are none."""
        return ", ".join(f"{kind} ({number})" for kind, number in self.kinds.items())

    @property
    def notice(self) -> str:
        """A line about the removed credentials, for a person to read. Empty if there are none."""
        return f"credentials redacted, and not stored: {self.summary}" if self._hashes else ""

    def replace(self, text: str) -> str:
        """Return a text without credentials, also in the strings of JSON in it."""
        changes = [
            _Change(change.first, change.last, self._settle(change.text))
            for change in self._find_changes(text, 0)
        ]
        return _apply(text, changes)

    def replace_in_bytes(self, data: bytes) -> bytes:
        """Return a text in bytes without credentials. JSON is still JSON.

        >>> Credentials().replace_in_bytes(b'{"text":"AKIAQ7WZX5T2MN3BVC4D"}').decode()
        '{"text":"[redacted aws-key-id]"}'
        """
        return replace_in_bytes(data, self.replace)

    def is_clean(self, data: bytes) -> bool:
        """Whether bytes have no credential. Those that they have are counted."""
        return self.replace_in_bytes(data) == data

    def replace_in_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a text in bytes without credentials, also without those in two pieces."""
        return map(self.replace_in_bytes, iter_segments(pieces))

    def add(self, other: Credentials) -> None:
        """Count the credentials of another remover, too."""
        for kind, hashes in other._hashes.items():
            self._hashes.setdefault(kind, set()).update(hashes)

    def is_in_json(self, data: bytes) -> bool:
        """Return True: only a full search can exclude credentials."""
        return True

    def find_spans(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each credential in a stream of bytes, also across pieces.

        Strings of JSON are not decoded, since their positions are not those of the bytes.
        """
        offset = 0
        for segment in iter_segments(pieces):
            text = segment.decode("utf-8", "surrogateescape")
            position, start = 0, offset
            for match in find_credentials(text):
                start += _count_bytes(text[position : match.start])
                size = _count_bytes(text[match.start : match.end])
                self.count(match.kind, text[match.start : match.end])
                yield start, start + size
                position, start = match.end, start + size
            offset += len(segment)

    def _settle(self, text: str) -> str:
        """Return a text without credentials, and without those that a replacement completes."""
        for _ in range(_MAX_PASSES):
            new = self._replace_once(text, 0)
            if new == text:
                break
            text = new
        return text

    def _replace_once(self, text: str, depth: int) -> str:
        return _apply(text, self._find_changes(text, depth))

    def _find_changes(self, text: str, depth: int) -> list[_Change]:
        """Return the lines with credentials, with their replacements, in order."""
        lines = text.split("\n")
        changes = self._find_in_lines(lines)
        if depth >= MAX_DEPTH or "\\" not in text:
            return changes
        changed = {n for change in changes for n in range(change.first, change.last + 1)}

        def replace(string: str) -> str:
            return self._replace_once(string, depth + 1)

        for change in changes:
            change.text = "\n".join(
                replace_strings(line, replace) for line in change.text.split("\n")
            )
        for number in _find_in_strings(lines) - changed:
            changes.append(_Change(number, number, replace_strings(lines[number], replace)))
        return sorted(changes, key=lambda change: change.first)

    def _find_in_lines(self, lines: Sequence[str]) -> list[_Change]:
        """Return the lines with credentials that need not be decoded, with their replacements."""
        text = normalize_escapes("\n".join(lines))
        view = text.split("\n")
        ends = [*accumulate(len(line) + 1 for line in view)]
        matches = find_credentials(text)
        changes: list[_Change] = []
        for first, last, group in _group_by_lines(matches, ends):
            position = ends[first - 1] if first else 0
            pieces: list[str] = []
            for match in group:
                self.count(match.kind, text[match.start : match.end])
                pieces += [text[position : match.start], f"[redacted {match.kind}]"]
                position = match.end
            pieces.append(text[position : ends[last] - 1])
            changes.append(_Change(first, last, "".join(pieces)))
        return changes

    def count(self, kind: str, credential: str) -> None:
        """Count a credential that the caller removes."""
        data = credential.encode("utf-8", "surrogatepass")
        self._hashes.setdefault(kind, set()).add(blake3(data).digest())


class _Change(msgspec.Struct):
    """Lines of a text, from the first to the last, and the text that replaces them."""

    first: int
    last: int
    text: str


def _group_by_lines(
    matches: Iterable[SecretMatch], ends: Sequence[int]
) -> Iterator[tuple[int, int, list[SecretMatch]]]:
    """Yield the matches in lines with these ends, those that share a line together.

    Each group has the first and the last of its lines.
    """
    group: list[SecretMatch] = []
    group_first = group_last = 0
    for match in matches:
        first, last = bisect_right(ends, match.start), bisect_right(ends, match.end - 1)
        if group and first > group_last:
            yield group_first, group_last, group
            group = []
        if not group:
            group_first = first
        group_last = last
        group.append(match)
    if group:
        yield group_first, group_last, group


def _apply(text: str, changes: Sequence[_Change]) -> str:
    """Return a text with changes, which are in order."""
    if not changes:
        return text
    lines = text.split("\n")
    new_lines: list[str] = []
    position = 0
    for change in changes:
        new_lines += [*lines[position : change.first], change.text]
        position = change.last + 1
    return "\n".join([*new_lines, *lines[position:]])


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


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

    This is the definition by which `Credentials` replaces them, so it finds none in the result.
    is_chunk: whether the text may be cut at both ends, also inside of a placeholder.
    """
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    text = normalize_escapes("\n".join(lines))
    for match in find_credentials(text):
        is_cut = (match.start == 0 and "]" in text[: match.end]) or (
            match.end == len(text) and "[" in text[match.start :]
        )
        if not (is_chunk and is_cut):
            return match.kind
    for number in sorted(_find_in_strings(lines)):
        credentials = Credentials()
        if credentials.replace(lines[number]) != lines[number]:
            return next(iter(credentials.kinds))
    return ""


def find_kind_between(before: bytes, after: bytes) -> str:
    """Return the kind of a credential that begins before the seam of two texts and ends after it.

    Return "" if there is none.
    """
    start = before.decode("utf-8", "surrogateescape")
    text = start + after.decode("utf-8", "surrogateescape")
    for match in find_credentials(text):
        if 0 < match.start < len(start) < match.end < len(text):
            return match.kind
    return ""


def find_kind_in_json(*values: bytes) -> str:
    """Return the kind of the first credential in JSON values. Return "" if they have none.

    Each string is searched alone and behind its name, because the order of the members is not that
    of the text from which the value was read. Many values together are searched faster.
    """
    lines = [
        canonical.to_json_line(member)
        for value in values
        for member in _iter_members(canonical.from_json(value))
    ]
    return find_kind(SEPARATOR.encode().join(lines))


def _iter_members(value: object) -> Iterator[object]:
    """Yield the strings of a JSON value, those of objects together with their names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _iter_members(item)
    elif isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, str):
                yield {name: member}
            else:
                yield name
                yield from _iter_members(member)


def iter_segments(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in segments of lines. No credential is in two segments."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if len(buffer) < _SEGMENT_BYTES or (b"\n" not in piece and len(buffer) < _MAX_LINE_BYTES):
            continue
        if end := _find_segment_end(buffer):
            yield bytes(buffer[:end])
            del buffer[:end]
    yield bytes(buffer)


def _find_segment_end(buffer: bytearray) -> int:
    """Return the end of the last line that no credential continues, or 0."""
    end = buffer.rfind(b"\n", 0, len(buffer) - _MAX_CREDENTIAL_BYTES) + 1
    is_line = end > 0 or len(buffer) < _MAX_LINE_BYTES
    end = end if is_line else len(buffer) - _MAX_CREDENTIAL_BYTES
    start = max(end - _MAX_CREDENTIAL_BYTES, 0)
    window = buffer[start : end + _MAX_CREDENTIAL_BYTES].decode("latin-1")
    for match in find_credentials(window):
        if start + match.start < end < start + match.end:
            begin = start + match.start
            return buffer.rfind(b"\n", 0, begin) + 1 if is_line else begin
    return end


def _find_in_strings(lines: Sequence[str]) -> set[int]:
    """Return the indexes of lines with a credential in the strings that have to be decoded."""
    numbers: set[int] = set()
    for line_numbers, texts in iter_decoded(lines):
        views = [*map(normalize_escapes, texts)]
        ends = [*accumulate(len(view) + len(SEPARATOR) for view in views)]
        for match in find_credentials(SEPARATOR.join(views)):
            first, last = bisect_right(ends, match.start), bisect_right(ends, match.end - 1)
            numbers.update(line_numbers[first : last + 1])
    return numbers


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
    yield from _iter_shape_matches(text)
    if any(begin in text for begin in _TERMINAL_BEGINS):
        masked = _TERMINAL_PATTERN.sub(lambda match: " " * len(match[0]), text)
        if masked != text:
            yield from _iter_shape_matches(masked)


def _iter_shape_matches(text: str) -> Iterator[SecretMatch]:
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
