"""A home that grows to given numbers of sessions, and what its users wait for."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from benchmarks.measure import RUNS, cpu_s, median, wall_s
from benchmarks.scale.sessions import (
    MESSAGE_GAP_US,
    SESSION_GAP_US,
    START_US,
    TOOLS,
    GeneratedSession,
    generate_session,
    list_words,
)
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.history import commit_history, get_commit, resolve
from harken.context.materialize import materialize
from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore

GROWTH = 500
"""Sessions are written in groups of so many, and then indexed."""
SAMPLES = 20
"""What is read by its name is read for so many names, spread over all sessions."""
RARE_RANK, COMMON_RANK = 20_000, 20


class Growth(msgspec.Struct):
    """The size of a home, and the CPU seconds that writing it took."""

    sessions: int = 0
    commits: int = 0
    messages: int = 0
    write_s: float = 0.0
    index_s: float = 0.0


class ScaledHome:
    """A home of generated sessions."""

    def __init__(self, folder: Path) -> None:
        """Create the home, or open that of an earlier run."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._state_file = folder / "growth.json"
        self.growth = Growth()
        if self._state_file.exists():
            self.growth = msgspec.json.decode(self._state_file.read_bytes(), type=Growth)

    def open_store(self) -> SqliteStore:
        """Return its store. The caller closes it."""
        return SqliteStore(self.folder / "store.db")

    def grow(self, sessions: int) -> None:
        """Write and index sessions until there are so many."""
        growth = self.growth
        with (
            closing(self.open_store()) as store,
            closing(Catalogue(self.folder / "index.db")) as catalogue,
            closing(SessionIndex(self.folder / "facts.db")) as index,
        ):
            while growth.sessions < sessions:
                end = min(sessions, growth.sessions + GROWTH)
                for number in range(growth.sessions, end):
                    session = generate_session(number)
                    growth.write_s += cpu_s(partial(store.write, session.batch))
                    _note(catalogue, session)
                    growth.commits += session.commits
                    growth.messages += session.messages
                catalogue.commit()
                growth.index_s += cpu_s(partial(index.update, store, catalogue))
                growth.sessions = end
                self._state_file.write_bytes(msgspec.json.encode(growth))

    @property
    def bytes(self) -> int:
        """The size of the store and the index on disk."""
        return sum(file.stat().st_size for file in self.folder.glob("*.db*"))

    def sample_tips(self) -> list[CommitId]:
        """Return the newest commits of sessions that are spread over all."""
        count = self.growth.sessions
        numbers = Random(count).sample(range(count), min(SAMPLES, count))
        return [generate_session(number).tip for number in numbers]


def _note(catalogue: Catalogue, session: GeneratedSession) -> None:
    record = msgspec.json.encode(session.report)
    fingerprint = FileFingerprint(len(record), 1000 * session.end_us, b"")
    catalogue.note(session.report.source, fingerprint, record)


def measure(home: ScaledHome) -> dict[str, float]:
    """Return what is waited for, in milliseconds on the wall, medians."""
    costs = dict(_measure_calls(home))
    for name, arguments in _commands().items():
        costs[name] = _measure_command(home, arguments)
    costs["ui: first page"] = 1e3 * median([_open_page(home) for _ in range(RUNS)])
    return costs


def measure_whole(home: ScaledHome) -> dict[str, float]:
    """Return the seconds of what reads everything, once."""
    commands = {
        "stats": ["stats"],
        "store gc --dry-run": ["store", "gc", "--dry-run"],
        "store fsck": ["store", "fsck"],
    }
    return {name: wall_s(partial(_run, home, arguments)) for name, arguments in commands.items()}


def _measure_calls(home: ScaledHome) -> Iterator[tuple[str, float]]:
    """Measure calls of the API, each with a store that was just opened."""
    tips = home.sample_tips()
    later = START_US + home.growth.sessions * SESSION_GAP_US + 10**12
    calls: dict[str, Callable[[SqliteStore, CommitId, int], object]] = {
        "get a commit": lambda store, tip, _: get_commit(store, tip),
        "prefix of a name": lambda store, tip, _: store.names_with_prefix(tip[:16]),
        "resolve a time": lambda store, _, number: resolve(
            store, "team", format_rfc3339(START_US + number * 997 * MESSAGE_GAP_US)
        ),
        "history, 50 commits": lambda store, tip, _: commit_history(store, tip, 50),
        "materialize": lambda store, tip, _: materialize(store, tip).messages,
        "commit": lambda store, tip, number: checkpoint(
            store,
            CommitDraft(
                parent=tip,
                messages=[Message("user", f"And now number {number} of {later}?")],
                origin=CommitOrigin(principal="team", session_id="codex:later"),
                created_at=format_rfc3339(later + number * MESSAGE_GAP_US),
            ),
        ),
    }
    for name, call in calls.items():
        with closing(home.open_store()) as store:
            call(store, tips[0], SAMPLES)
            times = [wall_s(partial(call, store, tip, n)) for n, tip in enumerate(tips)]
        yield name, 1e3 * median(times)


def _commands() -> dict[str, list[str]]:
    words = list_words()
    return {
        "sessions": ["sessions"],
        "search RARE": ["search", words[RARE_RANK]],
        "search COMMON": ["search", words[COMMON_RANK]],
        "search RARE COMMON": ["search", words[RARE_RANK], words[COMMON_RANK]],
        "search RARE --tool": ["search", words[RARE_RANK // 10], "--tool", TOOLS[0]],
        "ctx log": ["ctx", "log"],
    }


def _measure_command(home: ScaledHome, arguments: list[str]) -> float:
    return 1e3 * median([wall_s(partial(_run, home, arguments)) for _ in range(RUNS)])


def _run(home: ScaledHome, arguments: list[str]) -> None:
    command = [_program(), *arguments, "--home", str(home.folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=3600)


def _program() -> str:
    return str(Path(sys.executable).with_name("harken"))


def _open_page(home: ScaledHome) -> float:
    """Start the viewer and return the seconds until it has listed the newest sessions."""
    command = [_program(), "ui", "--no-open", "--home", str(home.folder)]
    start = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if match := re.search(r"(http://[^/\s]+)/\S*token=([\w-]+)", line):
                break
        else:
            raise RuntimeError("the viewer printed no address")
        headers = {"Authorization": f"Bearer {match[2]}"}
        request = urllib.request.Request(f"{match[1]}/api/sessions", headers=headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            answer.read()
        return time.perf_counter() - start
    finally:
        server.terminate()
        server.wait()
