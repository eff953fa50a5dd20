"""Failures: a model call that failed, in a line for a person, and how to go on."""

from __future__ import annotations

from harken.cli.screen.piece import Rows
from harken.cli.screen.styled import Line, clean
from harken.errors import Failure, ModelError

_ADVICE: dict[Failure, str] = {
    "auth": "set its key in the environment (`harken models` says which), then Enter tries again",
    "unknown_model": "end with Ctrl-D and name another with --model (`harken models` lists them)",
    "rate_limit": "wait a little, then Enter tries again",
    "overloaded": "wait a little, then Enter tries again",
    "timeout": "Enter tries again",
    "network": "when the network is there again, Enter tries again",
    "context_too_long": "the context is too long for this model: /context shows what is in it",
    "refused": "Enter tries again; or say it differently",
    "malformed": "Enter tries again",
    "failed": "Enter tries again",
}


def failure(error: ModelError) -> Rows:
    """Return what is shown of a failed model call."""
    status = "" if error.status is None else f" (HTTP {error.status})"
    text = " ".join(clean(str(error)).split())
    lines: list[Line] = [[("bold red", "✗ "), ("red", f"{text}{status}")]]
    lines.append([("dim", f"  nothing is lost; {_ADVICE.get(error.why, 'Enter tries again')}")])
    return Rows("note", lines, hanging=2)
