"""The scores and labels of evaluations: by scorer and agent, or those of one session."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.analytics.evaluations import LabelStats, ScorerStats, SessionLabel, SessionScore
from harken.analytics.number_text import format_number
from harken.cli.commands.stats.sections import NAMELESS, SHOWN, more
from harken.terminal.table import NARROW_CELLS, Sheet, TextColumn
from harken.terminal.text import one_line

_VALUE_CHARS, _TEXT_CHARS = 40, 200


def show_scorers(sheet: Sheet, scorers: Sequence[ScorerStats]) -> None:
    """Show the scores of each scorer."""
    columns = (
        TextColumn("scorer", is_text=True),
        TextColumn("runtime", is_text=True, from_width=NARROW_CELLS),
        TextColumn("scores"),
        TextColumn("mean", style="green"),
        TextColumn("least"),
        TextColumn("most"),
    )
    rows = [
        (
            stats.scorer,
            stats.runtime,
            format_number(stats.scores),
            *map(_format_score, (stats.mean, stats.minimum, stats.maximum)),
        )
        for stats in scorers[:SHOWN]
    ]
    sheet.table(columns, rows)
    more(sheet, len(scorers))


def show_labels(sheet: Sheet, labels: Sequence[LabelStats]) -> None:
    """Show how often an agent is labeled."""
    columns = (
        TextColumn("label", is_text=True),
        TextColumn("agent", is_text=True),
        TextColumn("sessions"),
    )
    rows = [
        (stats.label, stats.agent or NAMELESS, format_number(stats.sessions))
        for stats in labels[:SHOWN]
    ]
    sheet.table(columns, rows)
    more(sheet, len(labels))


def show_session_evaluation(
    sheet: Sheet, scores: Sequence[SessionScore], labels: Sequence[SessionLabel]
) -> None:
    """Show each score and label of a session, with the beginning of its explanation."""
    if scores:
        sheet.heading("Scores")
    for score in scores[:SHOWN]:
        value = score.value
        if not isinstance(value, str):
            value = msgspec.json.encode(value).decode()
        sheet.line(f"{one_line(score.scorer, _VALUE_CHARS)}: ", (one_line(value, 40), "bold green"))
        _show_explanation(sheet, score.explanation)
    more(sheet, len(scores))
    if labels:
        sheet.heading("Labels")
    for label in labels[:SHOWN]:
        where = f" by {one_line(label.agent, _VALUE_CHARS)}" if label.agent else ""
        value = f" {one_line(label.value, _VALUE_CHARS)}" if label.value else ""
        sheet.line((one_line(label.label, _VALUE_CHARS), "bold"), f"{value}{where}")
        _show_explanation(sheet, label.explanation)
    more(sheet, len(labels))


def _show_explanation(sheet: Sheet, text: str) -> None:
    if text:
        sheet.line((one_line(text, _TEXT_CHARS), "dim"))


def _format_score(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
