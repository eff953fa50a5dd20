"""Background tasks run in order, completely, and with bounded memory."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from harken.interactions.sdk.background import BackgroundRecorder
from tests.otlp_kit import CallCollector


def test_tasks_run_in_order() -> None:
    order: list[int] = []
    with BackgroundRecorder(CallCollector()) as background:
        for number in range(100):
            background.submit(lambda number=number: order.append(number), 1)  # type: ignore[misc]
        assert background.flush()
    assert order == [*range(100)]


def test_full_queue_drops_starts_but_not_required_tasks() -> None:
    gate, order = threading.Event(), []
    with BackgroundRecorder(CallCollector(), most_waiting_bytes=10) as background:
        assert background.submit(gate.wait, 20)  # one task is always accepted
        assert not background.submit(lambda: order.append("new"), 5)
        assert background.submit(lambda: order.append("due"), 5, is_due=True)
        gate.set()
        assert background.flush()
        assert background.submit(lambda: order.append("later"), 5)
    assert (order, background.dropped) == (["due", "later"], 1)


def test_closed_worker_refuses_tasks() -> None:
    background = BackgroundRecorder(CallCollector())
    background.close()
    background.close()
    assert not background.submit(lambda: None, 0)


def test_flush_has_a_timeout() -> None:
    gate = threading.Event()
    with BackgroundRecorder(CallCollector()) as background:
        background.submit(gate.wait, 1)
        assert not background.flush(0.01)
        gate.set()


def test_exit_without_close_records_everything(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from harken.interactions.sdk.background import BackgroundRecorder\n"
        "def write(): time.sleep(0.3); open(sys.argv[1], 'w').write('done')\n"
        "BackgroundRecorder(None).submit(write, 1)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "told"], check=True, timeout=60)
    assert (tmp_path / "told").read_text() == "done"
