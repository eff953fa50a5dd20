"""Eight tasks of one process commit equal texts to one store, each to its own chain.

python -m tests.crash.parallel_writers STORE WHO STEPS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.store.sqlite.store import SqliteStore

TASKS = 8


def step_messages(step: int) -> list[Message]:
    """Return the text of all tasks in this step."""
    return [Message("user", f"question {step}"), Message("assistant", f"answer {step} " * 20)]


async def chain(store: SqliteStore, principal: str, steps: int) -> None:
    """Commit a chain, each step in a free thread."""
    last: CommitId | None = None
    for step in range(steps):
        draft = CommitDraft(
            messages=step_messages(step),
            parent=last,
            created_at=f"2026-01-01T00:{step // 60:02d}:{step % 60:02d}Z",
            origin=CommitOrigin(principal=principal),
        )
        last = await asyncio.to_thread(checkpoint, store, draft)


async def main(path: Path, principal: str, steps: int) -> None:
    """Commit all chains concurrently."""
    store = SqliteStore(path)
    async with asyncio.TaskGroup() as tasks:
        for task in range(TASKS):
            tasks.create_task(chain(store, f"{principal}{task}", steps))
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
