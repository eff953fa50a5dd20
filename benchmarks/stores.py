"""What keeps a growing conversation: Harken's store, those of others, and the least that could do.

One idea: all are asked the same, through the interface that they have for it, with the durability
that they have by default (SQLite in WAL mode, a sync at each commit). Where there is a choice it is
made in favour of the others: a message is a plain dict, never an object of theirs, and LangGraph
writes a checkpoint alone where a graph would write what its nodes returned, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sqlite3
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

Said: TypeAlias = tuple[Literal["user", "assistant"], str]
"""A role and a text."""

MESSAGE_BYTES = 500
_WORDS = 3000


class Words:
    """Texts of invented words, as rare as those of a language: the n-th one 1/n as often."""

    def __init__(self, seed: int = 1) -> None:
        self._dice = random.Random(seed)
        ends, starts = ["a", "e", "i", "o", "u", "er", "in", "an"], "bcdfghlmnprstw"
        syllables = [start + end for start in starts for end in ends]
        draw = self._dice.choice
        self._words = ["".join(draw(syllables) for _ in range(1 + n % 4)) for n in range(_WORDS)]
        self._weights = list(accumulate(1 / (n + 1) for n in range(_WORDS)))

    def text(self) -> str:
        """Return the next text of 500 bytes."""
        words = self._dice.choices(self._words, cum_weights=self._weights, k=200)
        return " ".join(words)[:MESSAGE_BYTES].ljust(MESSAGE_BYTES)

    def step(self) -> list[Said]:
        """Return what the next step adds."""
        return [("user", self.text()), ("assistant", self.text())]


class Keeper(Protocol):
    """What is measured. It is made with a folder, and goes on with what is there."""

    def add(self, said: list[Said]) -> None:
        """Keep what is new: on return it survives a power cut."""
        ...

    def at(self, step: int) -> Any:
        """Return what one must know of an earlier step, counted from 0, to go on from there."""
        ...

    def fork(self, place: Any, said: list[Said]) -> None:
        """Go on from an earlier step with what is new; what was kept stays."""
        ...

    def states(self, most: int) -> int | None:
        """Return how many of the last states can be listed; None: it keeps but one."""
        ...

    def load(self) -> int:
        """Read the conversation; return how many messages it has."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Harken:
    """A commit a step; a fork is a commit with an earlier parent."""

    def __init__(self, folder: Path) -> None:
        from harken.context import checkpoint, history, materialize
        from harken.core.messages import Message
        from harken.store.sqlite.store import SqliteStore

        self._checkpoint, self._history, self._whole = (
            checkpoint,
            history.commit_history,
            materialize,
        )
        self._message = Message
        self._origin = checkpoint.CommitOrigin(principal="bench")
        self._store = SqliteStore(folder / "store.db")
        self._last: Any = None
        self._steps = 0

    def add(self, said: list[Said]) -> None:
        self._last = self._commit(self._last, said, f"2026-01-01T00:00:00.{self._steps:06d}Z")
        self._steps += 1

    def at(self, step: int) -> Any:
        chain = self._history(self._store, self._tip())
        return chain[len(chain) - 1 - step].id

    def fork(self, place: Any, said: list[Said]) -> None:
        self._commit(place, said, "2026-01-01T00:00:00Z")

    def _commit(self, parent: Any, said: list[Said], time: str) -> Any:
        messages = [self._message(role, text) for role, text in said]
        draft = self._checkpoint.CommitDraft(
            messages=messages, parent=parent, created_at=time, origin=self._origin
        )
        return self._checkpoint.checkpoint(self._store, draft)

    def _tip(self) -> Any:
        return self._store.latest_commit("bench", "2100-01-01T00:00:00Z")

    def states(self, most: int) -> int:
        return len(self._history(self._store, self._tip(), most))

    def load(self) -> int:
        return len(self._whole.materialize(self._store, self._tip()).messages)

    def close(self) -> None:
        self._store.close()


