"""The index: what facts and search cost beside an import, and how quickly something is found.

The transcripts lie beside the project; where they are not, nothing is measured. What is measured
against each other is measured in turn in one process, in CPU seconds; a search on the wall, as a
person waits for it: its hits with their excerpts, 20 of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.importing import DATA, decoded
from benchmarks.measure import RUNS, Row, cpu_s, median, spread, wall_s
from harken.capture.files.importer import Importer
from harken.capture.files.sources import File, iter_files
from harken.core.commits import Hash
from harken.index.catalogue import Catalogue
from harken.index.ingest.messages import MessageRow, Messages
from harken.index.ingest.row_writer import RowWriter
from harken.index.search import SearchQuery, search
from harken.index.session_index import SessionIndex
from harken.index.stored_text import read_stored_texts
from harken.store.sqlite.store import SqliteStore

COPIES, MANY_COPIES = 7, 68
"""The data is there so many times more, so that words have many hits: some messages, and half a
million."""
QUERIES = (
    # words of one hit in the data, of some, and of none
    *("diffusion", "intrinsic", "ceilings", "auditor", "encouraging", "throughput", "idempotency"),
    *("hypothesis", "subprocesses", "temperature", "mkfifo", "kubernetes"),
    # of a hundred, to thousands
    *("compaction", "refactor", "sqlite", "timeout", "pytest", "benchmark", "merge conflict"),
    *("exit code", "permission denied", "package.json", "src/index.ts", "readme -license"),
    *("github OR gitlab", "npm OR pnpm install", "todo fixme", "stack trace"),
    # of ten thousand and more
    *("the", "a", "to", "file", "in", "of", "and", "is", "test file", "the -of", "error OR failed"),
    # phrases
    *('"of the"', '"error handling"', '"in the file"', '"it is"', '"pull request"'),
    # beginnings
    *("conf*", "comp*", "deploy*", "test*", "sess*", "err*"),
)


@dataclass(frozen=True, slots=True)
class _Run:
    """CPU seconds of one run."""

    decode: float
    bring: float
    index: float
    again: float
    size_bytes: int
    store_bytes: int


def rows() -> list[Row]:
    """Measure reading what is new, and searches."""
    if not DATA.is_dir():
        return [Row("index", "-", "", "the real transcripts are not here")]
    files = list(iter_files(DATA))
    runs = [_run(files) for _ in range(RUNS)]
    last = runs[-1]
    return [
        Row(
            "facts and search index / import",
            spread([run.index / run.bring for run in runs], 1, 2),
            "",
            f"{last.size_bytes / 1e6:.1f} MB beside a store of {last.store_bytes / 1e6:.1f} MB",
        ),
        Row(
            "import with facts and search index / decode",
            spread([run.decode / (run.bring + run.index) for run in runs], 1),
            ">= 0.08",
            f"decoding took {median([run.decode for run in runs]):.2f} s",
        ),
        Row(
            "facts when nothing is new: ms",
            spread([run.again for run in runs], 1e3, 2),
        ),
        *_searches(),
    ]


def _run(files: Sequence[File]) -> _Run:
    """Decode and import files, read the facts, and read them again."""
    bodies = [file.path.read_bytes() for file in files]
    decode = cpu_s(lambda: decoded(bodies))
    with _home() as folder:
        store_file, facts_file = folder / "store.db", folder / "facts.db"
        with closing(SqliteStore(store_file)) as store, closing(_catalogue(folder)) as catalogue:
            bring = cpu_s(lambda: list(Importer(store, catalogue).run(files)))
        with (
            closing(SqliteStore(store_file)) as store,
            closing(_catalogue(folder)) as catalogue,
            closing(SessionIndex(facts_file)) as facts,
        ):
            index = cpu_s(lambda: facts.update(store, catalogue))
            again = cpu_s(lambda: facts.update(store, catalogue))
        sizes = facts_file.stat().st_size, store_file.stat().st_size
    return _Run(min(decode, cpu_s(lambda: decoded(bodies))), bring, index, again, *sizes)


def _searches() -> list[Row]:
    """Ask all queries of some messages, and then of many."""
    with _home() as folder, closing(SqliteStore(folder / "store.db")) as store:
        with closing(_catalogue(folder)) as catalogue:
            list(Importer(store, catalogue).run(list(iter_files(DATA))))
        with closing(SessionIndex(folder / "facts.db")) as facts:
            facts.update(store)
            copies = _Copies(facts, store)
            copies.plant(1, COPIES)
            some = _asked(facts, store, "search")
            copies.plant(COPIES + 1, MANY_COPIES)
            return [*some, *_asked(facts, store, "search in very many")]


def _asked(facts: SessionIndex, store: SqliteStore, what: str) -> list[Row]:
    """Ask all queries, several times; the first time opens what is needed."""
    [(messages,)] = facts.database.execute("SELECT count(*) FROM messages").fetchall()
    found = [search(facts, store, SearchQuery(text=words)) for words in QUERIES]
    runs = [
        sorted(wall_s(partial(_ask, facts, store, words)) for words in QUERIES) for _ in range(RUNS)
    ]
    note = (
        f"{len(QUERIES)} queries in {messages:,} messages, "
        f"{sum(one.is_more for one in found)} with more than 10,000 hits"
    )
    at = -(-95 * len(QUERIES) // 100) - 1
    return [
        Row(f"{what}, p95: ms", spread([run[at] for run in runs], 1e3, 1), "< 30", note),
        Row(f"{what}, median: ms", spread([median(run) for run in runs], 1e3, 1)),
    ]


def _ask(facts: SessionIndex, store: SqliteStore, words: str) -> int:
    return sum(1 for _ in search(facts, store, SearchQuery(text=words)).hits)


class _Copies:
    """Messages that are said again, weeks before; the store has no more than it had."""

    def __init__(self, facts: SessionIndex, store: SqliteStore) -> None:
        self.database = facts.database
        self.rows: list[tuple[Any, ...]] = self.database.execute(_ROWS).fetchall()
        self.said = read_stored_texts(store, [Hash(row[0].hex()) for row in self.rows])

    def plant(self, first: int, last: int) -> None:
        """Enter these copies, several at once: the first is of a week before, and so on."""
        for at in range(first, last + 1, _AT_ONCE):
            self.database.execute("BEGIN IMMEDIATE")
            messages = Messages(RowWriter(self.database))
            for weeks in range(at, min(at + _AT_ONCE, last + 1)):
                for row in self.rows:
                    messages.add(self._before(row, weeks))
            messages.write()
            self.database.execute("COMMIT")

    def _before(self, row: tuple[Any, ...], weeks: int) -> MessageRow:
        name, commit, position, session, agent, kind, is_repeat, time = row
        return MessageRow(
            commit=commit,
            position=position,
            session=session,
            agent=agent,
            kind=kind,
            time_us=time - weeks * _WEEK_US,
            hash=name,
            text=self.said[Hash(name.hex())],
            is_repeat=bool(is_repeat),
        )


_WEEK_US = 7 * 24 * 60 * 60 * 1_000_000
_AT_ONCE = 8
_ROWS = """
SELECT hash, commit_id, position, m.session_id, m.agent_id, kind, is_repeat,
ifnull(m.time, c.time) FROM messages m JOIN commits c ON c.id = m.commit_id
"""


def _catalogue(folder: Path) -> Catalogue:
    return Catalogue(folder / "index.db")


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
