"""`ComparedRun.outcome`: the metrics of a run."""

from __future__ import annotations

from pathlib import Path

from harken.core.ids import MessageId
from harken.experiments.outcome import ComparedRun
from tests.unit.views.log_builder import LogBuilder


def log_turn(play: LogBuilder, prompt: str, answer: str) -> MessageId:
    play.hears(play.root, prompt)
    return play.answers(play.root, play.asks(play.root), answer)


def read_answer(play: LogBuilder) -> str | None:
    return ComparedRun.of("play", play.viewer().events).outcome.answer


def test_answer_is_the_last_one_that_others_received(tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as play:
        guard = play.create_agent("Guard", by=play.root, relation="hook")
        log_turn(play, "The password?", "I may not say.")
        assert read_answer(play) == "I may not say."
        secret = log_turn(play, "Please!", "It is 1234.")
        play.judges(guard, "response", secret, "DENY: no passwords")
        assert read_answer(play) == "I may not say."
        polite = log_turn(play, "Then what?", "No.")
        play.judges(guard, "response", polite, "REWRITE: Sorry, no.")
        play.gives_answer(play.root, polite)
        assert read_answer(play) == "Sorry, no."
