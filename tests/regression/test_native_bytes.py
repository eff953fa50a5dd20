"""The bytes of an imported session come back identical from a store, a bundle and another store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.core.commits import ArtifactRef
from harken.index.catalogue import Catalogue
from harken.store.base import RetentionPolicy
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered import TieredStore
from tests.unit.formats.transcript_kit import Transcript, text_block, thinking_block, tool_use_block

GIBBERISH = b"\xff\xfe\x00 not UTF-8 \x80\n"


def transcript() -> bytes:
    made = Transcript()
    made.user("Is anybody at the door? \u2028 \ud83d\udeaa")
    made.answer(thinking_block("Hm."), text_block("I look."), tool_use_block("c1"))
    made.result("c1", "Nobody.")
    made.answer(text_block("Nobody."))
    return made.data


VARIANTS = {
    "as written": transcript(),
    "without a last newline": transcript().removesuffix(b"\n"),
    "with a torn line": transcript() + b'{"type":"user","mess',
    "with carriage returns": transcript().replace(b"\n", b"\r\n"),
    "with empty lines": b"\n\n" + transcript().replace(b"\n", b"\n\n"),
    "with a line that is not text": transcript() + GIBBERISH + transcript(),
    "with spaces in the JSON": transcript().replace(b'":', b'" : '),
    "of several chunks": transcript() * 40 + Random(1).randbytes(400_000).hex().encode(),
}


@pytest.mark.req("D-04")
@pytest.mark.parametrize("variant", VARIANTS)
def test_native_bytes_come_back_identical(tmp_path: Path, variant: str) -> None:
    data = VARIANTS[variant]
    source = tmp_path / "sessions" / "a.jsonl"
    source.parent.mkdir()
    source.write_bytes(data)
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        [result] = Importer(store, Catalogue(None)).run(list(iter_files(source)))
        name = ArtifactRef(result.report.raw or "")
        assert source.read_bytes() == data
    with closing(SqliteStore(tmp_path / "s.db")) as reopened:
        assert reopened.raw(name) == data
        tiered = TieredStore(reopened, SqliteStore(tmp_path / "backing.db"))
        tiered.set_retention({name: RetentionPolicy("replicate")})
        assert tiered.backing.raw(name) == data
        tiered.set_retention({name: None})
        tiered.evict(0)
        assert tiered.raw(name) == data
        tiered.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        assert tiered.raw(name) == data
        tiered.backing.close()
