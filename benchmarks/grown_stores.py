"""Imports of 10 more lines into stores in memory, in two tiers and at a service.

At a service, the bytes of all requests and responses are counted by a relay on loopback.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.grown import NEW_LINES, SMALLEST_BYTES, append_lines, write_rounds
from benchmarks.growth import FACTORS, row
from benchmarks.measure import RUNS, Row, cpu_s, median
from benchmarks.service import serving
from benchmarks.written_sessions import codex_lines
from harken.capture.files.grown_file import RunningHashes
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.core.commits import ArtifactRef
from harken.index.catalogue import Catalogue
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore

REMOTE_FACTORS = FACTORS[:3]
READ_BYTES = 65536


class Relay:
    """Forwards connections to a port, and counts their bytes."""

    def __init__(self, port: int) -> None:
        """Listen on a free port."""
        self._port, self.bytes = port, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for source, target in ((client, server), (server, client)):
                    thread = threading.Thread(target=self._copy, args=(source, target), daemon=True)
                    thread.start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                self.bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


class _Session:
    """A session that is imported into a store while it grows."""

    def __init__(self, folder: Path, store: Store, size: int) -> None:
        """Write a session and import it."""
        self.store, self._lines = store, codex_lines()
        self._path, self._hashes = folder / f"{size}.jsonl", RunningHashes(lambda: 0.0)
        self._catalogue = Catalogue(folder / f"{size}.index")
        write_rounds(self._path, self._lines, size)
        self.raw = ArtifactRef("")
        self.load()

    def grow(self) -> None:
        """Append lines."""
        append_lines(self._path, self._lines)

    def load(self) -> None:
        """Import the file."""
        importer = Importer(self.store, self._catalogue, hashes=self._hashes)
        [result] = importer.run([*iter_files(self._path)])
        self.raw = ArtifactRef(result.report.raw or "")

    def measure(self, read: Callable[[], float]) -> tuple[float, float]:
        """Return the median CPU seconds of an import, and the median growth of a value."""
        seconds: list[float] = []
        values: list[float] = []
        for run in range(2 * RUNS + 2):
            self.grow()
            before = read()
            seconds += [cpu_s(self.load)] * (run >= 2)
            values += [read() - before] * (run >= 2)
        return median(seconds), median(values)

    def close(self) -> None:
        """Close the catalogue."""
        self._catalogue.close()


def _local_ms(open_store: Callable[[Path], Store], size: int) -> float:
    with (
        tempfile.TemporaryDirectory() as name,
        closing(open_store(Path(name))) as store,
        closing(_Session(Path(name), store, size)) as session,
    ):
        return 1e3 * session.measure(lambda: 0.0)[0]


def _open_tiered(folder: Path) -> Store:
    return TieredStore(SqliteStore(folder / "local.db"), MemoryStore())


def _remote_kb(size: int) -> tuple[float, float]:
    """Return the KB over HTTP to import new lines, and to fetch the file elsewhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder / "home", "--port", "0") as url:
            relay = Relay(int(url.rpartition(":")[2]))
            token = (folder / "home" / "service.token").read_text().strip()
            backing = RemoteStore(relay.address, token=token)
            with (
                closing(relay),
                closing(RemoteStore(relay.address, token=token)) as store,
                closing(TieredStore(SqliteStore(folder / "other.db"), backing)) as other,
                closing(_Session(folder, store, size)) as session,
            ):
                _, kilobytes = session.measure(lambda: relay.bytes / 1000)
                fetched: list[float] = []
                for _ in range(RUNS + 1):
                    before = relay.bytes
                    for _ in other.read_chunks(session.raw):
                        pass
                    fetched.append((relay.bytes - before) / 1000)
                    session.grow()
                    session.load()
    return kilobytes, median(fetched[1:])


def rows() -> list[Row]:
    """Measure imports of a session that grew into stores other than a file."""
    sizes = [SMALLEST_BYTES * factor for factor in FACTORS]
    note = f"n: {SMALLEST_BYTES / 1e6:.0f} MB, Codex"
    what = f"{NEW_LINES} more lines, watched"
    memory = [_local_ms(lambda _: MemoryStore(), size) for size in sizes]
    tiered = [_local_ms(_open_tiered, size) for size in sizes]
    remote = [_remote_kb(SMALLEST_BYTES * factor) for factor in REMOTE_FACTORS]
    sent, fetched = zip(*remote, strict=True)
    return [
        row(f"import into memory, {what}", memory, "ms CPU", note=note),
        row(f"import over a tiered store, {what}", tiered, "ms CPU", note=note),
        _remote_row(f"import into a service, {what}: KB over HTTP", sent),
        _remote_row(f"fetch from a service, {what}: KB over HTTP", fetched),
    ]


def _remote_row(what: str, values: Sequence[float]) -> Row:
    sizes = ", ".join(f"{SMALLEST_BYTES * factor / 1e6:.0f}" for factor in REMOTE_FACTORS)
    text = ", ".join(f"{value:.0f}" for value in values)
    note = f"{sizes} MB, Codex; the last chunk, of up to 1 MB, and the new ones"
    return Row(what, text, "flat", note)
