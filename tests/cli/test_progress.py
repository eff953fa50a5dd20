"""The bar for long work: late, on standard error only, and gone in the end."""

from __future__ import annotations

import io

import pytest

from harken.terminal.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def work(stream: io.StringIO, seconds: list[float], total: int | None = 10) -> str:
    """Tell once at each of these moments; return what the terminal was sent."""
    times = iter([0.0, *seconds])
    with progress("Copying", stream=stream, clock=lambda: next(times, 99.0)) as tell:
        for done, _ in enumerate(seconds):
            tell(done, total)
    return stream.getvalue()


def test_short_work_has_no_bar() -> None:
    assert work(Terminal(), [0.1, 0.5, 0.99]) == ""


def test_what_takes_longer_than_a_second_has_one_that_goes_away() -> None:
    shown = work(Terminal(), [0.1, 0.9, 1.1, 1.2])
    assert "Copying" in shown
    assert "3/10" in shown
    assert shown.endswith(("\x1b[2K", "\x1b[1A\x1b[2K"))


def test_how_much_there_is_need_not_be_known() -> None:
    assert "2/?" in work(Terminal(), [0.1, 1.1, 1.2], None)


def test_where_nobody_watches_nothing_is_printed() -> None:
    assert work(io.StringIO(), [0.1, 5, 9]) == ""


def test_an_interrupted_work_takes_its_bar_along() -> None:
    stream = Terminal()
    times = iter([0.0, 2.0])
    with (
        pytest.raises(KeyboardInterrupt),
        progress("Copying", stream=stream, clock=lambda: next(times)) as tell,
    ):
        tell(1, 2)
        raise KeyboardInterrupt
    tell(2, 2)
    assert stream.getvalue().endswith("\x1b[2K")
