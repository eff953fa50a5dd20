"""One line of a log: a JSON object that ends with the members `more` and `sum`.

`more` (`true`, or absent) says that the next line belongs to the same group: a reader uses all
lines of a group or none. `sum` is a checksum. Both belong to the line, not to the event.

`sum` is 16 hex digits of BLAKE3 over the `sum` of the previous line (nothing for the first
line) and all bytes of this line before the digits. So a changed letter and a missing, duplicated or
moved line are detected, each by one hash of the line's own bytes.

Source: docs/formats/session-log.md, "Lines".
"""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

OPEN = b',"sum":"'
CLOSE = b'"}\n'
DIGITS = 16
DIGITS_AT = slice(-DIGITS - len(CLOSE), -len(CLOSE))
HEAD = slice(-DIGITS - len(CLOSE))
"""The part of a line that the checksum covers: everything before its digits."""
BODY = slice(-DIGITS - len(CLOSE) - len(OPEN))
"""The object without its `sum` and its closing brace."""
MORE = b',"more":true'
MORE_AT = slice(BODY.stop - len(MORE), BODY.stop)
GROUPED_BODY = slice(MORE_AT.start)
"""As `BODY`, in a line with `more`."""


def checksum_line(before: bytes, head: bytes) -> bytes:
    """Return the checksum of a line. `before`: that of the previous line; `head`: see `HEAD`."""
    return blake3(before + head).hexdigest(DIGITS // 2).encode()


def seal(before: bytes, body: bytes, *, more: bool = False) -> tuple[bytes, bytes]:
    """Return the line (with its newline) for an event's JSON object, and its checksum.

    `more`: whether the next line belongs to the same group.
    """
    head = body[:-1] + (MORE + OPEN if more else OPEN)
    checksum = checksum_line(before, head)
    return head + checksum + CLOSE, checksum


def seal_group(before: bytes, bodies: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Return the lines of a group, and the checksum of the last one."""
    lines = []
    for number, body in enumerate(bodies, 1):
        line, before = seal(before, body, more=number < len(bodies))
        lines.append(line)
    return lines, before


def read_body(line: bytes) -> bytes:
    """Return the event's JSON object of a line with a sum, without `more` and `sum`."""
    return line[BODY].removesuffix(MORE) + b"}"


def has_more(line: bytes) -> bool:
    """Whether the next line belongs to the same group as this line with a sum."""
    return line.endswith(MORE, 0, BODY.stop)


def is_valid_line(before: bytes, line: bytes) -> bool:
    """Whether a line (with its newline) is complete and follows a line with the sum `before`."""
    return line.endswith(CLOSE) and checksum_line(before, line[HEAD]) == line[DIGITS_AT]


def has_sum(line: bytes) -> bool:
    """Whether a line (with or without its newline) ends with a sum, right or wrong."""
    text = line.rstrip(b"\r\n") + b"\n"
    return text.endswith(CLOSE) and text[BODY.stop : HEAD.stop] == OPEN


def seems_sealed(line: bytes) -> bool:
    """Whether a line was written with a sum: as `has_sum`, but one byte of the frame may be wrong.

    So the first line identifies a log with sums even if the line itself is damaged.
    """
    return any(_count_frame_errors(line[:end]) <= 1 for end in (len(line), len(line) - 1))


def _count_frame_errors(text: bytes) -> int:
    """Count the wrong bytes around the digits, in a line without its newline."""
    frame = text[-DIGITS - 2 - len(OPEN) : -DIGITS - 2] + text[-2:]
    expected = OPEN + CLOSE[:2]
    return sum(a != b for a, b in zip(frame, expected, strict=False)) + len(expected) - len(frame)
