"""Printed: the steps of a session as text, or as lines of JSON, for pipes and programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from harken.cli.replaying.page import context_lines, facts_line, step_lines, title_line
from harken.errors import HarkenError
from harken.views.stepping import Stepping


def as_lines(steps: Stepping, numbers: Iterable[int], *, whole: bool) -> Iterator[str]:
    """Yield the lines of these steps; `whole`: with all that each saw."""
    for at, number in enumerate(numbers):
        step = steps.step(number)
        if at:
            yield ""
        yield "── " + _text(title_line(step, len(steps), len(steps.of(step.agent_id))))
        yield _text(facts_line(step))
        for line in step_lines(steps, number, short=None):
            yield _text(line)
        if whole:
            yield ""
            for line in context_lines(steps, number):
                yield _text(line)


def as_rows(steps: Stepping, numbers: Iterable[int], *, whole: bool) -> Iterator[dict[str, Any]]:
    """Yield these steps as JSON; `whole`: with all that each saw, and the tools in full."""
    for number in numbers:
        row = steps.step(number).as_json()
        try:
            row["changes"] = steps.changes(number).as_json()
            if whole:
                row["context"] = [one.as_json() for one in steps.context(number)]
                row["verified"] = steps.verified(number)
                row["tools"] = steps.tools(number)
        except HarkenError as error:
            row["cannot"] = str(error)
        yield {**row, "outcome": steps.outcome(number).as_json()}


def _text(line: list[tuple[str, str]]) -> str:
    return "".join(text for _, text in line).rstrip()
