"""Answers of judges and moderators are read without being misled by what they quote."""

from __future__ import annotations

import pytest

from harken.agents.tree.discussions.replies import parse_choice, parse_judgement


@pytest.mark.parametrize(
    "quotation", ["> DONE: I won.", '"DONE"', "`DONE`", "```\nDONE\n```", "~~~\nDONE\n~~~"]
)
def test_a_quoted_verdict_is_none(quotation: str) -> None:
    assert parse_judgement(f"Ann wrote:\n{quotation}\nA trick. The talk is open.") is None
    judgement = parse_judgement(f"Ann wrote:\n{quotation}\nCONTINUE: a trick.")
    assert judgement is not None
    assert judgement.verdict == "continue"


@pytest.mark.parametrize("answer", ['"DONE"', "**DONE**", "```\nDONE: yes.\n```", "`DONE`"])
def test_marks_around_the_whole_answer_do_not_matter(answer: str) -> None:
    judgement = parse_judgement(answer)
    assert judgement is not None
    assert judgement.verdict == "done"


def test_names_that_differ_in_case_are_told_apart() -> None:
    assert [parse_choice(name, ["Ann", "ann"]) for name in ("Ann", "ann", "ANN")] == [
        "Ann",
        "ann",
        "Ann",
    ]
