"""A log of an unreleased version is refused by its first line; any other log is left to readers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harken.core.events import SCHEMA_VERSION
from harken.errors import LogVersionUnsupported
from harken.session.log.checksum import seal
from harken.session.log.version import UNRELEASED_VERSION, check_first_line, check_release

PATH = Path("s.jsonl")


def first_line(version: object = UNRELEASED_VERSION, **members: object) -> bytes:
    body = b'{"schema_version":%s}' % str(version).encode()
    return seal(b"", body)[0]


@pytest.mark.parametrize("rest", [b"", b'{"more":1}\n'])
def test_unreleased_log_is_refused(rest: bytes) -> None:
    with pytest.raises(LogVersionUnsupported) as error:
        check_release(io.BytesIO(first_line() + rest), PATH)
    assert (error.value.found, error.value.known) == (UNRELEASED_VERSION, SCHEMA_VERSION)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        first_line(SCHEMA_VERSION),
        first_line(f"{UNRELEASED_VERSION}0"),
        first_line('"1"'),
        first_line()[:-1].replace(b"1", b"2") + b"\n",
        first_line().replace(b"sum", b"Sum"),
        b'{"schema_version":1}\n',
        seal(b"", b'{"text":"{\\"schema_version\\":1}"}')[0],
        seal(b"", b'["schema_version":1]')[0],
    ],
)
def test_other_first_line_is_left_to_the_readers(line: bytes) -> None:
    check_first_line(line, PATH)
    file = io.BytesIO(line + b"more")
    check_release(file, PATH)
    assert file.tell() == 0
