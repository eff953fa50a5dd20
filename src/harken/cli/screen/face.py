"""The face: what of the screen a session is told of before there is a screen."""

from __future__ import annotations

from dataclasses import dataclass, field

from harken.cli.screen.ears import Ears
from harken.cli.screen.questions import Questions


@dataclass(frozen=True, slots=True)
class Face:
    """Whom agents ask, and who hears what happens."""

    questions: Questions = field(default_factory=Questions)
    """The `user` of a `World`."""
    ears: Ears = field(default_factory=Ears)
    """Its `on_chunk` is that of a `Runtime`."""
