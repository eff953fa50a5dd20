"""The sections that an overview and a single session share: ratios, models, tools."""

from __future__ import annotations

from collections.abc import Sequence

from harken.analytics.amplification import Amplification
from harken.analytics.numbers import cost, duration, number, share, tokens
from harken.analytics.tools import Tool, Tools
from harken.analytics.usage import ModelUsage, Usage
from harken.cli.sheet import NARROW, Column, Sheet
from harken.views.written import count

SHOWN = 10
"""So many rows of a table; all are in the JSON."""
TEMPLATES = 6
_BAR = 16
_OF_TEMPLATE = 4
NAMELESS = "(not named)"


def show_sums(sheet: Sheet, sums: Amplification, usage: Usage) -> None:
    """Show how much there was of everything, in one line."""
    parts = [
        (number(sums.prompts), _word(sums.prompts, "prompt")),
        (number(sums.responses), _word(sums.responses, "response")),
        (number(sums.tool_calls), _word(sums.tool_calls, "tool call")),
        (number(tokens(usage)), _word(tokens(usage), "token")),
    ]
    money = cost(usage.cost_usd, usage.unpriced)
    spans: list[str | tuple[str, str]] = []
    for figure, word in parts:
        spans += [(figure, "bold"), f" {word}   "]
    sheet.line(*spans, (f"cost {money}" if money == "unknown" else money, "bold green"))


def show_amplification(sheet: Sheet, sums: Amplification) -> None:
    """Show what comes of a prompt."""
    if not sums.prompts:
        sheet.line("No person said anything.")
        return
    sheet.line(
        (number(sums.responses_per_prompt), "bold"),
        f" {_word(sums.responses_per_prompt, 'response')} and ",
        (number(sums.tool_calls_per_prompt), "bold"),
        f" {_word(sums.tool_calls_per_prompt, 'tool call')} for each prompt",
    )
    if sums.output_per_input is not None:
        sheet.line(
            (number(sums.output_per_input), "bold"),
            f" characters answered for each one asked ({number(sums.output_characters)} for "
            f"{number(sums.input_characters)})",
        )


def _word(value: float | None, one: str) -> str:
    return one if value == 1 else f"{one}s"


def show_models(sheet: Sheet, models: Sequence[ModelUsage]) -> None:
    """Show what each model used."""
    columns = (
        Column("model", is_text=True),
        Column("responses", from_width=90),
        Column("read anew"),
        Column("from cache", from_width=NARROW),
        Column("into cache", from_width=76),
        Column("written"),
        Column("cost", style="green"),
    )
    used = [one for one in models if tokens(one) != 0]
    sheet.table(columns, [_model_row(one) for one in used[:SHOWN]])
    more(sheet, len(used))
    if unpriced := sum(one.unpriced for one in used):
        sheet.line((f"Nobody here knows the price of {count(unpriced, 'response')}.", "dim"))


def _model_row(one: ModelUsage) -> Sequence[str]:
    return (
        one.model or NAMELESS,
        number(one.responses),
        number(one.input_tokens),
        number(one.cache_read_tokens),
        number(one.cache_write_tokens),
        number(one.output_tokens),
        cost(one.cost_usd, one.unpriced),
    )


def show_tools(sheet: Sheet, found: Tools) -> None:
    """Show which tools were called, by all and by each kind of agent."""
    columns = (
        Column("tool", is_text=True),
        Column("", is_text=True, from_width=NARROW, style="cyan"),
        Column("calls"),
        Column("share"),
        Column("failed"),
        Column("each took", from_width=NARROW),
    )
    most = max((one.calls for one in found.tools), default=0)
    rows = []
    for one in found.tools[:SHOWN]:
        bar = sheet.strokes.length(one.calls, most, _BAR)
        each = "" if one.duration_s is None else duration(_each(one))
        rows.append(
            (one.name, bar, number(one.calls), share(one.calls, found.calls), _failed(one), each)
        )
    sheet.table(columns, rows)
    more(sheet, len(found.tools))
    if len(found.templates) > 1:
        sheet.line("")
        _show_templates(sheet, found)


def _failed(one: Tool) -> str:
    """Return the share of calls that failed among those of which it is known."""
    known = one.calls - one.untold
    if one.errors:
        return share(one.errors, known)
    return "?" if one.untold and one.untold + one.unanswered == one.calls else ""


def _each(one: Tool) -> float | None:
    answered = one.calls - one.unanswered
    return one.duration_s / answered if answered and one.duration_s is not None else None


def _show_templates(sheet: Sheet, found: Tools) -> None:
    columns = (
        Column("kind of agent", is_text=True),
        Column("calls"),
        Column("most called", is_text=True),
    )
    rows = []
    for one in found.templates[:TEMPLATES]:
        first = one.tools[:_OF_TEMPLATE]
        called = ", ".join(f"{tool.name} {share(tool.calls, one.calls)}" for tool in first)
        place = "(subagents)" if one.is_subagent else "(main conversations)"
        rows.append((one.template or place, number(one.calls), called))
    sheet.table(columns, rows)
    more(sheet, len(found.templates), TEMPLATES)


def more(sheet: Sheet, rows: int, shown: int = SHOWN) -> None:
    """Say how many rows were not shown."""
    if rows > shown:
        sheet.line((f"... and {rows - shown:,} more, with --json", "dim"))
