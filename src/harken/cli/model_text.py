"""How a model's name is shown to a person."""

from __future__ import annotations

from pathlib import PurePath


def model_text(name: str | None) -> str:
    """Return a model's name as it is shown: of a file, only its last part.

    >>> model_text("scripted:/tmp/tea.yaml"), model_text("anthropic/claude")
    ('scripted:tea.yaml', 'anthropic/claude')
    """
    kind, colon, file = (name or "no model").partition(":")
    return f"{kind}:{PurePath(file).name}" if colon and "/" in file else name or "no model"
