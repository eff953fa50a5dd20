"""A home that grows to given numbers of sessions, with its store in a file or on servers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec

from benchmarks.scale.sessions import SHAPES, GeneratedSession, generate_session, merge_batches
from harken.capture.files.report import Report
from harken.core.commits import CommitId
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.index.session_index import SessionIndex
from harken.store import open_store
from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore

GROUP = 500
"""Sessions are written in groups of so many, and then indexed."""
SAMPLES = 20
"""Names are read of so many sessions, spread over all."""
SAMPLE_COMMITS = 60
"""The sampled sessions have about so many commits, if there are such, at all sizes."""


class Growth(msgspec.Struct):
    """The size of a home, and the CPU seconds of this process that writing it took.

    A home may have been copied without its times.
    """

    sessions: int = 0
    commits: int = 0
    messages: int = 0
    write_s: float = 0.0
    index_s: float = 0.0
    timed_messages: int = 0
    """The number of messages whose writing is in these times."""


class Sample(msgspec.Struct, frozen=True):
    """The newest commit of a session, and a label that only this commit has."""

    tip: CommitId
    label: str


class ScaledHome:
    """A home of generated sessions."""

    def __init__(self, folder: Path, *, shape: str = "full", url: str | None = None) -> None:
        """Create the home, or open that of an earlier run. url: of a store on servers."""
        self.folder, self.shape, self.url = folder, shape, url
        folder.mkdir(parents=True, exist_ok=True)
        self._state_file = folder / "growth.json"
        self.growth = Growth()
        if self._state_file.exists():
            self.growth = msgspec.json.decode(self._state_file.read_bytes(), type=Growth)
        if url is not None:
            (folder / "config.toml").write_text(f'[store]\nurl = "{url}"\n')

    def open_store(self) -> Store:
        """Return its store. The caller closes it."""
        return SqliteStore(self.folder / "store.db") if self.url is None else open_store(self.url)

    def open_catalogue(self) -> Catalogue:
        """Return its catalogue of imported files. The caller closes it."""
        return Catalogue(self.folder / "index.db")

    def open_index(self) -> SessionIndex:
        """Return its session index. The caller closes it."""
        return SessionIndex(self.folder / "facts.db")

    def grow(self, sessions: int) -> None:
        """Write and index sessions until there are so many."""
        growth, shape = self.growth, SHAPES[self.shape]
        with (
            closing(self.open_store()) as store,
            closing(self.open_catalogue()) as catalogue,
            closing(self.open_index()) as index,
        ):
            while growth.sessions < sessions:
                end = min(sessions, growth.sessions + GROUP)
                for start in range(growth.sessions, end, shape.sessions_per_write):
                    numbers = range(start, min(end, start + shape.sessions_per_write))
                    self._write(store, catalogue, [generate_session(n, shape) for n in numbers])
                catalogue.commit()
                start_s = time.process_time()
                index.update(store, catalogue)
                growth.index_s += time.process_time() - start_s
                growth.sessions = end
                self._state_file.write_bytes(msgspec.json.encode(growth))

    def _write(
        self, store: Store, catalogue: Catalogue, sessions: Sequence[GeneratedSession]
    ) -> None:
        batch = merge_batches(session.batch for session in sessions)
        start_s = time.process_time()
        store.write(batch)
        self.growth.write_s += time.process_time() - start_s
        for session in sessions:
            _note(catalogue, session)
            self.growth.commits += session.commits
            self.growth.messages += session.messages
            self.growth.timed_messages += session.messages

    def size_bytes(self) -> int:
        """Return the size of the files of the home: the store, if it is there, and the index."""
        return sum(file.stat().st_size for file in self.folder.glob("*.db*"))

    def sample_sessions(self) -> list[Sample]:
        """Return sessions of similar length that are spread over all."""
        with closing(self.open_catalogue()) as catalogue:
            reports = [msgspec.json.decode(raw, type=Report) for raw in catalogue.records()]
        reports.sort(key=lambda report: abs(report.commits - SAMPLE_COMMITS))
        limit = SAMPLE_COMMITS // 4
        similar = [r for r in reports if abs(r.commits - SAMPLE_COMMITS) < limit] or reports
        tips = [CommitId(report.tips[0].ctx) for report in similar]
        tips = Random(0).sample(tips, min(SAMPLES, len(tips)))
        with closing(self.open_store()) as store:
            commits = store.commits(tips)
        return [Sample(tip, commits[tip].notes.labels[0]) for tip in tips]


def _note(catalogue: Catalogue, session: GeneratedSession) -> None:
    record = msgspec.json.encode(session.report)
    fingerprint = FileFingerprint(len(record), 1000 * session.end_us, b"")
    catalogue.note(session.report.source, fingerprint, record)
