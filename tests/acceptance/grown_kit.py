"""Imports of a file that grows, with and without the memory of earlier imports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.capture.files.follower import FileFollower
from harken.core.commits import ArtifactRef
from harken.index.catalogue import Catalogue
from harken.store.base import ObjectKind, Store
from harken.store.imported_files import read_imported_files
from harken.store.memory import MemoryStore


@dataclass
class GrowingFile:
    """A file and its imports into a store. `is_whole`: it is always read from its beginning."""

    folder: Path
    name: str
    is_whole: bool = False
    store: Store = field(default_factory=MemoryStore)
    pause_s: float = 0.0
    """The time before each import."""
    now_s: float = 0.0
    _follower: FileFollower | None = None

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.path = self.folder / self.name
        self.catalogue = self._open()

    def _open(self) -> Catalogue:
        return Catalogue(self.folder.with_name(self.folder.name + ".index"))

    def restart(self) -> None:
        """Continue in a new process: only what is on the disk is known."""
        self.catalogue.close()
        self._follower, self.catalogue = None, self._open()

    def load(self, data: bytes, *, is_replaced: bool = False) -> None:
        """Import the file with these bytes."""
        if is_replaced:
            self.path.unlink()
        self.path.write_bytes(data)
        if self.is_whole:
            self.catalogue.note_reading(str(self.path), None)
        self.now_s += self.pause_s
        if self._follower is None:
            self._follower = FileFollower(self.store, self.catalogue, clock=lambda: self.now_s)
        self._follower.note_changed([self.path])
        list(self._follower.read(to_the_end=True))

    @property
    def report(self) -> dict[str, Any]:
        """The report of the last import, without the path."""
        [entry] = self.catalogue.find_entries([str(self.path)]).values()
        return {**json.loads(entry.record), "source": ""}

    def state(self) -> dict[str, Any]:
        """Return all that an import changes."""
        commits = {obj.name for obj in self.store.iter_objects() if obj.kind is ObjectKind.COMMIT}
        labels = {label: sorted(names) for label, names in self.store.commits_by_label().items()}
        return {
            "report": self.report,
            "commits": commits,
            "labels": labels,
            "raw": {file.raw for file in read_imported_files(self.store).values()},
            "spawners": [
                set(file.record.spawners) for file in read_imported_files(self.store).values()
            ],
        }

    def raw(self) -> bytes:
        return self.store.raw(ArtifactRef(self.report["raw"]))

    def close(self) -> None:
        self.catalogue.close()


def check_growth(
    folder: Path,
    name: str,
    states: Iterable[bytes],
    restarts: Iterable[bool],
    *,
    pause_s: float = 0.0,
) -> tuple[GrowingFile, GrowingFile]:
    """Import a file in several states, in both ways, and compare the outcome after each.

    pause_s: the time before each import. In 0 s, a change of earlier bytes is not noticed.
    """
    ours = GrowingFile(folder / "a" / "b", name, pause_s=pause_s)
    whole = GrowingFile(folder / "c" / "b", name, is_whole=True)
    with closing(ours), closing(whole):
        for data, is_restarted in zip(states, restarts, strict=True):
            for file in (ours, whole):
                if is_restarted:
                    file.restart()
                file.load(data)
            assert ours.state() == whole.state()
            assert ours.report["raw"] is None or ours.raw() == data
    return ours, whole
