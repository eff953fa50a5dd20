"""A long session is looked at quickly, however often it went back or was compacted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harken.capture.files.imported_sessions import list_imported_sessions
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.core import events as ev
from harken.index.catalogue import Catalogue
from harken.recording.from_commits.session import retell
from harken.store.memory import MemoryStore
from harken.views.viewer import SessionViewer
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

MESSAGES = 20_000
MOST_S = 3.0


def plain(made: Transcript, at: int, last: str) -> str:
    """Go on."""
    made.result(f"c{at}", "file " * 60)
    return made.answer(
        text_block(f"I look at {at}."), tool_use_block(f"c{at + 1}", command=f"ls {at}")
    )


def rewound(made: Transcript, at: int, last: str) -> str:
    """Go back each hundredth time."""
    if at % 100 == 0:
        made.user("No, something else.", parent=last)
        return made.answer(text_block("As you like."), tool_use_block(f"c{at + 1}"))
    plain(made, at, last)
    return last


def compacted(made: Transcript, at: int, last: str) -> str:
    """Compact each thousandth time."""
    if at % 1000 == 999:
        made.boundary(last, kept=[last])
        made.summary(f"So far {at}.")
    return plain(made, at, last)


@pytest.mark.full
@pytest.mark.parametrize("go_on", [plain, rewound, compacted], ids=lambda shape: shape.__name__)
def test_twenty_thousand_messages_are_viewed_in_seconds(
    go_on: Callable[[Transcript, int, str], str], tmp_path: Path
) -> None:
    made = Transcript()
    made.user("Begin.")
    last = made.answer(text_block("I begin."), tool_use_block("c1"))
    for at in range(1, MESSAGES // 2):
        last = go_on(made, at, last)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for at, record in enumerate(made.records):
        record["timestamp"] = f"{begin + timedelta(seconds=at):%Y-%m-%dT%H:%M:%S}.000Z"
    (tmp_path / "long.jsonl").write_bytes(made.data)
    store, catalogue = MemoryStore(), Catalogue(None)
    list(Importer(store, catalogue).run(list(iter_files(tmp_path))))
    (session,) = list_imported_sessions(catalogue)
    started = time.process_time()
    viewer = SessionViewer.of(retell(store, session.name, session.branch_tips), session.name)
    assert viewer.tree()[0].entries >= MESSAGES - 200
    viewer.timeline()
    requests = [event for event in viewer.events if isinstance(event, ev.LlmRequest)]
    assert viewer.context(requests[-1].message_id).verified
    took_s = time.process_time() - started
    print(f"{go_on.__name__}: {took_s:.2f} s for {len(viewer.events):,} events")
    assert took_s < MOST_S
