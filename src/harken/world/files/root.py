r"""`Root`: the folder that agents work in, and the resolution of paths that a model writes.

A path is resolved to a real path, with all symlinks, and then checked: it must be below the folder
or another allowed one. So a file has one name, however it was reached. A name for the model is one
line of readable text; invalid bytes are written as `\xe9`.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from harken.world.result import ToolError

MAX_PATH_BYTES = 4096
"""The maximum path length in bytes: the limit of Linux in one call."""
MAX_PATH_PARTS = 256
"""The maximum number of path components: Python creates nested folders recursively."""
_KERNEL_FOLDERS = ("/proc", "/sys")
"""Kernel folders: reading may block, and writing changes the machine."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


class Root:
    """A folder, and further allowed folders."""

    def __init__(
        self,
        folder: str | Path,
        allowed: Sequence[str | Path] = (),
        readable: Sequence[str | Path] = (),
    ) -> None:
        """Resolve a folder once, now, including symlinks.

        readable: folders in which files may be read, but not changed.
        """
        self.folder = Path(os.path.realpath(folder))
        self.allowed = tuple(Path(os.path.realpath(folder_path)) for folder_path in allowed)
        self.readable = tuple(Path(os.path.realpath(folder_path)) for folder_path in readable)

    def resolve(self, path: str, *, to_change: bool = False) -> Path:
        """Return the real path for a path that a model wrote, whether it exists or not.

        Raises ToolError if the path is invalid or outside. A path below a folder that may not be
        searched is checked by its name.
        """
        decoded = decode_shown_name(self.folder, self._check_text(path))
        real = Path(os.path.realpath(self.folder / decoded))
        if any(real.is_relative_to(kernel) for kernel in _KERNEL_FOLDERS):
            raise ToolError(
                f"{display_name(path)} is a kernel file system, whose files cannot be opened"
            )
        readable = () if to_change else self.readable
        if not any(
            real.is_relative_to(folder) for folder in (self.folder, *self.allowed, *readable)
        ):
            target_note = "" if str(real) == path else f" (a link to {display_name(str(real))})"
            raise ToolError(
                f"{display_name(path)} is outside of the allowed folders{target_note}. "
                f"Paths must be in {self._folders}; the user can allow more folders"
            )
        return real

    def _check_text(self, path: str) -> str:
        """Return a path that the system accepts. Raises ToolError."""
        if not path:
            raise ToolError("the path is empty")
        if "\0" in path:
            raise ToolError("the path has a NUL byte")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"the path {path[:80]!a} is not valid text") from None
        if size > MAX_PATH_BYTES:
            raise ToolError(f"the path is too long: {size} bytes")
        if (names := path.count("/") + 1) > MAX_PATH_PARTS:
            raise ToolError(f"the path is too deep: {names} names; the maximum is {MAX_PATH_PARTS}")
        if re.match(r"~[\w.-]*(/|$)", path):
            raise ToolError(
                f"{path[:80]}: `~` is not expanded; use a path relative to {self.folder}"
            )
        return path

    @property
    def _folders(self) -> str:
        return ", ".join(display_name(str(folder)) for folder in (self.folder, *self.allowed))

    def name(self, path: Path) -> str:
        """Return the canonical name of a resolved path: relative to the folder, or absolute.

        File names are kept byte for byte (surrogates stand for bytes that are not UTF-8).
        """
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else path.as_posix()

    def format_name(self, path: Path) -> str:
        """Return the name of a path for a model."""
        return display_name(self.name(path))

    @contextmanager
    def convert_errors(self, path: Path) -> Iterator[None]:
        """Convert an OSError to a ToolError about this path."""
        try:
            yield
        except FileNotFoundError:
            raise ToolError(
                f"{self.format_name(path)} does not exist{self.find_similar(path)}"
            ) from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ToolError(f"{self.format_name(path)}: {reason.lower()}") from None

    def find_similar(self, path: Path) -> str:
        """Return similar names that exist near a missing path."""
        folder, target_name = path.parent, path.name
        while not folder.is_dir() and folder != folder.parent:
            folder, target_name = folder.parent, folder.name
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry, _ in zip(entries, range(5000), strict=False)]
        except OSError:
            return ""
        similar = get_close_matches(target_name, names, cutoff=0.6)
        similar += [n for n in names if n.casefold() == target_name.casefold() and n not in similar]
        shown_names = ", ".join(self.format_name(folder / name) for name in similar)
        return f"; similar: {shown_names}" if shown_names else ""


def display_name(name: str) -> str:
    r"""Return a file name as one line of text, whatever its bytes are.

    >>> display_name("caf\udce9"), display_name("two\nlines")
    ('caf\\xe9', 'two\\x0alines')
    """
    if name.isascii() and name.isprintable():
        return name
    return "".join(letter if _is_printable(letter) else _escape(letter) for letter in name)


def decode_shown_name(folder: str | Path, path: str) -> str:
    r"""Return the real path for a path that a model was shown.

    A path check must use this result. Only the exact output of `format_name` is decoded; otherwise
    `secret\x2fkey` would be another spelling of `secret/key`.
    """
    base = os.fspath(folder)
    if r"\x" not in path or os.path.lexists(os.path.join(base, path)):  # noqa: PTH118 - `//`
        return path
    try:
        decoded = unescape_name(path)
    except UnicodeEncodeError:  # The name contains an incomplete escape.
        return path
    exists = os.path.lexists(os.path.join(base, decoded))  # noqa: PTH118 - as above
    return decoded if exists and display_name(decoded) == path else path


def unescape_name(name: str) -> str:
    r"""Return the file name with this displayed form.

    >>> unescape_name("caf\\xe9")
    'caf\udce9'
    """
    raw = os.fsencode(name)
    return os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), raw))


def _is_printable(letter: str) -> bool:
    """Whether a letter is printable in a line: no control, no reordering, no surrogate."""
    return unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp") and not (
        "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069"
    )


def _escape(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def kind_of(mode: int) -> str:
    """Return the type of a file by its mode, if it is neither a regular file nor a folder."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


def size_text(size_bytes: int) -> str:
    """Format a size for people.

    >>> size_text(812), size_text(3400), size_text(1_073_741_824)
    ('812 bytes', '3.4 kB', '1.1 GB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95 or unit == "TB":
            break
    return f"{size:.1f} {unit}"
