"""Rollouts that Codex has archived or compressed are found and read.

What happened: Codex moves archived sessions to `archived_sessions` and compresses those that rest
for a week; none of them was imported. Why: one folder and one file name were known. Now: both
folders are looked at, and a compressed file is unpacked while it is read, in bounded memory.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from harken.capture.files.importer import Importer
from harken.capture.files.report import Report
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.formats.runtimes import compressed
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import encode_lines

ID = "019f17a5-0000-7000-8000-00000000000{}"
NAME = "rollout-2026-01-31T12-00-00-{}.jsonl"


def rollout(number: int, *said: str) -> bytes:
    head = {"id": ID.format(number), "cwd": "/w", "cli_version": "0.160.0"}
    records = [{"timestamp": "2026-01-31T12:00:00Z", "type": "session_meta", "payload": head}]
    for at, words in enumerate(said):
        role, kind = ("assistant", "output_text") if at % 2 else ("user", "input_text")
        payload = {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}
        time = f"2026-01-31T12:{at // 60:02}:{at % 60:02}Z"
        records.append({"timestamp": time, "type": "response_item", "payload": payload})
    return encode_lines(records)


def imported(path: Path) -> tuple[Report, MemoryStore]:
    store = MemoryStore()
    (done,) = Importer(store, Catalogue(None)).run(list(iter_files(path)))
    assert store.raw(ArtifactRef(done.report.raw or "")) == path.read_bytes()
    return done.report, store


def said(store: MemoryStore, report: Report) -> list[str]:
    messages = materialize(store, CommitId(report.tips[0].ctx)).messages
    return [text_of(one.content) for one in messages]


def test_archived_and_compressed_sessions_are_found_and_come_back(cli: Cli, tmp_path: Path) -> None:
    codex = tmp_path / "codex"
    plain, archived, packed = (
        codex / "sessions/2026/01/31" / NAME.format(ID.format(1)),
        codex / "archived_sessions" / NAME.format(ID.format(2)),
        codex / "sessions/2026/01/31" / (NAME.format(ID.format(3)) + ".zst"),
    )
    for number, path in enumerate((plain, archived, packed), 1):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = rollout(number, f"Question {number}", f"Answer {number}")
        path.write_bytes(zstandard.compress(data) if path is packed else data)
    cli.environ = {"CODEX_HOME": str(codex), "CLAUDE_CONFIG_DIR": str(tmp_path / "none")}
    ran = cli.ok("import")
    listed = cli.ok("sessions", "--json", "--runtime", "codex").json
    assert {one["session"] for one in listed} == {f"codex:{ID.format(n)}" for n in (1, 2, 3)}, ran
    assert "Answer 3" in cli.ok("view", f"codex:{ID.format(3)}", "timeline").out
    cli.ok("watch", "--once", "--runtime", "codex")
    other = codex / "archived_sessions" / (NAME.format(ID.format(4)) + ".zst")
    other.write_bytes(zstandard.compress(rollout(4, "Late?", "Yes.")))
    assert "Late?" in cli.ok("watch", "--once", "--runtime", "codex").out


def test_a_compressed_copy_of_a_session_adds_nothing(tmp_path: Path) -> None:
    store, catalogue = MemoryStore(), Catalogue(None)
    data = rollout(1, "Tea?", "No.")
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(data))
    first, second = Importer(store, catalogue).run(list(iter_files(tmp_path)))
    assert (first.new, second.new) == (1, 0)
    assert first.report.tips == second.report.tips


@pytest.mark.parametrize("size_mb", [0, 20])
def test_what_stands_before_the_damage_is_read(size_mb: int, tmp_path: Path) -> None:
    noise = [os.urandom(512 * 1024).hex() for _ in range(size_mb)]
    data = rollout(1, "Tea?", "No.", *noise, "Sure?", "Yes.")
    path = tmp_path / "a.jsonl.zst"
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    begun = packer.compress(data) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path.write_bytes(begun[: len(begun) * 3 // 4] if size_mb else begun)
    report, store = imported(path)
    assert any("it is damaged" in note for note in report.notes)
    found = said(store, report)
    assert found[:2] == ["Tea?", "No."]
    assert ("Yes." in found) == (size_mb == 0)


def test_damage_from_the_first_block_on_leaves_a_file_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / (NAME.format("x") + ".zst")
    path.write_bytes(zstandard.compress(rollout(1, "Tea?"))[:-9])
    report, _ = imported(path)
    assert report.format is None


def test_frames_one_after_another_are_one_file(tmp_path: Path) -> None:
    data = rollout(1, "Tea?", "No.", "Sure?", "Yes.")
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(data[:300]) + zstandard.compress(data[300:]))
    report, store = imported(path)
    assert said(store, report) == ["Tea?", "No.", "Sure?", "Yes."]


BOMB = """
import sys
from pathlib import Path
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files as files_in
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
(done,) = Importer(MemoryStore(), Catalogue(None)).run(list(files_in(Path(sys.argv[1]))))
print(done.report.reason, done.report.raw)
"""


def test_a_bomb_is_refused_in_little_memory_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    packer = zstandard.ZstdCompressor().compressobj()
    with path.open("wb") as file:
        file.write(packer.compress(rollout(1, "Tea?", "No.")))
        for _ in range(2048):
            file.write(packer.compress(b" " * (1 << 20)))
        file.write(packer.flush())
    assert path.stat().st_size < 1 << 20
    limit = 600 << 20
    ran = subprocess.run(
        [sys.executable, "-c", BOMB, path],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert "bytes unpack to more than" in ran.stdout
    assert "art-" in ran.stdout


def test_a_frame_that_asks_for_too_much_memory_is_damaged(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "rollout-a.jsonl.zst"
    path.write_bytes(packer.compress(rollout(1, "Tea?", "No.")) + packer.flush())
    assert compressed.read_beginning(path, 100) == b""
