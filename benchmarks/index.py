"""The index: what facts and search cost beside an import, and how quickly something is found.

The transcripts lie beside the project; where they are not, nothing is measured. What is measured
against each other is measured in turn in one process, in CPU seconds; a search on the wall, as a
person waits for it: its hits with their excerpts, 20 of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.importing import DATA, decoded
from benchmarks.measure import RUNS, Row, cpu_s, median, spread, wall_s
from harken.capture.importing import Importer
from harken.capture.sources import File, files_in
from harken.core.commits import CommitId, Entry, delta_of
from harken.index.catalogue import Catalogue
from harken.index.facts import Facts
from harken.index.search import Asked, search
from harken.store.base import Batch, Stored
from harken.store.sqlite import SqliteStore

COPIES = 7
"""The data is there so many times more, in sessions of their own, so that words have many hits."""
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
    files = list(files_in(DATA))
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
            closing(Facts(facts_file)) as facts,
        ):
            index = cpu_s(lambda: facts.update(store, catalogue))
            again = cpu_s(lambda: facts.update(store, catalogue))
        sizes = facts_file.stat().st_size, store_file.stat().st_size
    return _Run(min(decode, cpu_s(lambda: decoded(bodies))), bring, index, again, *sizes)


def _searches() -> list[Row]:
    """Ask all queries, several times; the first time opens what is needed."""
    with _home() as folder, closing(SqliteStore(folder / "store.db")) as store:
        with closing(_catalogue(folder)) as catalogue:
            list(Importer(store, catalogue).run(list(files_in(DATA))))
        _copy(store)
        with closing(Facts(folder / "facts.db")) as facts:
            facts.update(store)
            (messages,) = facts.database.execute("SELECT count(*) FROM messages").fetchone()
            totals = [search(facts, store, Asked(words=words)).total for words in QUERIES]
            runs = [
                sorted(wall_s(partial(_ask, facts, store, words)) for words in QUERIES)
                for _ in range(RUNS)
            ]
    note = (
        f"{len(QUERIES)} queries in {messages:,} messages, "
        f"{sum(total >= 10_000 for total in totals)} with 10,000 and more hits"
    )
    at = -(-95 * len(QUERIES) // 100) - 1
    return [
        Row("search, p95: ms", spread([run[at] for run in runs], 1e3, 1), "< 30", note),
        Row("search, median: ms", spread([median(run) for run in runs], 1e3, 1)),
    ]


def _ask(facts: Facts, store: SqliteStore, words: str) -> int:
    return sum(1 for _ in search(facts, store, Asked(words=words)).hits)


def _copy(store: SqliteStore) -> None:
    """Write all commits again, in other sessions: with other native ids, so each is another."""
    names = store.newest(1 << 40)[::-1]
    stored = list(store.commits(names).values())
    deltas = store.deltas([one.commit.artifact for one in stored])
    for number in range(COPIES):
        made: dict[CommitId, CommitId] = {}
        for at in range(0, len(stored), 500):
            some = [_other(one, deltas, made, f"-{number}") for one in stored[at : at + 500]]
            store.write(
                Batch(
                    deltas={one.commit.artifact: entries for one, entries in some},
                    commits=[(one.commit, one.notes) for one, _ in some],
                )
            )


def _other(
    one: Stored, deltas: Mapping[Any, list[Entry]], made: dict[CommitId, CommitId], end: str
) -> tuple[Stored, list[Entry]]:
    """Return a commit as one of another session, and its entries."""
    commit = one.commit
    entries = [_renamed(entry, end) for entry in deltas.get(commit.artifact, [])]
    runtime, _, rest = commit.principal.partition(":")
    session = commit.session_id + end
    other = msgspec.structs.replace(
        commit,
        parent=made.get(commit.parent) if commit.parent is not None else None,
        artifact=delta_of(entries)[0],
        session_id=session,
        principal=f"{runtime}:{session}{rest.removeprefix(commit.session_id)}",
    )
    made[one.id] = other.id
    return Stored(other.id, other, one.notes), entries


def _renamed(entry: Entry, end: str) -> Entry:
    """Return an entry with other native ids."""
    source = dict(entry.source or {})
    for name in ("uuid", "id"):
        if isinstance(source.get(name), str):
            source[name] += end
    if "uuids" in source:
        source["uuids"] = [f"{uuid}{end}" for uuid in source["uuids"]]
    return msgspec.structs.replace(entry, source=source or None)


def _catalogue(folder: Path) -> Catalogue:
    return Catalogue(folder / "index.db")


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
