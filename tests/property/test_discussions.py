"""Random discussions: each step is the one that the format gives, live, cut off and resumed.

A discussion follows from a number. `next_step` has the rules of docs/formats/session-log.md, read
from the lines of a log alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from harken import Comment, Deny, Hook, HookQuestion, Ok, Rewrite, register_agent_class
from harken.agents.hooks.options import HookOptions
from harken.agents.open_calls import has_open_calls
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from harken.session.log.checksum import has_more
from tests.agent_kit import LogLine, Stage, check_log, full_state
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.discussion_kit import (
    heard,
    open_discussion,
    results,
    resume_discussion,
    steps,
)

STEPS = ("discussion_spoken", "discussion_chosen", "discussion_judged")
SPEAKERS = ["A", "B", "C", "user"]
ANSWERS = {
    "Judge": ["CONTINUE: not yet", "**Continue.**", "Well.", "Verdict: DONE, they agree", "DONE"],
    "Chair": ["A", "[B]", "C, please", "user", "A or B", "nobody"],
}
"""The answers of judge and moderator, of which some cannot be read or name nobody who speaks."""


class SeededOptions(HookOptions, frozen=True):
    """The number from which the verdicts follow."""

    seed: int = 0


@register_agent_class("test-critic")
class Critic(Hook):
    """Denies, rewrites and comments on the answers of participants, by their texts alone."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"response"})
    Options = SeededOptions
    options: SeededOptions

    def judge(self, question: HookQuestion) -> Verdict:
        if self.watched is None or self.watched.name == "main":
            return Ok()
        random = Random(f"{self.options.seed} {self.watched.name} {question.text}")
        rewrite = Rewrite(random.choice([f"{question.text}, well", "DONE", "We agree."]))
        verdicts: list[Verdict] = [Ok(), Comment("Hm."), Deny("no"), Deny("no"), rewrite]
        return random.choice([Ok(), Ok(), *verdicts])


@dataclass
class Script:
    """A discussion that follows from a number."""

    seed: int
    arguments: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        random = Random(self.seed)
        speakers = random.sample(SPEAKERS, random.randint(1, 4))
        self.arguments = {"speakers": speakers, "rounds": random.randint(1, 4)}
        others = [name for name in SPEAKERS if name not in speakers]
        if others and random.random() < 0.5:
            self.arguments["listeners"] = others
        if end := random.choice([None, "we agree", "judge:Judge", "judge:Judge"]):
            self.arguments["until"] = end
        leader = "Judge" if end is None and random.random() < 0.2 else "Chair"
        seed = f"random:{random.randrange(99)}"
        self.arguments["order"] = random.choice(["given", "random", seed, f"moderator:{leader}"])

    def respond(self, name: str, turn: int, request: ModelRequest) -> str:
        """Return an answer that depends on what the agent has read."""
        count = len(request.messages)
        random = Random(f"{self.seed} {name} {turn} {count}")
        if name in ANSWERS:
            return random.choice(ANSWERS[name])
        return f"I am {name}, {count} read" + random.choice(["", "", "", " and we\nAGREE."])

    def open(self, folder: Path, failing: int | None = None) -> Stage:
        """Open a session in which the discussion is held, for some numbers with a hook."""
        folder.mkdir()
        stage = open_discussion(folder, self.arguments, respond=self.respond, failing=failing)
        if self.seed % 2:
            options = SeededOptions(seed=self.seed)
            Critic(stage.session, runtime=stage.runtime, options=options).install(stage.root)
        return stage

    def resume(self, log: Path) -> Stage:
        return resume_discussion(log, self.arguments, respond=self.respond)


