"""The sections that an overview and a single session share: ratios, models, tools.

It also shows a single session: its activity over time, and its usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from harken.analytics.number_text import (
    count_tokens,
    format_cost,
    format_duration,
    format_number,
    format_percent,
)
from harken.analytics.overview import OneSession
from harken.analytics.profile import Profile
from harken.analytics.times import format_minute
from harken.analytics.tools import Amplification, Tools, ToolStats
from harken.analytics.usage import AgentUsage, ModelUsage, UsageStats
from harken.terminal.table import NARROW_CELLS, Sheet, TextColumn
from harken.views.message_text import format_count

SHOWN = 10
"""The maximum number of rows of a table; the JSON contains all."""
TEMPLATES = 6
_BAR = 16
_OF_TEMPLATE = 4
NAMELESS = "(not named)"


def show_sums(sheet: Sheet, sums: Amplification, usage: UsageStats) -> None:
    """Show the totals on one line."""
    parts = [
        (format_number(sums.prompts), _word(sums.prompts, "prompt")),
        (format_number(sums.responses), _word(sums.responses, "response")),
        (format_number(sums.tool_calls), _word(sums.tool_calls, "tool call")),
        (format_number(count_tokens(usage)), _word(count_tokens(usage), "token")),
    ]
    money = format_cost(usage.cost_usd, usage.unpriced)
    spans: list[str | tuple[str, str]] = []
    for figure, word in parts:
        spans += [(figure, "bold"), f" {word}   "]
    sheet.line(*spans, (f"cost {money}" if money == "unknown" else money, "bold green"))


def show_amplification(sheet: Sheet, sums: Amplification) -> None:
    """Show the amount of work that follows a prompt."""
    if not sums.prompts:
        sheet.line("No user messages.")
        return
    sheet.line(
        (format_number(sums.responses_per_prompt), "bold"),
        f" {_word(sums.responses_per_prompt, 'response')} and ",
        (format_number(sums.tool_calls_per_prompt), "bold"),
        f" {_word(sums.tool_calls_per_prompt, 'tool call')} for each prompt",
    )
    if sums.output_per_input is not None:
        sheet.line(
            (format_number(sums.output_per_input), "bold"),
            " output characters per input character "
            f"({format_number(sums.output_characters)} to "
            f"{format_number(sums.input_characters)})",
        )


def _word(value: float | None, singular: str) -> str:
    return singular if value == 1 else f"{singular}s"


def show_models(sheet: Sheet, models: Sequence[ModelUsage]) -> None:
    """Show the usage of each model."""
    _show_usage(sheet, "model", [(model.model or NAMELESS, model) for model in models])


def show_agents(sheet: Sheet, agents: Sequence[AgentUsage]) -> None:
    """Show the usage of each agent of a session."""
    rows = [
        (f"{agent.agent} ({agent.template})" if agent.template else agent.agent, agent)
        for agent in agents
    ]
    _show_usage(sheet, "agent", rows)


def _show_usage(sheet: Sheet, title: str, rows: Sequence[tuple[str, UsageStats]]) -> None:
    columns = (
        TextColumn(title, is_text=True),
        TextColumn("responses", from_width=90),
        TextColumn("read anew"),
        TextColumn("from cache", from_width=NARROW_CELLS),
        TextColumn("into cache", from_width=76),
        TextColumn("written"),
        TextColumn("cost", style="green"),
    )
    with_tokens = [(name, usage) for name, usage in rows if count_tokens(usage) != 0]
    sheet.table(columns, [_usage_row(name, usage) for name, usage in with_tokens[:SHOWN]])
    more(sheet, len(with_tokens))
    if unpriced := sum(usage.unpriced for _, usage in with_tokens):
        sheet.line((f"The price of {format_count(unpriced, 'response')} is unknown.", "dim"))


def _usage_row(name: str, usage: UsageStats) -> Sequence[str]:
    return (
        name,
        format_number(usage.responses),
        format_number(usage.input_tokens),
        format_number(usage.cache_read_tokens),
        format_number(usage.cache_write_tokens),
        format_number(usage.output_tokens),
        format_cost(usage.cost_usd, usage.unpriced),
    )


def show_tools(sheet: Sheet, stats: Tools) -> None:
    """Show the tool calls of all agents and of each kind of agent."""
    columns = (
        TextColumn("tool", is_text=True),
        TextColumn("", is_text=True, from_width=NARROW_CELLS, style="cyan"),
        TextColumn("calls"),
        TextColumn("share"),
        TextColumn("failed"),
        TextColumn("each took", from_width=NARROW_CELLS),
    )
    maximum = max((tool.calls for tool in stats.tools), default=0)
    rows = []
    for tool in stats.tools[:SHOWN]:
        bar = sheet.sparkline.length(tool.calls, maximum, _BAR)
        each = "" if tool.duration_s is None else format_duration(_mean_duration(tool))
        rows.append(
            (
                tool.name,
                bar,
                format_number(tool.calls),
                format_percent(tool.calls, stats.calls),
                _format_failures(tool),
                each,
            )
        )
    sheet.table(columns, rows)
    more(sheet, len(stats.tools))
    if len(stats.templates) > 1:
        sheet.line("")
        _show_templates(sheet, stats)


def _format_failures(tool: ToolStats) -> str:
    """Return the share of failed calls among those with a known result."""
    counted_calls = tool.calls - tool.untold
    if tool.errors:
        return format_percent(tool.errors, counted_calls)
    return "?" if tool.untold and tool.untold + tool.unanswered == tool.calls else ""


def _mean_duration(tool: ToolStats) -> float | None:
    answered_calls = tool.calls - tool.unanswered
    return (
        tool.duration_s / answered_calls if answered_calls and tool.duration_s is not None else None
    )


def _show_templates(sheet: Sheet, stats: Tools) -> None:
    columns = (
        TextColumn("kind of agent", is_text=True),
        TextColumn("calls"),
        TextColumn("most called", is_text=True),
    )
    rows = []
    for template in stats.templates[:TEMPLATES]:
        first = template.tools[:_OF_TEMPLATE]
        tool_shares = ", ".join(
            f"{tool.name} {format_percent(tool.calls, template.calls)}" for tool in first
        )
        place = "(subagents)" if template.is_subagent else "(main conversations)"
        rows.append((template.template or place, format_number(template.calls), tool_shares))
    sheet.table(columns, rows)
    more(sheet, len(stats.templates), TEMPLATES)


def more(sheet: Sheet, rows: int, visible: int = SHOWN) -> None:
    """Print the number of rows that were not shown."""
    if rows > visible:
        sheet.line((f"... and {rows - visible:,} more, with --json", "dim"))


ROWS = (
    ("prompt", "yellow"),
    ("response", "green"),
    ("thinking", "magenta"),
    ("tool", "cyan"),
    ("compaction", "red"),
    ("idle", "dim"),
)
_NAMES, _SUMS = 14, 26
_MIN_SECONDS = 0.001


def bins_for(width: int) -> int:
    """Return the number of bins of a profile in a terminal of this width."""
    return max(min(width - _NAMES - _SUMS, 72), 10)


def show_session(sheet: Sheet, data: OneSession, zone: tzinfo) -> None:
    """Print all sections."""
    session = data.session
    sheet.line((session.title or session.session, "bold"), indent=0)
    details = [*filter(None, [session.session if session.title else "", session.project])]
    if details:
        sheet.line("  ".join(details))
    began, ended_at = format_minute(session.began, zone), format_minute(session.ended, zone)
    words = (
        [f"{began} to {ended_at}, {format_duration(session.duration_s)}"] if session.began else []
    )
    words += [f"outcome {session.outcome}"] if session.outcome else []
    words += [format_count(session.compactions, "compaction")]
    sheet.line("; ".join(words))
    show_sums(sheet, data.amplification, data.usage)
    if data.profile.bins:
        _show_profile(sheet, data.profile, zone)
    sheet.heading("Amplification")
    show_amplification(sheet, data.amplification)
    if data.models:
        sheet.heading("Models", "tokens, each response counted once")
        show_models(sheet, data.models)
    if len(data.agents) > 1:
        sheet.heading("Agents", "tokens, each response counted once")
        show_agents(sheet, data.agents)
    if data.tools.calls:
        sheet.heading("Tools")
        show_tools(sheet, data.tools)


def _show_profile(sheet: Sheet, profile: Profile, zone: tzinfo) -> None:
    sheet.heading("Profile", f"a letter is {format_duration(profile.bin_s)}")
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
        # An event of unknown duration is still drawn.
        values = [
            max(
                getattr(profile_bin.seconds, name),
                _MIN_SECONDS * bool(getattr(profile_bin.events, name, 0)),
            )
            for profile_bin in profile.bins
        ]
        line = sheet.sparkline.line(values, profile.bin_s)
        sums = (
            f" {format_duration(seconds):>11} {format_percent(seconds, total):>5}"
            if seconds
            else " " * 18
        )
        times = f" {format_number(events):>6}" if events else ""
        sheet.line(f"{name:<12}", (line, style), f"{sums}{times}")
