"""`git blame`: the commit of each line of a file."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import msgspec

from harken.attribution.git.repository import GitRepository
from harken.edits.patch_text import unquote_path

UNCOMMITTED = "0" * 40
"""The id that git blame gives to lines of the working tree that are in no commit."""


class BlameCommit(msgspec.Struct, frozen=True):
    """A commit of a blamed line, and the name of the file in it."""

    id: str
    path: str
    previous: str
    """The parent and the path there, as `REVISION:PATH`. Empty if the commit added the file."""
    author: str
    author_email: str
    author_time: int
    committer_time: int
    """Seconds since 1970."""
    summary: str

    @property
    def is_uncommitted(self) -> bool:
        """Whether the lines are in no commit yet."""
        return not self.id.strip("0")


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of a file and its commit."""

    number: int
    """In the file, from 1."""
    original: int
    """In the file of the commit, from 1."""
    text: str
    commit: BlameCommit


def blame(
    repository: GitRepository,
    path: str,
    revision: str = "",
    ranges: Sequence[tuple[int, int]] = (),
) -> list[BlamedLine]:
    """Return the blamed lines of a file, in the working tree or at a revision.

    `ranges` are first and last lines, from 1. Raises ConfigError.
    """
    options = [option for start, end in ranges for option in ("-L", f"{start},{end}")]
    revisions = [revision] if revision else []
    output = repository.run("blame", "--line-porcelain", *options, *revisions, "--", path)
    return parse_porcelain(output)


def parse_porcelain(output: bytes) -> list[BlamedLine]:
    """Parse the output of `git blame --line-porcelain`."""
    lines: list[BlamedLine] = []
    commits: dict[tuple[bytes, ...], BlameCommit] = {}
    header: list[bytes] = []
    for line in output.split(b"\n"):
        if not line.startswith(b"\t"):
            header.append(line)
            continue
        id_, original, number = header[0].split(b" ")[:3]
        key = (id_, *header[1:])
        if key not in commits:
            commits[key] = _parse_commit(id_, header[1:])
        content = line[1:].removeprefix(codecs.BOM_UTF8) if original == b"1" else line[1:]
        text = decode_content(content).removesuffix("\r")
        lines.append(BlamedLine(int(number), int(original), text, commits[key]))
        header = []
    return lines


def _parse_commit(id_: bytes, header: Sequence[bytes]) -> BlameCommit:
    members = {}
    for line in header:
        name, _, value = line.partition(b" ")
        members[name] = decode(value)
    revision, _, path = members.get(b"previous", "").partition(" ")
    path = _unquote(path)
    return BlameCommit(
        id=decode(id_),
        path=_unquote(members.get(b"filename", "")),
        previous=f"{revision}:{path}" if path else "",
        author=members.get(b"author", ""),
        author_email=members.get(b"author-mail", "").strip("<>"),
        author_time=_parse_time(members.get(b"author-time")),
        committer_time=_parse_time(members.get(b"committer-time")),
        summary=members.get(b"summary", ""),
    )


def _unquote(path: str) -> str:
    return unquote_path(path) if path.startswith('"') else path


def _parse_time(text: str | None) -> int:
    try:
        return int(text or "0")
    except ValueError:
        return 0


def decode_content(data: bytes) -> str:
    r"""Decode the content of a file, without its byte order mark.

    A line that is no UTF-8 is decoded as Latin-1: agents write such files as UTF-8.

    >>> decode_content(b"\xef\xbb\xbfcaf\xc3\xa9\ncaf\xe9") == "caf\xe9\ncaf\xe9"
    True
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(map(_decode_line, data.split(b"\n")))


def _decode_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def decode(data: bytes) -> str:
    """Decode text of git. Invalid UTF-8 becomes lone surrogates, which are encoded back."""
    return data.decode("utf-8", "surrogateescape")
