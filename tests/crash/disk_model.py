"""A disk that may keep a name or a content that was not synced, or lose it.

An operation runs once; before each of its steps the disks that a cut could leave are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from tests.crash.call_trace import record_calls

Disk = dict[str, bytes]
"""The files of a folder after a cut."""


@dataclass
class CutModel:
    """The names and contents of a folder, now and on the disk, and the possible disks of cuts."""

    folder: Path
    names: dict[str, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    disks: list[Disk] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names, self.contents = self._scan()

    def _scan(self) -> tuple[dict[str, int], dict[int, bytes]]:
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        inodes = {str(path.relative_to(self.folder)): path.stat().st_ino for path in paths}
        contents = {path.stat().st_ino: path.read_bytes() for path in paths}
        return inodes, contents

    def before_step(self, operation: str) -> None:
        """Record the disks that a cut now could leave, and what the step will make durable."""
        names, contents = self._scan()
        durable = {inode: self.contents.get(inode, b"") for inode in contents} | self.contents
        for tree, data in product((self.names, names), (durable, durable | contents)):
            disk = {name: data.get(inode, b"") for name, inode in tree.items()}
            if disk not in self.disks:
                self.disks.append(disk)
        if operation.startswith("sync"):
            self.contents = durable | contents
        if operation == "sync_folder" or (operation == "sync" and self._is_spool):
            self.names = names

    @property
    def _is_spool(self) -> bool:
        """Whether a sync is that of a folder, too: the spool holds its folder open."""
        return self.folder.name == "spool" and not [*self.folder.glob("*.part")]


def cut(folder: Path, operation: Callable[[], object]) -> tuple[list[Disk], list[Disk]]:
    """Run an operation. Return the disks of cuts before its steps, and after its end."""
    model = CutModel(folder)
    with record_calls(model.before_step):
        operation()
    before, model.disks = model.disks, []
    model.before_step("end")
    return before, model.disks


def restore(disk: Disk, folder: Path) -> Path:
    """Write a disk to a new folder."""
    for name, data in disk.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def restored(disks: list[Disk], tmp_path: Path) -> Iterator[Path]:
    for number, disk in enumerate(disks):
        folder = tmp_path / f"disk-{len(disks)}-{number}"
        folder.mkdir(parents=True)
        yield restore(disk, folder)
