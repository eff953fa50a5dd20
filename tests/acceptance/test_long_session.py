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
from harken.context.to_events.session import retell
from harken.core import events as ev
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from harken.views.viewer import SessionViewer
from tests.unit.formats.transcripts import Transcript, text, use

MESSAGES = 20_000
MOST_S = 3.0


def plain(transcript: Transcript, number: int, last: str) -> str:
    """Go on."""
    transcript.result(f"c{number}", "file " * 60)
    return transcript.answer(
        text(f"I look at {number}."), use(f"c{number + 1}", command=f"ls {number}")
    )


def rewound(transcript: Transcript, number: int, last: str) -> str:
    """Go back each hundredth time."""
    if number % 100 == 0:
        transcript.user("No, something else.", parent=last)
        return transcript.answer(text("As you like."), use(f"c{number + 1}"))
    plain(transcript, number, last)
    return last


def compacted(transcript: Transcript, number: int, last: str) -> str:
    """Compact each thousandth time."""
    if number % 1000 == 999:
        transcript.boundary(last, kept=[last])
        transcript.summary(f"So far {number}.")
    return plain(transcript, number, last)


@pytest.mark.full
@pytest.mark.parametrize("go_on", [plain, rewound, compacted], ids=lambda shape: shape.__name__)
def test_views_of_twenty_thousand_messages_take_seconds(
    go_on: Callable[[Transcript, int, str], str], tmp_path: Path
) -> None:
    transcript = Transcript()
    transcript.user("Begin.")
    last = transcript.answer(text("I begin."), use("c1"))
    for number in range(1, MESSAGES // 2):
        last = go_on(transcript, number, last)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number, record in enumerate(transcript.records):
        record["timestamp"] = f"{begin + timedelta(seconds=number):%Y-%m-%dT%H:%M:%S}.000Z"
    (tmp_path / "long.jsonl").write_bytes(transcript.data)
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
