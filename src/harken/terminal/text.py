"""Escape and print text. Text from a log is untrusted until its control characters are escaped."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import click

_CONTROL_PATTERN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)
"""It also matches invisible tag characters, which models read but people do not see."""


def escape_control_characters(text: str) -> str:
    r"""Return a text with its control characters escaped, except newlines and tabs.

    A transcript could otherwise recolor, rewrite or retitle the terminal that shows it.

    >>> print(escape_control_characters("a\x1b[31mb"))
    a\x1b[31mb
    """
    return _CONTROL_PATTERN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str, width: int = 100) -> str:
    r"""Return the beginning of a text on one line.

    >>> one_line("a\nb  c" * 2, 6)
    'a b c…'
    """
    words = " ".join(escape_control_characters(text).split())
    return words if len(words) <= width else words[: width - 1] + "…"


def print_text(text: str = "") -> None:
    """Print a text of a log with its control characters escaped."""
    click.echo(escape_control_characters(text))


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON with control characters escaped. Without `indent`: on one line."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    click.echo(_CONTROL_PATTERN.sub(lambda match: _escape_for_json(match[0]), text))


def _escape_for_json(char: str) -> str:
    r"""Return a character as JSON can write it in ASCII.

    >>> print(_escape_for_json("\x7f"), _escape_for_json("\U000e0041"))
    \u007f \udb40\udc41
    """
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[start : start + 2].hex()}" for start in range(0, len(data), 2))


def restore_interrupt() -> None:
    """Let Ctrl-C interrupt this program at a terminal, and the programs that it starts.

    A shell starts background programs with SIGINT ignored, and children inherit that.
    """
    if sys.stdin.isatty() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def program_name() -> str:
    """Return the command that runs this program again in the folder where it was run."""
    program = Path(sys.argv[0])
    is_hidden = program.name == "harken" and shutil.which("harken") is None
    return shlex.quote(str(program)) if is_hidden else "harken"


def shell_quote(word: str) -> str:
    r"""Return a word quoted for a shell, on one line and without control characters.

    >>> print(shell_quote("it is"), shell_quote("two\nlines"))
    'it is' $'two\x0alines'
    """
    if escape_control_characters(word) == word and not {"\n", "\t"} & set(word):
        return shlex.quote(word)
    data = os.fsencode(word).decode("latin-1")
    plain = re.sub(r"[^ -~]|['\\]", lambda match: f"\\x{ord(match[0]):02x}", data)
    return f"$'{plain}'"


def indent(text: str, by: str) -> str:
    """Return a text with all lines but the first indented."""
    return text.replace("\n", "\n" + by)
