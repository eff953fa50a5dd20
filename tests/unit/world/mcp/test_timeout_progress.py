"""Progress reports of long calls."""

from __future__ import annotations

from harken.world.mcp.timeout import Progress, ProgressReporter


def test_long_call_is_reported_periodically_and_a_short_one_never() -> None:
    notices: list[str] = []
    now = [0.0]
    tell = ProgressReporter(notices.append, every_s=10, clock=lambda: now[0])
    for second in range(35):
        now[0] = float(second)
        tell(Progress(tool="mcp__a__long", call="msg_1", value=second, total=40))
        tell(Progress(tool="mcp__a__short", call=f"msg_2.{second}", value=1))
    assert notices == [f"mcp__a__long: {result} of 40" for result in (10, 20, 30)]


def test_calls_without_an_end_notification_are_forgotten() -> None:
    tell = ProgressReporter(lambda _: None)
    for number in range(5000):
        tell(Progress(tool="x", call=str(number), value=1))
    assert len(tell._since) <= 1000


def test_unknown_progress_values_are_omitted() -> None:
    assert str(Progress(tool="x", call="c", value=2.5)) == "x: 2.5"
    assert str(Progress(tool="x", call="c", value=1, total=2, message="half")) == "x: 1 of 2 (half)"
