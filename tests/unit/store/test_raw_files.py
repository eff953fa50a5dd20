"""Of a file that grew, only the last chunks are read to verify it."""

from __future__ import annotations

import pytest

from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import ObjectCorrupted
from harken.store.raw_files import MAX_FILES, VerifiedFiles


class Reader:
    """Verifies files of short chunks, and notes those that are read."""

    def __init__(self) -> None:
        self.files, self.read_texts = VerifiedFiles(), list[bytes]()

    def verify(self, *texts: bytes, name: ArtifactRef | None = None) -> list[bytes]:
        """Verify a file. Return the chunks that were read for it."""
        by_ref = {hash_raw(text): text for text in texts}
        self.read_texts = []

        def read_piece(piece: ArtifactRef) -> bytes:
            self.read_texts.append(by_ref[piece])
            return by_ref[piece]

        file = hash_raw(b"".join(texts)) if name is None else name
        self.files.verify("a store", file, [hash_raw(text) for text in texts], read_piece)
        return self.read_texts


def test_only_the_last_chunks_of_a_grown_file_are_read() -> None:
    reader = Reader()
    assert reader.verify(b"a", b"b", b"c") == [b"a", b"b", b"c"]
    assert reader.verify(b"a", b"b", b"c+") == [b"c+"]
    assert reader.verify(b"a", b"b", b"c++", b"d", b"e") == [b"c++", b"d", b"e"]
    assert reader.verify(b"a", b"b", b"c++", b"d", b"e+") == [b"e+"]


def test_file_that_shrank_or_changed_is_read_again() -> None:
    reader = Reader()
    reader.verify(b"a", b"b", b"c", b"d")
    assert reader.verify(b"a", b"b", b"c") == [b"a", b"b", b"c"]
    assert reader.verify(b"a", b"b") == [b"a", b"b"]
    assert reader.verify(b"a") == [b"a"]
    assert reader.verify(b"a", b"B", b"c") == [b"B", b"c"]
    assert reader.verify(b"A", b"B", b"c") == [b"A", b"B", b"c"]
    assert reader.verify() == []


def test_file_with_another_name_is_refused() -> None:
    reader = Reader()
    other = hash_raw(b"other")
    for _ in range(2):
        with pytest.raises(ObjectCorrupted):
            reader.verify(b"a", b"b", b"c", name=other)
    assert reader.verify(b"a", b"b", b"c+") == [b"c+"]
    with pytest.raises(ObjectCorrupted):
        reader.verify(b"a", b"b", b"d", name=hash_raw(b"abc+"))


def test_latest_files_are_remembered() -> None:
    reader = Reader()
    for number in range(MAX_FILES + 1):
        reader.verify(b"%d" % number, b"b")
    assert reader.verify(b"0", b"b", b"c") == [b"0", b"b", b"c"]
    assert reader.verify(b"2", b"b", b"c") == [b"b", b"c"]
