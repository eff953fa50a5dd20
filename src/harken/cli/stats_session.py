"""One session in a terminal: what was done in it over time, and what that took."""

from __future__ import annotations

from datetime import tzinfo

from harken.analytics.moment import minute
from harken.analytics.numbers import duration, number, share
from harken.analytics.profile import Profile
from harken.analytics.statistics import OneSession
from harken.cli.sheet import Sheet
from harken.cli.stats_figures import show_amplification, show_models, show_sums, show_tools
from harken.views.written import count

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
