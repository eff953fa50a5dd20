"""The sections that an overview and a single session share: ratios, models, tools.

One session in a terminal: what was done in it over time, and what that took.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from harken.analytics.number_text import cost, duration, number, share, tokens
from harken.analytics.overview import OneSession
from harken.analytics.profile import Profile
from harken.analytics.times import minute
from harken.analytics.tools import Amplification, Tools, ToolStats
from harken.analytics.usage import ModelUsage, UsageStats
from harken.terminal.table import NARROW, Sheet, TextColumn
from harken.views.message_text import count

SHOWN = 10
"""So many rows of a table; all are in the JSON."""
TEMPLATES = 6
_BAR = 16
_OF_TEMPLATE = 4
NAMELESS = "(not named)"


def show_sums(sheet: Sheet, sums: Amplification, usage: UsageStats) -> None:
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
        TextColumn("model", is_text=True),
        TextColumn("responses", from_width=90),
        TextColumn("read anew"),
        TextColumn("from cache", from_width=NARROW),
        TextColumn("into cache", from_width=76),
        TextColumn("written"),
        TextColumn("cost", style="green"),
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
        TextColumn("tool", is_text=True),
        TextColumn("", is_text=True, from_width=NARROW, style="cyan"),
        TextColumn("calls"),
        TextColumn("share"),
        TextColumn("failed"),
        TextColumn("each took", from_width=NARROW),
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


def _failed(one: ToolStats) -> str:
    """Return the share of calls that failed among those of which it is known."""
    known = one.calls - one.untold
    if one.errors:
        return share(one.errors, known)
    return "?" if one.untold and one.untold + one.unanswered == one.calls else ""


def _each(one: ToolStats) -> float | None:
    answered = one.calls - one.unanswered
    return one.duration_s / answered if answered and one.duration_s is not None else None


def _show_templates(sheet: Sheet, found: Tools) -> None:
    columns = (
        TextColumn("kind of agent", is_text=True),
        TextColumn("calls"),
        TextColumn("most called", is_text=True),
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


ROWS = (
    ("prompt", "yellow"),
    ("response", "green"),
    ("thinking", "magenta"),
    ("tool", "cyan"),
    ("compaction", "red"),
    ("idle", "dim"),
)


_NAMES, _SUMS = 14, 26


_LEAST = 0.001


def bins_for(width: int) -> int:
    """Return into how many bins a profile goes, in a terminal of so many cells."""
    return max(min(width - _NAMES - _SUMS, 72), 10)


def show_session(sheet: Sheet, found: OneSession, zone: tzinfo) -> None:
    """Print all sections."""
    session = found.session
    sheet.line((session.title or session.session, "bold"), indent=0)
    told = [*filter(None, [session.session if session.title else "", session.project])]
    if told:
        sheet.line("  ".join(told))
    began, ended = minute(session.began, zone), minute(session.ended, zone)
    words = [f"{began} to {ended}, {duration(session.duration_s)}"] if session.began else []
    words += [f"outcome {session.outcome}"] if session.outcome else []
    words += [count(session.compactions, "compaction")]
    sheet.line("; ".join(words))
    show_sums(sheet, found.amplification, found.usage)
    if found.profile.bins:
        _show_profile(sheet, found.profile, zone)
    sheet.heading("Amplification")
    show_amplification(sheet, found.amplification)
    if found.models:
        sheet.heading("Models", "tokens, each response once")
        show_models(sheet, found.models)
    if found.tools.calls:
        sheet.heading("Tools")
        show_tools(sheet, found.tools)


def _show_profile(sheet: Sheet, profile: Profile, zone: tzinfo) -> None:
    sheet.heading("Profile", f"a letter is {duration(profile.bin_s)}")
    span = (profile.bins[-1].began - profile.bins[0].began).total_seconds()
    clock = "%H:%M:%S" if span < 600 else "%H:%M" if span < 86_400 else "%m-%d"
    first = f"{profile.bins[0].began.astimezone(zone):{clock}}"
    last = f"{profile.bins[-1].began.astimezone(zone):{clock}}"
    gap = max(len(profile.bins) - len(first) - len(last), 1)
    sheet.line((f"{'':<12}{first}{'':<{gap}}{last}", "dim"))
    total = sum(getattr(profile.seconds, name) for name, _ in ROWS)
    for name, style in ROWS:
        seconds = getattr(profile.seconds, name)
        events = getattr(profile.events, name, 0)
        if not seconds and not events:
            continue
        # What took no time that anybody knows happened all the same.
        values = [
            max(getattr(one.seconds, name), _LEAST * bool(getattr(one.events, name, 0)))
            for one in profile.bins
        ]
        line = sheet.strokes.line(values, profile.bin_s)
        sums = f" {duration(seconds):>11} {share(seconds, total):>5}" if seconds else " " * 18
        times = f" {number(events):>6}" if events else ""
        sheet.line(f"{name:<12}", (line, style), f"{sums}{times}")
