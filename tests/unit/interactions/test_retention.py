"""Retention: old sessions go as wholes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harken.context.checkpoint import Draft, Origin, checkpoint
from harken.core.messages import Message
from harken.errors import ConfigError
from harken.interactions.config import InteractionLoggingConfig
from harken.interactions.logger import InteractionLogger
from harken.store.base import Keeping
from harken.store.memory import MemoryStore
from tests.unit.interactions.kit import logger


@pytest.mark.req("S3-26")
def test_old_sessions_go_as_wholes_unless_they_are_pinned(tmp_path: Path) -> None:
    store = MemoryStore()
    with logger(tmp_path) as log:
        for name in ("old", "pinned", "labelled", "new"):
            log.start_thread(name)
            log.end_thread(name)
        log.start_thread("written")
        now = time.time()
        made = {}
        for name in ("old", "pinned", "labelled"):
            draft = Draft(
                messages=[Message("user", name)],
                created_at="2026-01-31T12:00:00Z",
                origin=Origin(session_id=name),
                labels=("mine",) if name == "labelled" else (),
            )
            made[name] = checkpoint(store, draft)
            with (tmp_path / "sessions" / f"{name}.jsonl").open("ab") as file:
                file.write(made[name].encode() + b"\n")
        store.keep({made["pinned"]: Keeping("pin")})
        for name in ("old", "pinned", "labelled", "written"):
            path = tmp_path / "sessions" / f"{name}.jsonl"
            os.utime(path, (now - 8 * 86400, now - 8 * 86400))
        config = InteractionLoggingConfig(retention_days=7)
        with InteractionLogger(config, folder=tmp_path, store=store) as other:
            assert other.dropped == ["old"]
        left = {path.stem for path in (tmp_path / "sessions").glob("*.jsonl")}
        assert left == {"pinned", "labelled", "new", "written"}
    assert set(store.kept()) == {made["old"], made["pinned"]}
    assert store.kept()[made["old"]].policy == "ephemeral"
    with pytest.raises(ConfigError):
        InteractionLoggingConfig(retention_days=0)
