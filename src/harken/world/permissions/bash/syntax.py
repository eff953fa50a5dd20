"""Syntax trees of shell commands, with the checks that the grammar needs.

The grammar drops or merges some tokens. So the text between two tokens is checked, and a tree in
which it is more than blanks is not exact.

Source: https://github.com/tree-sitter/tree-sitter-bash.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Language, Node


MAX_LENGTH = 131_072
"""In bytes: the system accepts no longer argument, so a longer command cannot run."""
_MAX_SECONDS = 3.0
"""The time limit for parsing: some nested texts take time quadratic in their length."""
_CHUNK = 16_384
_MAX_HEREDOCS = 16
"""The grammar takes time quadratic in the number of here-documents."""
_CONTINUATION = "\\\n"
_FREE_TEXT = frozenset({"heredoc_body", "regex", "string", "translated_string", "expansion"})
"""Nodes with text between their children."""


class Syntax(msgspec.Struct, frozen=True):
    """A syntax tree with the bytes that it describes, in which no line is continued."""

    root: Node
    data: bytes
    is_exact: bool
    """Whether there is no syntax error, and every character belongs to a token or separates two."""

    @classmethod
    def parse(cls, text: str) -> Syntax | None:
        """Return the tree of a text. Return None if it is too long or too complex to parse."""
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_LENGTH or data.count(b"<<") > _MAX_HEREDOCS or b"\0" in data:
            return None
        root = _parse(data)
        if root is not None and _CONTINUATION.encode() in data:
            data = _join_lines(root, data)
            root = _parse(data)
        if root is not None and (dropped := _dropped_hyphens(root, data)):
            for offset in reversed(dropped):
                data = b"%s\\%s" % (data[:offset], data[offset:])
            root = _parse(data)
        if root is None:
            return None
        is_exact = not any(_gaps(root, data)) and not _has_false_descriptor(root, data)
        return cls(root, data, is_exact and not root.has_error)

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _language() -> Language:
    # The grammar is loaded with the first command, so that `import harken` stays fast.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())


def _parse(data: bytes) -> Node | None:
    """Return the root of the tree. Return None if parsing takes too long."""
    # A new parser for each text: the scanner of the grammar keeps state from one to the next.
    from tree_sitter import Parser  # noqa: PLC0415

    end = time.monotonic() + _MAX_SECONDS
    try:
        tree = Parser(_language()).parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            progress_callback=lambda _at, _has_error: time.monotonic() > end,
        )
    except ValueError:  # the callback has stopped it
        return None
    return tree.root_node


def _leaves(root: Node) -> Iterator[Node]:
    """Yield the tokens in order. A node with text of its own between its children is one token."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count == 0 or node.type in _FREE_TEXT:
            yield node
        else:
            stack.extend(reversed(node.children))


def _has_false_descriptor(root: Node, data: bytes) -> bool:
    """Whether the grammar took more than a number for a descriptor: `x -f2>&1` has a word `-f2`."""
    return any(
        not data[leaf.start_byte : leaf.end_byte].isdigit()
        for leaf in _leaves(root)
        if leaf.type == "file_descriptor"
    )


def _gaps(root: Node, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the stretches between tokens that are more than blanks and newlines."""
    end = 0
    for start, next_end in [
        *((leaf.start_byte, leaf.end_byte) for leaf in _leaves(root)),
        (len(data),) * 2,
    ]:
        if data[end:start].strip(b" \t\n"):
            yield end, start
        end = max(end, next_end)


def _dropped_hyphens(root: Node, data: bytes) -> list[int]:
    """Return where the grammar drops a word `-` before a here-document.

    It keeps the same word with a backslash.
    """
    gaps = [(start, data[start:end]) for start, end in _gaps(root, data)]
    if any(text.strip(b" \t") != b"-" or text[:1] not in b" \t" for _, text in gaps):
        return []
    return [start + text.index(b"-") for start, text in gaps]


def _join_lines(root: Node, data: bytes) -> bytes:
    """Remove backslash and newline where Bash does: not in single quotes, comments or texts."""
    kept = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in ("raw_string", "comment", "ansi_c_string", "heredoc_body"):
            kept.append((node.start_byte, node.end_byte))
        else:
            stack.extend(reversed(node.children))
    pieces, at = [], 0
    for start, end in [*sorted(kept), (len(data), len(data))]:
        pieces.append(re.sub(rb"(?s)\\(.)", _drop_newline, data[at:start]))
        pieces.append(data[start:end])
        at = max(at, end)
    return b"".join(pieces)


def _drop_newline(match: re.Match[bytes]) -> bytes:
    return b"" if match[1] == b"\n" else match[0]
