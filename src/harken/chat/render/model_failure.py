"""The message about a failed model call: a line for the user, with a way to continue."""

from __future__ import annotations

from harken.errors import Failure, ModelError
from harken.terminal.pieces import TextRows
from harken.terminal.styled_text import Line, clean_text

_ADVICE: dict[Failure, str] = {
    "auth": (
        "set its key in the environment (`harken models` shows the variable); then Enter retries"
    ),
    "unknown_model": ("choose another with --model after Ctrl-D (`harken models` lists models)"),
    "rate_limit": "wait a moment; then Enter retries",
    "overloaded": "wait a moment; then Enter retries",
    "timeout": "Enter retries",
    "network": "Enter retries when the network is available",
    "context_too_long": (
        "the context is too long for this model: /context shows it, /compact shortens it"
    ),
    "refused": "Enter retries; or rephrase your message",
    "malformed": "Enter retries",
    "failed": "Enter retries",
}


def format_failure(error: ModelError) -> TextRows:
    """Return the message about a failed model call."""
    status = "" if error.status is None else f" (HTTP {error.status})"
    text = " ".join(clean_text(str(error)).split())
    lines: list[Line] = [[("bold red", "✗ "), ("red", f"{text}{status}")]]
    lines.append([("dim", f"  nothing is lost; {_ADVICE.get(error.kind, 'Enter retries')}")])
    return TextRows("note", lines, hanging=2)
