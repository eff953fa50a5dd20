r"""`Root`: the folder that agents live in, and which path of it a model means.

What a model writes is resolved to a real path, symlinks and all, and only then judged: below the
folder (or another one that is allowed) or not. So a path has one name, whoever took which way to
it. What is named to a model is one line of readable text: bytes that are none are `\xe9`.
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

LONGEST = 4096
"""Bytes of a path: what Linux takes in one call."""
DEEPEST = 256
"""Names of a path: to make folders, one in the other, Python goes as deep as they."""
_KERNEL = ("/proc", "/sys")
"""Reading here may hang, and writing here acts on the machine."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


class Root:
    """A folder, and others that are allowed beside it."""

    def __init__(
        self,
        folder: str | Path,
        allowed: Sequence[str | Path] = (),
        readable: Sequence[str | Path] = (),
    ) -> None:
        """Take a folder as it is now: a symlink to another one is followed here, once.

        readable: folders where files may be read, and not changed.
        """
        self.folder = Path(os.path.realpath(folder))
        self.allowed = tuple(Path(os.path.realpath(one)) for one in allowed)
        self.readable = tuple(Path(os.path.realpath(one)) for one in readable)

    def resolve(self, path: str, *, to_change: bool = False) -> Path:
        """Return the real path that a model means, whether anything is there or not.

        Raises ToolError where it is none, or stands outside; where it leads through a folder that
        may not be searched, it is judged by its name.
        """
        given = decode_shown_name(self.folder, self._given(path))
        found = Path(os.path.realpath(self.folder / given))
        if any(found.is_relative_to(kernel) for kernel in _KERNEL):
            raise ToolError(
                f"{display_name(path)} belongs to the kernel; files there are not opened"
            )
        also = () if to_change else self.readable
        if not any(found.is_relative_to(one) for one in (self.folder, *self.allowed, *also)):
            leads = "" if str(found) == path else f" (it leads to {display_name(str(found))})"
            raise ToolError(
                f"{display_name(path)} is outside{leads}. Paths must stay below {self._folders}; "
                f"whoever started this program can allow more folders"
            )
        return found

    def _given(self, path: str) -> str:
        """Return a path that the system would take. Raises ToolError."""
        if not path:
            raise ToolError("the path is empty")
        if "\0" in path:
            raise ToolError("the path has a NUL byte in it")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"the path {path[:80]!a} is no text") from None
        if size > LONGEST:
            raise ToolError(f"the path is too long: {size} bytes")
        if (names := path.count("/") + 1) > DEEPEST:
            raise ToolError(f"the path is too deep: {names} names, and {DEEPEST} is the most")
        if re.match(r"~[\w.-]*(/|$)", path):
            raise ToolError(
                f"{path[:80]}: `~` is not expanded here; give a path from {self.folder}"
            )
        return path

    @property
    def _folders(self) -> str:
        return ", ".join(display_name(str(one)) for one in (self.folder, *self.allowed))

    def name(self, path: Path) -> str:
        """Return the one name of a resolved path: from the folder, or absolute outside it.

        Names of files are kept byte for byte (surrogates stand for bytes that are no UTF-8).
        """
        inside = path.is_relative_to(self.folder)
        return path.relative_to(self.folder).as_posix() if inside else path.as_posix()

    def shown(self, path: Path) -> str:
        """Return the same as a model reads it."""
        return display_name(self.name(path))

    @contextmanager
    def failing(self, path: Path) -> Iterator[None]:
        """Turn what the system refuses into a text about this path."""
        try:
            yield
        except FileNotFoundError:
            raise ToolError(f"there is no {self.shown(path)}{self.near(path)}") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ToolError(f"{self.shown(path)}: {reason.lower()}") from None

    def near(self, path: Path) -> str:
        """Return what exists beside a path that does not and has a similar name."""
        folder, wanted = path.parent, path.name
        while not folder.is_dir() and folder != folder.parent:
            folder, wanted = folder.parent, folder.name
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry, _ in zip(entries, range(5000), strict=False)]
        except OSError:
            return ""
        similar = get_close_matches(wanted, names, cutoff=0.6)
        similar += [n for n in names if n.casefold() == wanted.casefold() and n not in similar]
        there = ", ".join(self.shown(folder / name) for name in similar)
        return f"; similar: {there}" if there else ""


def display_name(name: str) -> str:
    r"""Return a file name as one line of text, whatever its bytes are.

    >>> display_name("caf\udce9"), display_name("two\nlines")
    ('caf\\xe9', 'two\\x0alines')
    """
    if name.isascii() and name.isprintable():
        return name
    return "".join(letter if _plain(letter) else _escaped(letter) for letter in name)


def decode_shown_name(folder: str | Path, path: str) -> str:
    r"""Return the path that a model means with what it was shown.

    Whoever judges a path has to judge this one: what `shown` would not write so is taken as it
    is, or `secret\x2fkey` would be another way to write `secret/key`.
    """
    base = os.fspath(folder)
    if r"\x" not in path or os.path.lexists(os.path.join(base, path)):  # noqa: PTH118 - `//`
        return path
    try:
        plain = unescaped(path)
    except UnicodeEncodeError:  # half a letter is in it
        return path
    is_there = os.path.lexists(os.path.join(base, plain))  # noqa: PTH118 - as above
    return plain if is_there and display_name(plain) == path else path


def unescaped(name: str) -> str:
    r"""Return the file name that is shown so.

    >>> unescaped("caf\\xe9")
    'caf\udce9'
    """
    raw = os.fsencode(name)
    return os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), raw))


def _plain(letter: str) -> bool:
    """Whether a letter takes its place in a line: no control, no reordering, no surrogate."""
    return unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp") and not (
        "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069"
    )


def _escaped(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def kind_of(mode: int) -> str:
    """Return what stands at a path that is neither a file nor a folder, from its mode."""
    return _KINDS.get(stat.S_IFMT(mode), "no ordinary file")


def size_text(size_bytes: int) -> str:
    """Return a size as people write it.

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
