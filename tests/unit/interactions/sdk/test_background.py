"""What is told in the background is told in order, whole, and without end of memory."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from harken.interactions.sdk.background import BackgroundRecorder
from tests.otlp_kit import CallCollector


def test_work_is_done_in_the_order_in_which_it_came() -> None:
    done: list[int] = []
    with BackgroundRecorder(CallCollector()) as background:
        for number in range(100):
            background.submit(lambda number=number: done.append(number), 1)  # type: ignore[misc]
        assert background.flush()
    assert done == [*range(100)]


def test_when_too_much_waits_what_begins_is_left_out_and_what_is_due_is_not() -> None:
    gate, done = threading.Event(), []
    with BackgroundRecorder(CallCollector(), most_waiting_bytes=10) as background:
        assert background.submit(gate.wait, 20)  # one is always taken
        assert not background.submit(lambda: done.append("new"), 5)
        assert background.submit(lambda: done.append("due"), 5, is_due=True)
        gate.set()
        assert background.flush()
        assert background.submit(lambda: done.append("later"), 5)
    assert (done, background.dropped) == (["due", "later"], 1)


def test_after_the_end_nothing_is_taken() -> None:
    background = BackgroundRecorder(CallCollector())
    background.close()
    background.close()
    assert not background.submit(lambda: None, 0)


def test_flush_does_not_wait_for_ever() -> None:
    gate = threading.Event()
    with BackgroundRecorder(CallCollector()) as background:
        background.submit(gate.wait, 1)
        assert not background.flush(0.01)
        gate.set()


def test_a_program_that_ends_without_a_word_has_recorded_all(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from harken.interactions.sdk.background import BackgroundRecorder\n"
        "def write(): time.sleep(0.3); open(sys.argv[1], 'w').write('done')\n"
        "BackgroundRecorder(None).later(write, 1)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "told"], check=True, timeout=60)
    assert (tmp_path / "told").read_text() == "done"
