"""Checkpoint, compact and snapshot a conversation until killed; print each committed step.

    python -m tests.crash.context_writer FOLDER
    python -m tests.crash.context_writer collect FOLDER
    python -m tests.crash.context_writer verify FOLDER LAST

The second leaves things that nobody needs, and collects them, again and again.

It goes on where the last run ended. `wrong` says what is not as it was acknowledged.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from random import Random

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.materialize import materialize
from harken.core.commits import CommitId, hash_raw
from harken.core.messages import Message, text_of
from harken.errors import HarkenError
from harken.store.base import RetentionPolicy, Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore

LATER = "2100-01-01T00:00:00Z"
WHO = "writer"
SYSTEM = "You are careful."


def step_messages(step: int) -> list[Message]:
    """Return the text of a step: sometimes a long one, so that a write has many pages."""
    answer = f"answer {step} " + "and a long story " * (2000 if step % 7 == 3 else 5)
    before = [Message("system", SYSTEM)] if step == 0 else []
    return [*before, Message("user", f"question {step}"), Message("assistant", answer)]


def is_summed_up(step: int) -> bool:
    """Whether this step ends with a compaction."""
    return step % 10 == 9


def take(store: Store, parent: CommitId | None, step: int) -> CommitId:
    """Commit a step; a compaction replaces earlier messages, a snapshot repeats them."""
    minutes, seconds = divmod(step, 60)
    draft = CommitDraft(
        messages=step_messages(step),
        parent=parent,
        created_at=f"2026-01-01T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}Z",
        origin=CommitOrigin(principal=WHO),
        branch=WHO,
    )
    if is_summed_up(step):
        return compact(store, draft, f"summary {step}")
    new_commit = checkpoint(store, draft)
    return snapshot(store, new_commit, branch=WHO) if step % 10 == 4 else new_commit


def main(folder: Path) -> None:
    """Write until killed."""
    store = SqliteStore(folder / "s.db")
    last = store.latest_commit(WHO, LATER)
    for step in count(steps_in(store, last)):
        last = take(store, last, step)
        print(step, flush=True)


def collect(folder: Path) -> None:
    """Write unreferenced objects and collect them until killed."""
    store = SqliteStore(folder / "s.db")
    for round_ in count():
        noise = Random(round_)
        loose = [noise.randbytes(20_000) for _ in range(5)]
        store.write(WriteBatch(raw={hash_raw(data): data for data in loose}))
        draft = CommitDraft(
            messages=[Message("user", f"for now {noise.random()}")],
            parent=store.latest_commit(WHO, LATER),
            created_at="2026-01-01T00:00:00Z",
        )
        for_now = checkpoint(store, draft)
        store.set_retention({for_now: RetentionPolicy("ephemeral", until="2026-01-02T00:00:00Z")})
        store.collect([], now=LATER, grace_s=0)
        print(round_, flush=True)


def steps_in(store: Store, ctx: CommitId | None) -> int:
    """Return the number of steps that a commit represents."""
    return sum(message.role == "user" for message in materialize(store, ctx, "root").messages)


def find_loss(folder: Path, acknowledged: int) -> str | None:
    """Return the lost or damaged acknowledged steps, up to this one."""
    try:
        store = SqliteStore(folder / "s.db")
        try:
            problems = [f"{finding.place}: {finding.problem}" for finding in fsck(store)]
            return "; ".join(problems[:3]) or _find_loss(store, acknowledged)
        finally:
            store.close()
    except HarkenError as error:
        return f"{type(error).__name__}: {error}"


def _find_loss(store: Store, acknowledged: int) -> str | None:
    last = store.latest_commit(WHO, LATER)
    if store.branches().get(WHO) != last:
        return "the branch does not lead to the last commit"
    steps = steps_in(store, last)
    if steps <= acknowledged:
        return f"{acknowledged + 1} steps were acknowledged, {steps} are there"
    summed = max((step for step in range(steps) if is_summed_up(step)), default=-1)
    expected_messages = [message for step in range(steps) for message in step_messages(step)]
    later = [message for step in range(summed + 1, steps) for message in step_messages(step)]
    if summed >= 0:
        later = [Message("system", SYSTEM), Message("user", f"summary {summed}"), *later]
    for stop, expected in (("root", expected_messages), ("compaction", later)):
        actual = materialize(store, last, stop).messages
        if [(m.role, text_of(m.content)) for m in actual] != [
            (m.role, m.content) for m in expected
        ]:
            return f"with the stop {stop} there are {len(actual)} messages, and not those written"
    return None


if __name__ == "__main__":
    if sys.argv[1] == "verify":
        sys.exit(find_loss(Path(sys.argv[2]), int(sys.argv[3])) or 0)
    collect(Path(sys.argv[2])) if sys.argv[1] == "collect" else main(Path(sys.argv[1]))
