"""The cost of statistics: proportional to the result, and small for a very long history."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import UTC

import apsw
import pytest

from harken.analytics.overview import overview, session_overview
from harken.analytics.scope import ALL, Scope
from tests.unit.analytics.row_builder import DAY, US, RowBuilder, at

MORNING = int(at("2026-03-02 09:00"))
_EVERY = 100


def work(database: apsw.Connection, do: Callable[[], object]) -> int:
    """Return the hundreds of steps that SQLite takes for a call: the same on each machine."""
    steps = itertools.count()
    database.set_progress_handler(lambda: next(steps) < 0, _EVERY)
    do()
    database.set_progress_handler(None, 0)
    return next(steps)


def history(sessions: int, rounds: int = 60) -> RowBuilder:
    """A number of sessions, one per day, of as many rounds each."""
    story = RowBuilder()
    for day in range(sessions):
        session_id = story.session(f"claude:{day}", project=f"/srv/{day}")
        for number in range(rounds):
            then = MORNING + day * DAY + number * 60
            story.say(session_id, "prompt", then, 9)
            answer = story.say(session_id, "response", then + 5, 9)
            story.call(answer, "Read", 1)
            story.request(session_id, "opus", then + 5, (1, 1, 1, 1), 0.25)
            story.commit(session_id, then + 6)
    return story


@pytest.mark.parametrize(
    "scope",
    [
        Scope(session_id=1),
        Scope(projects=("/srv/0",)),
        Scope(until_us=(MORNING + DAY) * US),
    ],
)
def test_partial_query_costs_only_its_rows(scope: Scope) -> None:
    show = session_overview if scope.session_id else lambda data, part: overview(data, part, UTC)
    costs = []
    for sessions in (5, 50):
        database = history(sessions).database
        costs.append(work(database, lambda: show(database, scope)))  # noqa: B023 - called at once
    assert costs[1] < 2 * costs[0]


@pytest.mark.full
def test_million_messages_take_a_small_multiple_of_the_read_time() -> None:
    """The baseline is a loop over the messages in the same run: 3 to 5 times as much.

    Other load on the machine slows that loop by up to a half, so the limit is wider.
    """
    database = RowBuilder().database
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    values = {"began": MORNING * US, "minute": 60 * US}
    for query in (
        numbers.format(2500) + " INSERT INTO sessions SELECT i, 'claude:' || i, 'claude', i, '', "
        "'/srv/' || (i % 40), '', '', :began + i * 400 * :minute, "
        ":began + (i + 1) * 400 * :minute, NULL, '' FROM n",
        numbers.format(2500)
        + " INSERT INTO agents SELECT i, i, '', i, '', NULL, NULL, NULL, NULL FROM n",
        numbers.format(1_000_000)
        + " INSERT INTO messages SELECT i, i, 0, 1 + i / 400, 1 + i / 400,"
        " 'x', CASE WHEN i % 40 = 0 THEN 'prompt' WHEN i % 5 < 2 THEN 'response' ELSE 'tool_result' "
        "END, :began + i * :minute, zeroblob(32), 200, 0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL FROM n",
        "INSERT INTO tool_calls SELECT id, id, session_id, agent_id, 'tool' || (id % 11), '', time, 9, id, 0, 99 FROM messages WHERE kind = 'tool_result'",
        "INSERT INTO requests SELECT id, id, session_id, agent_id, NULL, 'model' || (id % 3), time, NULL, 1, 2, 3, 4, NULL, 0.5, 0, 0 FROM messages WHERE kind = 'response'",
    ):
        database.execute(query, values)
    started = time.process_time()
    for _ in database.execute("SELECT session_id, kind, time, characters FROM messages"):
        pass
    read_at = time.process_time()
    figures = overview(database, ALL, UTC)
    told_at = time.process_time()
    print(f"read in {read_at - started:.2f} s, told in {told_at - read_at:.2f} s")
    assert (figures.amplification.prompts, figures.usage.responses) == (25_000, 375_000)
    assert told_at - read_at < 8 * (read_at - started)