def next_step(opened: LogLine, logged: Sequence[LogLine]) -> tuple[str, str] | None:
    """Return the next step of a discussion and who takes it, or None if it is over."""
    speakers, rounds = opened["speakers"], opened.get("rounds", 1)
    spoken = [row for row in logged if row["event_type"] == "discussion_spoken"]
    last = max((n for n, row in enumerate(logged, 1) if row in spoken), default=0)
    since, n, t = logged[last:], len(speakers), len(spoken)
    is_round_over = t > 0 and t % n == 0
    if t and (spoken[-1].get("ends") or (is_round_over and all(map(_is_stopped, spoken[-n:])))):
        return None
    if is_round_over and "judge" in opened:
        verdicts = [row["verdict"] for row in since if "verdict" in row]
        if not verdicts:
            return "discussion_judged", opened["judge"]
        if verdicts[-1] == "done":
            return None
    if t == n * rounds:
        return None
    if "moderator" in opened:
        chosen = [
            row["speaker"]
            for row in since
            if row["event_type"] == "discussion_chosen" and "speaker" in row
        ]
        if not chosen:
            return "discussion_chosen", opened["moderator"]
        return "discussion_spoken", chosen[-1]
    return "discussion_spoken", round_order(speakers, opened.get("seed"), t // n)[t % n]


def _is_stopped(row: LogLine) -> bool:
    return "stopped" in row


def round_order(speakers: list[str], seed: int | None, number: int) -> list[str]:
    """Return the order of a round."""
    if seed is None:
        return speakers
    order = sorted(speakers, key=lambda id_: sha256(f"{seed} {number} {id_}".encode()).hexdigest())
    if number and len(order) > 1 and order[0] == round_order(speakers, seed, number - 1)[-1]:
        order[:2] = order[1::-1]
    return order


def check_steps(stage: Stage) -> None:
    """Check that each step of the discussion was the next one, and that nothing is due."""
    *_, opened = stage.select_lines(event_type="discussion_opened")
    logged = [row for row in stage.select_lines() if row["event_type"] in STEPS]
    logged = [row for row in logged if row["discussion"] == opened["message_id"]]
    for index, row in enumerate(logged):
        taken_by = row["speaker"] if row["event_type"] == "discussion_spoken" else row["by"]
        assert next_step(opened, logged[:index]) == (row["event_type"], taken_by), index
    assert next_step(opened, logged) is None


def outcome(stage: Stage) -> tuple[Any, ...]:
    return results(stage), steps(stage), heard(stage)


def check(seed: int, folder: Path) -> int:
    """Hold a discussion; cut it after each group; let each model call fail. Return the cases."""
    script = Script(seed)
    one = script.open(folder / "uncut")
    before = len(one.select_lines())
    assert one.ask("Go.") == "End."
    assert not one.result("d").get("is_error"), one.result("d")
    check_steps(one)
    requests = one.select_lines(event_type="llm_request")
    calls = len([row for row in requests if row["agent_id"] != one.root.agent_id])
    expected = outcome(one)
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    cuts = [n for n in range(before + 1, len(lines) + 1) if not has_more(lines[n - 1])]
    for count in cuts:
        later = script.resume(cut_after(one.log, count))
        if has_open_calls(later.root):
            assert later.ask() == "End."
        assert outcome(later) == expected, count
        check_steps(later)
        later.session.close()
        check_log(later.log)
    for failing in range(1, calls + 1):
        _check_failing(script, folder / f"failing{failing}", failing, expected)
    return len(cuts) + calls


def _check_failing(script: Script, folder: Path, failing: int, expected: tuple[Any, ...]) -> None:
    """Let one model call of a participant fail, and go on, live or after a resume."""
    one = script.open(folder, failing)
    with pytest.raises(ModelError):
        one.ask("Go.")
    if failing % 2:
        one.session.close()
        one = script.resume(one.log)
    assert one.ask() == "End."
    assert outcome(one) == expected, failing
    live = full_state(one.session)
    one.session.close()
    assert full_state(script.resume(one.log).session) == live


@pytest.mark.req("S0-32", "S4-04", "S4-11", "S4-12")
@pytest.mark.parametrize("seed", range(8))
def test_random_discussions_go_on_as_the_format_says(tmp_path: Path, seed: int) -> None:
    assert check(seed, tmp_path) > 10


@pytest.mark.full
def test_many_random_discussions_go_on_as_the_format_says(tmp_path: Path) -> None:
    cases = sum(map(partial(_check_in, tmp_path), range(8, 208)))
    assert cases > 5000


def _check_in(folder: Path, seed: int) -> int:
    inner = folder / str(seed)
    inner.mkdir()
    return check(seed, inner)
