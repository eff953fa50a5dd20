"""`harken compare A B`: the first difference of sessions, and the differences of their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.experiments.compare import Divergence, GroupComparison, MetricSpread, RunComparison
    from harken.experiments.outcome import ComparedRun

_TEXT = 400
"""The maximum characters of a message."""
_PLACES = 10
_HEAD = 28
"""The maximum width of a column head."""
_WITH = "--with"


class _WithSeveral(click.Command):
    """A command with an option `--with` that takes all words up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write `--with A B` as `--with A --with B`, which click understands."""
        return super().parse_args(ctx, list(_spell_out(args)))


def _spell_out(args: Iterable[str]) -> Iterator[str]:
    is_with = False
    for word in args:
        if word.startswith("-"):
            is_with = word == _WITH
            if is_with:
                continue
        if is_with:
            yield _WITH
        yield word


@click.command(cls=_WithSeveral)
@click.argument("sessions", type=SESSION, nargs=-1, required=True)
@click.option(
    _WITH,
    "others",
    metavar="SESSION...",
    multiple=True,
    help="Compare the sessions before --with, as a group, with these.",
)
@json_option
@home_option
def command(home: Home, sessions: Sequence[str], others: Sequence[str], as_json: bool) -> int:
    """Compare SESSIONS: the first with each other one, or two groups, separated by --with.

    A rerun is compared with its original from the model call at which it starts. `NAME*` means all
    sessions whose ids start with NAME.
    """
    from harken.experiments.compare import compare, compare_groups

    names = [_expand_patterns(home, group) for group in (sessions, others)]
    before, after = names if others else (names[0][:1], names[0][1:])
    if not before or not after:
        raise click.UsageError("name two sessions, or two groups: A B --with C D")
    left, right = ([_run(home, name) for name in side] for side in (before, after))
    if len(left) == len(right) == 1:
        pair = compare(left[0], right[0])
        print_json(pair.as_json()) if as_json else _show_pair(pair)
    else:
        groups = compare_groups(left, right)
        print_json(groups.as_json()) if as_json else _show_groups(groups)
    return 0


def _expand_patterns(home: Home, patterns: Iterable[str]) -> list[str]:
    """Return session names with each `NAME*` expanded to all sessions with this prefix."""
    expanded: list[str] = []
    for pattern in patterns:
        if pattern.endswith("*") and len(pattern) > 1:
            names = NameResolver(home).session_names()
            expanded += sorted(name for name in names if name.startswith(pattern[:-1])) or [pattern]
        else:
            expanded.append(pattern)
    return expanded


def _run(home: Home, ref: str) -> ComparedRun:
    from harken.cli.commands.view.sources import open_viewer
    from harken.experiments.outcome import ComparedRun

    viewer = open_viewer(home, ref)
    name = viewer.path.stem if viewer.path.suffix == ".jsonl" else viewer.path.name
    return ComparedRun.of(name, viewer.events, resolver=viewer.resolver)


def _show_pair(pair: RunComparison) -> None:
    from harken.experiments.compare import metric_values

    if pair.same:
        print_text("The sessions do not diverge: inputs and answers of every agent are equal.")
    for parting in pair.partings:
        _show_parting(parting, pair.before, pair.after)
    for only, where in ((pair.only_before, pair.before), (pair.only_after, pair.after)):
        if only:
            print_text(f"Only in {where}: {one_line(', '.join(only))}")
    before, after = metric_values(pair.outcome_before), metric_values(pair.outcome_after)
    rows = [[_format_name(name), _number(before[name]), _number(after[name])] for name in before]
    tools = {**pair.outcome_before.tools, **pair.outcome_after.tools}
    rows += [
        [f"  {one_line(name, 40)}", *(str(o.tools.get(name, 0)) for o in _outcomes(pair))]
        for name in sorted(tools)
    ]
    _table(["", _head(pair.before), _head(pair.after)], rows)
    for name, outcome in zip((pair.before, pair.after), _outcomes(pair), strict=True):
        print_text(f"{name}: {_format_answer(outcome.answer)}")


def _format_answer(answer: str | None) -> str:
    return f"answer: {one_line(answer, _TEXT)}" if answer else "no answer"


def _outcomes(pair: RunComparison) -> Sequence[Any]:
    return pair.outcome_before, pair.outcome_after


def _show_parting(parting: Divergence, before: str, after: str) -> None:
    print_text(
        f"{one_line(parting.agent, 40)}: they diverge after "
        f"{format_count(parting.position, 'message')}"
    )
    for name, message in ((before, parting.before), (after, parting.after)):
        event_text = (
            "(end of the conversation)" if message is None else f"{message.heading}: {message.text}"
        )
        print_text(f"  {name}: {one_line(event_text, _TEXT)}")
    if parting.answer is None:
        print_text("  the answers after that are equal")
    elif (parting.answer_before, parting.answer_after) != (
        parting.before and parting.before.text,
        parting.after and parting.after.text,
    ):
        print_text(f"  the first different answer after that is number {parting.answer}:")
        for name, text in ((before, parting.answer_before), (after, parting.answer_after)):
            print_text(f"    {name}: {one_line(text or 'no answer', _TEXT)}")


def _show_groups(groups: GroupComparison) -> None:
    print_text(
        f"{format_count(len(groups.before), 'session')} and "
        f"{format_count(len(groups.after), 'session')}"
    )
    rows = [
        [_format_name(metric.name), _spread(metric.before), _spread(metric.after)]
        for metric in groups.metrics
        if metric.before is not None or metric.after is not None
    ]
    _table(["median (range)", "first", "other"], rows)
    print_text(f"{groups.same} of {format_count(groups.pairs, 'pair')} do not diverge.")
    for place in groups.places[:_PLACES]:
        where = f"{one_line(place.agent, 40)} after {format_count(place.position, 'message')}"
        print_text(f"  {place.pairs} part at {where}")
    if len(groups.places) > _PLACES:
        print_text(f"  and {len(groups.places) - _PLACES} more positions")
    print_text("Final answers, and the number of runs in each group:")
    for answer in groups.answers[:_PLACES]:
        text = one_line(answer.text or "no answer", 160)
        print_text(f"  {answer.before} and {answer.after}: {text}")
    if len(groups.answers) > _PLACES:
        print_text(f"  and {len(groups.answers) - _PLACES} more")


def _head(name: str) -> str:
    """Return a session's name as a column head: the end of a long one, where reruns differ."""
    line = one_line(name)
    return line if len(line) <= _HEAD else f"…{line[1 - _HEAD :]}"


def _format_name(name: str) -> str:
    words = {"cost_usd": "cost, $", "model_s": "model time, s", "wall_s": "wall time, s"}
    return words.get(name, name.replace("_", " "))


def _number(value: float | None) -> str:
    """Format a number for a person.

    >>> _number(None), _number(3), _number(0.12345), _number(1234.5)
    ('-', '3', '0.123', '1,234')
    """
    if value is None:
        return "-"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _spread(spread: MetricSpread | None) -> str:
    if spread is None:
        return "-"
    middle, lowest, highest = map(_number, (spread.median, spread.min, spread.max))
    return middle if lowest == highest else f"{middle} ({lowest} to {highest})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from harken.terminal.table import Sheet, TextColumn

    columns = [TextColumn(head[0], is_text=True), *(TextColumn(name) for name in head[1:])]
    Sheet().table(columns, rows)
