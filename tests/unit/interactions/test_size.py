"""The size of a logged conversation, compared with the estimate of the specification."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harken.store.sqlite.store import SqliteStore
from tests.unit.interactions.kit import KIND, logger

WORDS = "the a tea cafe door opens and closes while Jack reads Jill writes nothing was said"
CHARACTERS, MESSAGES = 500, 50
LOG_BYTES, STORE_BYTES = 55_000, 30_000
EACH = 8
"""So many messages are said from one answer to the next."""


def text(seed: int) -> str:
    """Return about 500 characters of prose that are unique to the seed."""
    dice = Random(seed)
    prose = f"{seed}: "
    while len(prose) < CHARACTERS:
        prose += dice.choice(WORDS.split()) + " "
    return prose[:CHARACTERS]


def converse(
    folder: Path, session: str, store: SqliteStore | None, own_texts: int, shared: int
) -> int:
    """Log a session of 50 messages, the first `shared` of them prompts. Return its rows."""
    texts = [text(n) for n in range(shared)] + [
        text(own_texts + n) for n in range(MESSAGES - shared)
    ]
    with logger(folder, store) as log:
        thread = log.start_thread(session)
        context: list[Any] = [{"role": "system", "content": prompt} for prompt in texts[:shared]]
        for number, prose in enumerate(texts[shared:], shared + 1):
            if number % EACH and number < MESSAGES:
                context.append({"role": "user", "content": prose})
                continue
            with log.call(thread, context, model="m") as call_log:
                context.append({"role": "assistant", "content": call_log.answer(prose)})
        rows = log.get_thread(thread)
        assert len({row.message_id for row in rows if row.message_id}) == MESSAGES
        assert sum(row.event_type is KIND.LLM_REQUEST for row in rows) > 1
        return len(rows)


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("S3-23")
def test_fifty_messages_and_two_hundred_rows_have_the_estimated_size(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "store.db").close()
    empty = sizes(tmp_path)["store.db"]
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert converse(tmp_path, "one", store, own_texts=1_000, shared=2) >= 200
    after = sizes(tmp_path)
    assert after["one.jsonl"] <= LOG_BYTES
    assert after["store.db"] - empty <= STORE_BYTES
    assert set(after) - {"interactions.db"} == {"one.jsonl", "store.db"}


@pytest.mark.req("S3-23")
def test_sessions_with_common_prompts_share_objects(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        sums = [0]
        for number in (1, 2):
            converse(tmp_path, f"s{number}", store, own_texts=1_000 * number, shared=22)
            sums.append(store.stats().raw_bytes)
        first, second = (after - before for before, after in pairwise(sums))
        assert 0.5 <= second / first <= 0.7
