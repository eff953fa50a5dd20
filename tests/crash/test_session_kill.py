"""kill -9 of processes that play a session, repeatedly: the session ends as the uncut one does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from harken.session.log.checksum import has_more
from tests.agent_kit import check_log
from tests.crash.kill_kit import ROOT
from tests.property.resumed_sessions import Script, comparable, first_difference, summarize
from tests.session_kit import read_lines

FIRST_LIMIT_S = 0.03
"""About how long a session takes. A child is killed at a random moment of this time."""

SERIAL = 10_000
"""Scripts below this number make one call at a time."""
PARALLEL = 20
"""Scripts below this number make calls at once, and their logs do not depend on the order of these.

Others do: a smart hook that is asked about two calls judges the second one by a context that holds
the first one, and a discussion writes to its agent's log between the results of other calls.
"""


@contextmanager
def players() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.session_child"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as parent:
        yield parent
        assert parent.stdin is not None
        parent.stdin.close()


@dataclass
class KilledSession:
    """A session whose processes are killed until one of them has played it to its end."""

    script: Script
    log: Path
    kills: int = 0
    kills_inside: int = 0
    """Kills of a process that had written to the log."""
    has_cut_call: bool = False
    """Whether a tool that is not idempotent was cut after it had begun to act."""

    def play(self, parent: subprocess.Popen[str], random: Random, limit: int) -> None:
        """Play and kill. After `limit` kills the process is left to end."""
        assert parent.stdin is not None
        assert parent.stdout is not None
        while True:
            # The limit grows, so that the session also ends where a resume alone takes longer.
            limit_s = FIRST_LIMIT_S * 1.1**self.kills
            seconds = random.uniform(0, limit_s) if self.kills < limit else None
            size = self.log.stat().st_size
            order = [self.script.seed, self.script.is_parallel, str(self.log), seconds]
            print(json.dumps(order), file=parent.stdin, flush=True)
            status = int(parent.stdout.readline())
            if status == 0:
                return
            assert status == -signal.SIGKILL
            self.kills += 1
            self.kills_inside += self.log.stat().st_size > size
            self.has_cut_call |= has_started_call(self.log)


def has_started_call(log: Path) -> bool:
    """Whether a call in the complete groups of a log has begun to act and has no result."""
    lines = log.read_bytes().splitlines(keepends=True)
    while not lines[-1].endswith(b"\n") or has_more(lines[-1]):
        lines.pop()
    events = [json.loads(line) for line in lines]
    owners = {event["message_id"]: event.get("agent_id") for event in events}
    started = Counter(event["call"] for event in events if event["event_type"] == "action_started")
    results = {(event["agent_id"], event["tool_call_id"]) for event in events if is_result(event)}
    assert set(started.values()) <= {1}
    references = [reference.partition(".") for reference in started]
    return any((owners[message], call_id) not in results for message, _, call_id in references)


def is_result(event: dict[str, object]) -> bool:
    return event.get("role") == "tool"


def kill_session(
    script: Script, folder: Path, parent: subprocess.Popen[str], random: Random, limit: int
) -> KilledSession:
    """Play a session uncut, and again with kills. Check that the logs are equal."""
    (folder / "uncut").mkdir(parents=True)
    uncut, begin = script.play(folder / "uncut")
    log = folder / "s.jsonl"
    log.write_bytes(b"".join(uncut.read_bytes().splitlines(keepends=True)[:begin]))
    session = KilledSession(script, log)
    session.play(parent, random, limit)
    check_log(log)
    check_starts(log)
    if not session.has_cut_call:
        logs = [comparable(path, by_agent=script.is_parallel) for path in (uncut, log)]
        difference = first_difference(*logs)
        assert difference is None, (script, [*map(summarize, difference)])
    return session


def check_starts(log: Path) -> None:
    """Check that no call began to act twice."""
    calls = [line["call"] for line in read_lines(log) if line["event_type"] == "action_started"]
    assert len(calls) == len(set(calls))


def kill_sessions(folder: Path, count: int, seed: int, limit: int) -> list[KilledSession]:
    """Play sessions until there were `count` kills."""
    random, sessions = Random(seed), list[KilledSession]()
    with players() as parent:
        while (left := count - sum(session.kills for session in sessions)) > 0:
            number = len(sessions)
            is_parallel = number % 3 == 2
            script = Script(random.randrange(PARALLEL if is_parallel else SERIAL), is_parallel)
            inner = folder / str(number)
            sessions.append(kill_session(script, inner, parent, random, min(left, limit)))
    return sessions


@pytest.mark.req("S0-31", "S0-32", "S4-04")
def test_a_session_that_is_killed_repeatedly_equals_the_uncut_one(tmp_path: Path) -> None:
    sessions = kill_sessions(tmp_path, 6, seed=1, limit=3)
    assert sum(session.kills for session in sessions) == 6


@pytest.mark.full
@pytest.mark.req("S0-31", "S0-32", "S4-04", "S4-19")
def test_sessions_that_are_killed_300_times_equal_the_uncut_ones(tmp_path: Path) -> None:
    sessions = kill_sessions(tmp_path, 300, seed=2, limit=20)
    assert sum(session.kills for session in sessions) == 300
    assert sum(session.kills_inside for session in sessions) > 50
    compared = [session for session in sessions if not session.has_cut_call]
    assert sum(session.kills for session in compared) > 200