class Floor:
    """Compressed texts by their hash, and commits that name a parent and what is new."""

    def __init__(self, folder: Path) -> None:
        import zstandard

        self._pack = zstandard.ZstdCompressor().compress
        self._open = zstandard.ZstdDecompressor().decompress
        self._file = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("CREATE TABLE IF NOT EXISTS object (hash BLOB PRIMARY KEY, data BLOB)")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS step (id INTEGER PRIMARY KEY, parent INTEGER, said BLOB)"
        )
        self._last = self._file.execute("SELECT max(id) FROM step").fetchone()[0]

    def add(self, said: list[Said]) -> None:
        self._last = self._commit(self._last, said)

    def at(self, step: int) -> int:
        return step + 1

    def fork(self, place: int, said: list[Said]) -> None:
        self._commit(place, said)

    def _commit(self, parent: int | None, said: list[Said]) -> int | None:
        bodies = [json.dumps(one).encode() for one in said]
        hashes = [hashlib.blake2b(body, digest_size=32).digest() for body in bodies]
        rows = [(hash_, self._pack(body)) for hash_, body in zip(hashes, bodies, strict=True)]
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany("INSERT OR IGNORE INTO object VALUES (?, ?)", rows)
        query = "INSERT INTO step (parent, said) VALUES (?, ?)"
        made = self._file.execute(query, [parent, b"".join(hashes)])
        self._file.execute("COMMIT")
        return made.lastrowid

    def states(self, most: int) -> int:
        query = "SELECT * FROM step ORDER BY id DESC LIMIT ?"
        return len(self._file.execute(query, [most]).fetchall())

    def load(self) -> int:
        rows = self._file.execute(
            "WITH RECURSIVE up(id, parent, said) AS (SELECT * FROM step WHERE id = ? UNION ALL"
            " SELECT s.* FROM up JOIN step s ON s.id = up.parent) SELECT said FROM up",
            [self._last],
        )
        hashes = [said[at : at + 32] for (said,) in rows for at in range(0, len(said), 32)]
        one = "SELECT data FROM object WHERE hash = ?"
        return len(
            [json.loads(self._open(self._file.execute(one, [h]).fetchone()[0])) for h in hashes]
        )

    def close(self) -> None:
        self._file.close()


class LangGraph:
    """`SqliteSaver`: each checkpoint has the whole state."""

    def __init__(self, folder: Path) -> None:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._empty = empty_checkpoint
        self._file = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
        self._saver: Any = SqliteSaver(self._file)
        self._messages: list[dict[str, str]] = []
        self._config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self._steps = 0

    def add(self, said: list[Said]) -> None:
        self._messages += _dicts(said)
        values = {"messages": self._messages}
        self._config = self._put(self._config, values, self._steps)
        self._steps += 1

    def _put(self, config: Any, values: dict[str, Any], step: int) -> Any:
        versions: Any = {"messages": f"{step:032d}.0"}
        made: Any = {**self._empty(), "channel_values": values, "channel_versions": versions}
        return self._saver.put(config, made, {"source": "loop", "step": step}, versions)

    def at(self, step: int) -> Any:
        return next(self._saver.list(_THREAD, filter={"step": step})).config

    def fork(self, place: Any, said: list[Said]) -> None:
        before = self._saver.get_tuple(place).checkpoint["channel_values"]["messages"]
        self._put(place, {"messages": [*before, *_dicts(said)]}, self._steps)

    def states(self, most: int) -> int:
        return len(list(self._saver.list(_THREAD, limit=most)))

    def load(self) -> int:
        return len(self._saver.get_tuple(_THREAD).checkpoint["channel_values"]["messages"])

    def close(self) -> None:
        self._file.close()


class LangGraphDelta(LangGraph):
    """`SqliteSaver` as a `DeltaChannel` uses it: a checkpoint without the state, and its writes."""

    def add(self, said: list[Said]) -> None:
        if self._steps:
            self._saver.put_writes(self._config, [("messages", _dicts(said))], "task")
        self._config = self._put(self._config, {} if self._steps else _seed(said), self._steps)
        self._steps += 1

    def fork(self, place: Any, said: list[Said]) -> None:
        self._saver.put_writes(place, [("messages", _dicts(said))], "fork")
        self._put(place, {}, self._steps)

    def load(self) -> int:
        config = self._saver.get_tuple(_THREAD).config
        asked = self._saver.get_delta_channel_history(config=config, channels=["messages"])
        found = asked["messages"]
        writes = [message for _, _, value in found["writes"] for message in value]
        return len([*found["seed"].value, *writes])


class OpenAIAgents:
    """`SQLiteSession`: the items of a conversation; a fork is a copy of those that came before."""

    def __init__(self, folder: Path) -> None:
        from agents import SQLiteSession

        self._path, self._kind = folder / "agents.db", SQLiteSession
        self._session: Any = SQLiteSession("t", self._path)
        self._run = asyncio.Runner().run
        self._forks = 0

    def add(self, said: list[Said]) -> None:
        self._run(self._session.add_items(_dicts(said)))

    def at(self, step: int) -> int:
        return 2 * (step + 1)

    def fork(self, place: int, said: list[Said]) -> None:
        self._forks += 1
        copy: Any = self._kind(f"t{self._forks}", self._path)
        items = self._run(self._session.get_items())[:place]
        self._run(copy.add_items([*items, *_dicts(said)]))
        copy.close()

    def states(self, most: int) -> None:
        del most

    def load(self) -> int:
        return len(self._run(self._session.get_items()))

    def close(self) -> None:
        self._session.close()


_THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def _dicts(said: list[Said]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in said]


def _seed(said: list[Said]) -> dict[str, Any]:
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    return {"messages": _DeltaSnapshot(_dicts(said))}


KEEPERS: dict[str, Callable[[Path], Keeper]] = {
    "Harken": Harken,
    "bare floor": Floor,
    "LangGraph": LangGraph,
    "LangGraph delta": LangGraphDelta,
    "OpenAI Agents": OpenAIAgents,
}
