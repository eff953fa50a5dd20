"""Findings of the analysis of a shell command: doubts, and texts that rules are compared with."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Doubt(StrEnum):
    """A reason why a command may run more than its words say."""

    SYNTAX = "syntax"
    """A part of it cannot be parsed, or the grammar and Bash may disagree."""
    SIZE = "size"
    """It is too long or nested too deeply."""
    UNKNOWN_PROGRAM = "unknown_program"
    """The name of a program, or the text after it, is not literal."""
    CODE_FROM_INPUT = "code_from_input"
    """A program that runs code, or may, reads from a pipe or a here-document."""
    INLINE_CODE = "inline_code"
    """An argument is code of another language, or may be."""
    PROGRAM_OPTION = "program_option"
    """An option names a program or a command."""
    PROGRAM_VARIABLE = "program_variable"
    """A variable that names a program is set."""
    SUBCOMMAND = "subcommand"
    """A subcommand may be an alias or an extension."""
    EVALUATED_TWICE = "evaluated_twice"
    """A value is expanded once more: arithmetic, `${x@P}`."""
    WRITTEN_PROGRAM = "written_program"
    """It runs a file that it writes itself."""


class Findings(msgspec.Struct):
    """The doubts about a command, and texts that a rule is compared with."""

    doubts: set[Doubt] = msgspec.field(default_factory=set)
    loose_mentions: list[str] = msgspec.field(default_factory=list)
    """Arguments of unknown programs: the name of a denied program in them is enough to ask."""
    mentions: list[str] = msgspec.field(default_factory=list)
    """Arguments of other programs: all words of a rule in them are enough to ask."""
    runs_project: bool = False
    """Whether a script or program of the project runs, without a check of its contents."""
    scripts: list[str] = msgspec.field(default_factory=list)
    """Files that are run."""
