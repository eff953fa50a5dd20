"""The disk under SQLite: what its files contain after a power cut before any of its steps.

A copy of SQLite's own VFS (the interface to the operating system) reports each write, truncation,
sync and deletion before it is made. SQLite and the code under test are the real ones. A synced
write survives; of the later writes to a file, any part may be lost, in any order, and the last one
may be torn. SQLite relies on the rest of a sector surviving a torn write (powersafe overwrite).
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

SECTOR = 512
JOURNAL = "-"
"""In the names of journals and write-ahead logs."""
_OPEN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", _OPEN),
        ("delete", _DELETE),
        ("others", ctypes.c_void_p * 14),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        ("others", ctypes.c_void_p * 13),
    )


class _File(ctypes.Structure):
    """The beginning of `sqlite3_file`."""

    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


Change: TypeAlias = tuple[int, bytes | None]
"""A write at an offset, or a truncation to a size."""
Image: TypeAlias = dict[str, bytes]
"""The files of a folder after a cut."""


@dataclass
class _DiskFile:
    """A file: its safe content, and the changes since the last sync."""

    safe: bytes = b""
    pending: list[Change] = field(default_factory=list)
    is_deleted: bool = False
    """Whether it was deleted. The deletion is lost unless the folder is synced."""
    is_named: bool = False
    """Whether its name is safe. SQLite syncs the folder with the first sync of a new journal."""

    def content(self, changes: Sequence[Change]) -> bytes:
        data = bytearray(self.safe)
        for offset, written in changes:
            if written is None:
                del data[offset:]
                continue
            data.extend(bytes(max(0, offset - len(data))))
            data[offset : offset + len(written)] = written
        return bytes(data)


@dataclass
class SqliteDisk:
    """The files in a folder, as a power cut would leave them."""

    folder: Path
    dice: Random
    is_syncing: bool = True
    """Whether syncs have an effect. Without, a test must find losses."""
    files: dict[str, _DiskFile] = field(default_factory=dict)
    on_step: Callable[[str], None] = lambda _: None
    """Called before each step with its name."""

    def __post_init__(self) -> None:
        for path in self.folder.iterdir():
            self.files[path.name] = _DiskFile(path.read_bytes(), is_named=True)

    def images(self) -> Iterator[Image]:
        """Yield images of the disk after a cut now: without the later changes, with all, and
        with any of them.
        """
        choices: list[Callable[[list[Change]], list[Change]]] = [
            lambda _: [],
            lambda changes: changes,
            lambda changes: changes[: self.dice.randrange(len(changes) + 1)],
            lambda changes: [change for change in changes if self.dice.random() < 0.5],
            self._tear,
        ]
        for number, choose in enumerate(choices):
            yield {
                name: file.content(choose(file.pending))
                for name, file in self.files.items()
                if not (file.is_deleted and (number == 1 or self.dice.random() < 0.5))
            }

    def _tear(self, changes: list[Change]) -> list[Change]:
        offset, data = changes[-1] if changes else (0, None)
        if data is None:
            return changes
        return [*changes[:-1], (offset, data[: self.dice.randrange(0, len(data) + 1, SECTOR)])]

    def change(self, name: str, offset: int, data: bytes | None) -> None:
        """Note a write or a truncation before it is made."""
        self.on_step("write" if data is not None else "truncate")
        file = self.files.setdefault(name, _DiskFile())
        if file.is_deleted:
            file = self.files[name] = _DiskFile()
        file.pending.append((offset, data))

    def sync(self, name: str) -> None:
        """Make the changes of a file safe."""
        self.on_step("sync")
        file = self.files.setdefault(name, _DiskFile())
        if self.is_syncing:
            file.safe, file.pending = file.content(file.pending), []
            if not file.is_named and JOURNAL in name:
                self._sync_folder()
            file.is_named = True

    def delete(self, name: str, *, is_synced: bool) -> None:
        """Delete a file, and sync the folder if SQLite asks for it."""
        self.on_step("delete")
        if name in self.files:
            self.files[name].is_deleted = True
        if is_synced:
            self._sync_folder()

    def _sync_folder(self) -> None:
        self.files = {name: file for name, file in self.files.items() if not file.is_deleted}


def _load_library() -> Any:
    library = ctypes.CDLL(_sqlite3.__file__)
    try:
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        library.sqlite3_vfs_register.argtypes = [ctypes.POINTER(_Vfs), ctypes.c_int]
        library.sqlite3_vfs_unregister.argtypes = [ctypes.POINTER(_Vfs)]
    except AttributeError:
        pytest.skip("the SQLite of this Python has no public symbols")
    return library


@contextmanager
def sqlite_on(disk: SqliteDisk) -> Iterator[None]:
    """Let files that SQLite opens in this folder report their steps to a disk."""
    library = _load_library()
    base = library.sqlite3_vfs_find(None)
    if base.contents.version < 3:
        pytest.skip("the VFS of this SQLite is too old")
    vfs = _Vfs.from_buffer_copy(base.contents)
    hooks = _Hooks(disk, base.contents)
    vfs.name = b"recording"
    vfs.open, vfs.delete = hooks.open, hooks.delete
    library.sqlite3_vfs_register(ctypes.byref(vfs), 1)
    try:
        yield
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(vfs))
        library.sqlite3_vfs_register(base, 1)


class _Hooks:
    """The functions that SQLite calls in place of those of its VFS."""

    def __init__(self, disk: SqliteDisk, base: _Vfs) -> None:
        self._disk, self._base = disk, base
        self._methods: list[tuple[_Methods, _Methods]] = []
        """Methods of open files, original and replaced: SQLite keeps pointers to them."""
        self.open, self.delete = _OPEN(self._open), _DELETE(self._delete)

    def _open(self, vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code: int = self._base.open(vfs, name, file, flags, out)
        path = self._name(name)
        opened = _File.from_address(file)
        if code == 0 and path is not None and opened.methods:
            original = opened.methods.contents
            replaced = _Methods.from_buffer_copy(original)
            self._replace(replaced, original, path)
            self._methods.append((original, replaced))
            opened.methods = ctypes.pointer(replaced)
        return code

    def _replace(self, replaced: _Methods, original: _Methods, path: str) -> None:
        def write(file: int, data: int, size: int, offset: int) -> int:
            self._disk.change(path, offset, ctypes.string_at(data, size))
            return int(original.write(file, data, size, offset))

        def truncate(file: int, size: int) -> int:
            self._disk.change(path, size, None)
            return int(original.truncate(file, size))

        def sync(file: int, flags: int) -> int:
            self._disk.sync(path)
            return int(original.sync(file, flags))

        replaced.write, replaced.truncate, replaced.sync = (
            _WRITE(write),
            _TRUNCATE(truncate),
            _SYNC(sync),
        )

    def _delete(self, vfs: int, name: int, sync_folder: int) -> int:
        path = self._name(name)
        if path is not None:
            self._disk.delete(path, is_synced=bool(sync_folder))
        return int(self._base.delete(vfs, name, sync_folder))

    def _name(self, name: int | None) -> str | None:
        """Return the name of a file in the folder. Return None for other files."""
        if not name:
            return None
        path = Path(ctypes.string_at(name).decode())
        return path.name if path.parent == self._disk.folder else None
