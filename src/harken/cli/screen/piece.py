"""Pieces: what is printed when something is finished, before a width and codes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harken.cli.screen.styled import Line

Kind: TypeAlias = Literal["prompt", "prose", "action", "note", "summary"]
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Prose:
    """A finished block of Markdown that an agent said."""

    text: str
    joined: bool = False
    """Whether it stands right below the block before."""
    kind: Kind = "prose"


@dataclass(frozen=True, slots=True)
class Rows:
    """Lines of one kind; each is wrapped, further rows below the first text."""

    kind: Kind
    lines: list[Line]
    depth: int = 0
    """How far it is indented: how deep in the tree it happened."""
    hanging: int = 0
    """How many cells further rows of a line are indented."""
    is_wide: bool = False
    """Whether it takes all columns there are: what was asked for, rather than prose."""


Piece: TypeAlias = Prose | Rows


def note(text: str, style: str = "dim", *, depth: int = 0) -> Rows:
    """Return a short line that says what happened."""
    return Rows("note", [[(style, line)] for line in text.split("\n")], depth, hanging=2)
