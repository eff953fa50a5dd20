"""A compressed log with other or less content than the log is never used in its place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import zstandard

from harken.errors import InvalidLog, LogWriteError
from harken.session.log.compress import compress_log, decompress_log
from harken.session.log.compressed import open_packed
from harken.session.log.disk import RealDisk
from harken.session.log.file import LogFile
from harken.session.log.reader import iter_events
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message, session_options

BLOCK_HEADER_BYTES = 3


def new_log(folder: Path, size: int = 0) -> Path:
    path = folder / "s.jsonl"
    with Session(path, options=session_options()) as session:
        agent = create_agent(session)
        log_user_message(session, agent, "a secret text")
        if size:
            log_user_message(session, agent, Random(1).randbytes(size // 2).hex())
    return path


@dataclass
class OtherContentDisk(RealDisk):
    """A disk that holds another valid frame than the one that was written."""

    content: bytes

    def write(self, fd: int, data: bytes) -> int:
        os.write(fd, zstandard.ZstdCompressor().compress(self.content))
        return len(data)


@pytest.mark.req("D-01", "S3-31")
@pytest.mark.parametrize("way", ["other text", "lost end", "nothing"])
def test_pack_that_comes_back_with_other_content_keeps_the_log(tmp_path: Path, way: str) -> None:
    path = new_log(tmp_path)
    data = path.read_bytes()
    content = {
        "other text": data.replace(b"secret", b"public"),
        "lost end": data[: data.rindex(b"\n", 0, -1) + 1],
        "nothing": b"",
    }
    with pytest.raises(LogWriteError, match="does not decompress to the original"):
        compress_log(path, disk=OtherContentDisk(content[way]))
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]
    assert path.read_bytes() == data


def first_block_end(pack: bytes) -> int:
    """Return the offset behind the first block of a Zstandard frame (RFC 8878)."""
    start = zstandard.frame_header_size(pack)
    header = int.from_bytes(pack[start : start + BLOCK_HEADER_BYTES], "little")
    assert not header & 1, "the frame has only one block"
    return start + BLOCK_HEADER_BYTES + (header >> 3)


@pytest.mark.req("D-01", "S3-31")
def test_pack_cut_off_behind_its_first_block_is_damaged_and_stays(tmp_path: Path) -> None:
    """Such a pack decompresses without an error: only its header says that content is missing."""
    path = new_log(tmp_path, 600_000)
    pack = compress_log(path).path
    data = pack.read_bytes()
    pack.write_bytes(data[: first_block_end(data)])
    before = pack.read_bytes()
    file = open_packed(path)
    assert file is not None
    with file, pytest.raises(InvalidLog, match="is damaged: it ends after"):
        file.read()
    for read in (decompress_log, LogFile, lambda log: list(iter_events(log))):
        with pytest.raises(InvalidLog, match="is damaged"):
            read(path)
    assert not path.exists()
    assert pack.read_bytes() == before
