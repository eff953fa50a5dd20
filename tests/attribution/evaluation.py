"""Compare the origins that the engine finds with the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harken.attribution.attribution import Attribution
from harken.attribution.line_origin import LineOrigin
from tests.attribution.history import History
from tests.attribution.project import PERSON, Line


@dataclass
class Score:
    """Counts of lines with text, and of blank ones."""

    agent_lines: int = 0
    right: int = 0
    uncertain: int = 0
    missed: int = 0
    wrong: list[str] = field(default_factory=list)
    person_lines: int = 0
    claimed: list[str] = field(default_factory=list)
    person_uncertain: int = 0
    blank_lines: int = 0
    blank_wrong: int = 0
    blanks: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.right / max(self.agent_lines, 1)

    def __str__(self) -> str:
        return (
            f"{self.agent_lines} agent lines: {100 * self.recall:.2f} % right, "
            f"{self.uncertain} uncertain, {self.missed} missed, {len(self.wrong)} wrong; "
            f"{self.person_lines} person lines: {len(self.claimed)} claimed, "
            f"{self.person_uncertain} uncertain; {self.blank_lines} blank: {self.blank_wrong} wrong"
        )


def add_line(
    score: Score, lines: Sequence[Line], index: int, origin: LineOrigin, place: str
) -> None:
    """Count one line."""
    truth = lines[index].writers
    answer = origin.edit.call_id if origin.edit is not None and origin.is_agent else PERSON
    where = f"{place}: {lines[index].text!r}: {answer}, not {sorted(truth)}"
    if not lines[index].text.strip():
        score.blank_lines += 1
        if answer not in truth | neighbors(lines, index):
            score.blank_wrong += 1
            score.blanks.append(where)
    elif truth == {PERSON}:
        score.person_lines += 1
        score.person_uncertain += origin.confidence == "uncertain"
        if origin.is_agent:
            score.claimed.append(where)
    else:
        score.agent_lines += 1
        score.right += answer in truth
        if answer not in truth:
            if origin.confidence == "uncertain":
                score.uncertain += 1
            elif not origin.is_agent:
                score.missed += 1
                score.misses.append(where)
            else:
                score.wrong.append(where)


def neighbors(lines: Sequence[Line], index: int) -> frozenset[str]:
    """Return the writers of the nearest lines with text: a blank line may belong to either."""
    writers: frozenset[str] = frozenset()
    for step in (-1, 1):
        i = index
        while 0 <= i < len(lines) and not lines[i].text.strip():
            i += step
        writers |= lines[i].writers if 0 <= i < len(lines) else frozenset()
    return writers


def ask_for_files(history: History, attribution: Attribution) -> Score:
    """Ask for all lines of each file of the repository."""
    score = Score()
    for path, lines in sorted(history.committed.items()):
        origins = attribution.origins(path) if lines else []
        assert len(origins) == len(lines), path
        for index, origin in enumerate(origins):
            add_line(score, lines, index, origin, f"{path}:{index + 1}")
    return score


def ask_for_single_lines(history: History, attribution: Attribution, step: int) -> Score:
    """Ask for some lines of the repository, each alone."""
    score = Score()
    number = 0
    for path, lines in sorted(history.committed.items()):
        for index in range(len(lines)):
            number += 1
            if number % step == 0:
                (origin,) = attribution.origins(path, [(index + 1, index + 1)])
                add_line(score, lines, index, origin, f"{path}:{index + 1}")
    return score
