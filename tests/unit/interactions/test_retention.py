"""Retention removes complete sessions."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.messages import Message
from harken.errors import ConfigError
from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
from harken.store.base import RetentionPolicy
from harken.store.memory import MemoryStore
from tests.unit.interactions.kit import HI, KIND, logger


@pytest.mark.req("S3-26")
def test_old_sessions_are_removed_completely_unless_pinned(tmp_path: Path) -> None:
    store = MemoryStore()
    with logger(tmp_path) as log:
        for name in ("old", "pinned", "labelled", "new"):
            log.start_thread(name)
            log.end_thread(name)
        log.start_thread("written")
        now = time.time()
        sessions_made = {}
        for name in ("old", "pinned", "labelled"):
            draft = CommitDraft(
                messages=[Message("user", name)],
                created_at="2026-01-31T12:00:00Z",
                origin=CommitOrigin(session_id=name),
                labels=("mine",) if name == "labelled" else (),
            )
            sessions_made[name] = checkpoint(store, draft)
            with (tmp_path / "sessions" / f"{name}.jsonl").open("ab") as file:
                file.write(sessions_made[name].encode() + b"\n")
        store.set_retention({sessions_made["pinned"]: RetentionPolicy("pin")})
        for name in ("old", "pinned", "labelled", "written"):
            path = tmp_path / "sessions" / f"{name}.jsonl"
            os.utime(path, (now - 8 * 86400, now - 8 * 86400))
        config = InteractionLoggingConfig(retention_days=7)
        with InteractionLogger(config, folder=tmp_path, store=store) as second_log:
            assert second_log.dropped == ["old"]
        remaining = {path.stem for path in (tmp_path / "sessions").glob("*.jsonl")}
        assert remaining == {"pinned", "labelled", "new", "written"}
    assert set(store.retention()) == {sessions_made["old"], sessions_made["pinned"]}
    assert store.retention()[sessions_made["old"]].policy == "ephemeral"
    with pytest.raises(ConfigError):
        InteractionLoggingConfig(retention_days=0)


def test_compressed_session_is_read_continued_and_removed(
    tmp_path: Path,
) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        log.log_context_state(thread, [HI], KIND.MESSAGE_ADDED)
        rows = log.get_thread(thread)
    path = tmp_path / "sessions" / "cafe.jsonl"
    path.with_name("cafe.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    with logger(tmp_path) as log:
        assert log.get_thread(thread) == rows
        assert log.get_message(rows[0].message_id or "") is not None
        assert [thread_info.thread_id for thread_info in log.list_threads()] == [thread]
        assert not path.exists()
        log.log_context_state(thread, [HI, "Bye"], KIND.MESSAGE_ADDED)
        assert len(log.get_thread(thread)) == 3
    path.with_name("cafe.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    os.utime(path.with_name("cafe.jsonl.gz"), (0, 0))
    with logger(tmp_path, retention_days=1) as log:
        assert log.dropped == ["cafe"]
    assert list((tmp_path / "sessions").iterdir()) == []
