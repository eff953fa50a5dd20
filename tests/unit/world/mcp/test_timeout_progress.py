"""Progress: a person hears of long calls now and then."""

from __future__ import annotations

from harken.world.mcp.timeout import Progress, ProgressReporter


def test_a_long_call_is_told_of_now_and_then_and_a_short_one_never() -> None:
    told: list[str] = []
    now = [0.0]
    tell = ProgressReporter(told.append, every_s=10, clock=lambda: now[0])
    for second in range(35):
        now[0] = float(second)
        tell(Progress(tool="mcp__a__long", call="msg_1", value=second, total=40))
        tell(Progress(tool="mcp__a__short", call=f"msg_2.{second}", value=1))
    assert told == [f"mcp__a__long: {done} of 40" for done in (10, 20, 30)]


def test_it_forgets_calls_of_which_nobody_says_that_they_are_over() -> None:
    tell = ProgressReporter(lambda _: None)
    for number in range(5000):
        tell(Progress(tool="x", call=str(number), value=1))
    assert len(tell._since) <= 1000


def test_what_is_not_known_is_not_said() -> None:
    assert str(Progress(tool="x", call="c", value=2.5)) == "x: 2.5"
    assert str(Progress(tool="x", call="c", value=1, total=2, message="half")) == "x: 1 of 2 (half)"
