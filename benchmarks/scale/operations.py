"""The operations that are measured: those that a user waits for, and those that read everything."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from benchmarks.measure import RUNS
from benchmarks.scale.cpu import Cost, CpuClock
from benchmarks.scale.home import Sample, ScaledHome
from benchmarks.scale.sessions import (
    MESSAGE_GAP_US,
    SESSION_GAP_US,
    START_US,
    TOOLS,
    list_words,
)
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.history import commit_history, get_commit, resolve
from harken.context.materialize import materialize
from harken.core.clock import format_rfc3339
from harken.core.messages import Message
from harken.store.base import Store

Call: TypeAlias = Callable[[Store, Sample, int], object]
RARE_RANK, COMMON_RANK = 20_000, 20
TIMEOUT_S = 3600
REFERENCE = "harken --version"
"""A program that starts, and reads nothing of the home."""
WHOLE = ("stats", "store gc", "store fsck")
"""What reads everything: it may grow as the home does."""
HISTORY_COMMITS = 20


class Measurement(msgspec.Struct, frozen=True):
    """All costs of a home at one size."""

    store: str
    shape: str
    sessions: int
    commits: int
    messages: int
    size_bytes: int
    write_us: float | None
    """Of a message: CPU time of this process. None if it was not measured."""
    index_us: float | None
    costs: Mapping[str, Cost]


def measure(
    home: ScaledHome, name: str, servers: Sequence[int] = (), runs: int = RUNS
) -> Measurement:
    """Measure all operations. name: of the kind of store. servers: the ids of its processes."""
    growth, clock = home.growth, CpuClock(servers)
    costs = measure_calls(home, clock)
    costs |= measure_commands(home, clock, runs)
    costs["ui: first page"] = clock.measure([partial(_open_page, home)] * runs)
    for arguments in map(str.split, WHOLE):
        costs[" ".join(arguments)] = clock.measure([partial(run_harken, home, arguments)])
    return Measurement(
        store=name,
        shape=home.shape,
        sessions=growth.sessions,
        commits=growth.commits,
        messages=growth.messages,
        size_bytes=home.size_bytes(),
        write_us=_divide_us(growth.write_s, growth.timed_messages),
        index_us=_divide_us(growth.index_s, growth.timed_messages),
        costs=costs,
    )


def _divide_us(seconds: float, messages: int) -> float | None:
    return 1e6 * seconds / messages if messages else None


def measure_calls(home: ScaledHome, clock: CpuClock) -> dict[str, Cost]:
    """Measure calls of the API, each with a store that was just opened."""
    samples = home.sample_sessions()
    later_us = START_US + home.growth.sessions * SESSION_GAP_US + 10**12
    costs: dict[str, Cost] = {}
    for name, call in _calls(later_us).items():
        with closing(home.open_store()) as store:
            call(store, samples[0], len(samples))
            runs = [partial(call, store, sample, n) for n, sample in enumerate(samples)]
            costs[name] = clock.measure(runs)
    return costs


def _calls(later_us: int) -> dict[str, Call]:
    """Return calls with a store, a sample and its number. later_us: after all commits."""
    return {
        "get a commit": lambda store, sample, _: get_commit(store, sample.tip),
        "resolve a prefix": lambda store, sample, _: store.names_with_prefix(sample.tip[:16]),
        "resolve a label": lambda store, sample, _: store.commits_by_label(sample.label),
        "resolve a time": lambda store, _, number: resolve(
            store, "team", format_rfc3339(START_US + number * 997 * MESSAGE_GAP_US)
        ),
        "newest commits": lambda store, *_: store.newest_commits(HISTORY_COMMITS),
        "history": lambda store, sample, _: commit_history(store, sample.tip, HISTORY_COMMITS),
        "materialize": lambda store, sample, _: materialize(store, sample.tip).messages,
        "commit": lambda store, sample, number: checkpoint(
            store,
            CommitDraft(
                parent=sample.tip,
                messages=[Message("user", f"And now number {number} of {later_us}?")],
                origin=CommitOrigin(principal="team", session_id="codex:later"),
                created_at=format_rfc3339(later_us + number * MESSAGE_GAP_US),
            ),
        ),
    }


def measure_commands(home: ScaledHome, clock: CpuClock, runs: int) -> dict[str, Cost]:
    label, words = home.sample_sessions()[0].label, list_words()
    rare, common = words[RARE_RANK], words[COMMON_RANK]
    commands = {
        REFERENCE: ["--version"],
        "sessions": ["sessions"],
        "search RARE": ["search", rare],
        "search COMMON": ["search", common],
        "search RARE COMMON": ["search", rare, common],
        "ctx resolve LABEL": ["ctx", "resolve", label],
        "ctx log": ["ctx", "log"],
        "ctx log LABEL": ["ctx", "log", label],
    }
    if home.shape == "full":
        commands["search RARE --tool"] = ["search", words[RARE_RANK // 10], "--tool", TOOLS[0]]
    run_harken(home, ["search", rare])  # The commits that were just written are indexed.
    return {
        name: clock.measure([partial(run_harken, home, arguments)] * runs)
        for name, arguments in commands.items()
    }


def run_harken(home: ScaledHome, arguments: Sequence[str]) -> str:
    """Run a command for a home, and return what it prints."""
    is_home_used = arguments[0] != "--version"
    command = [_program(), *arguments, *(["--home", str(home.folder)] * is_home_used)]
    result = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    )
    return result.stdout


def _program() -> str:
    return str(Path(sys.executable).with_name("harken"))


def _open_page(home: ScaledHome) -> bytes:
    """Start the viewer, and return the list of the newest sessions."""
    command = [_program(), "ui", "--no-open", "--home", str(home.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if match := re.search(r"(http://[^/\s]+)/\S*token=([\w-]+)", line):
                    break
            else:
                raise RuntimeError("the viewer printed no address")
            headers = {"Authorization": f"Bearer {match[2]}"}
            request = urllib.request.Request(f"{match[1]}/api/sessions", headers=headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return bytes(response.read())
        finally:
            server.terminate()
