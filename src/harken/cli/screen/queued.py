"""Type-ahead: what the user sends while a turn runs waits, is shown, and can be taken back."""

from __future__ import annotations

from dataclasses import dataclass, field

from harken.cli.screen.styled import Line, clean, shorten


@dataclass(slots=True)
class Queued:
    """Messages that are sent when the turn ends, oldest first."""

    messages: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.messages)

    def add(self, message: str) -> None:
        """Let a message wait."""
        self.messages.append(message)

    def next(self) -> str | None:
        """Take the oldest out, None where there is none."""
        return self.messages.pop(0) if self.messages else None

    def take_back(self) -> str:
        r"""Take all out, as one text to edit.

        >>> Queued(["a", "b"]).take_back()
        'a\n\nb'
        """
        text = "\n\n".join(self.messages)
        self.messages.clear()
        return text

    def lines(self, width: int, most: int = 3) -> list[Line]:
        """Return how they are shown."""
        shown = self.messages[-most:]
        left = len(self.messages) - len(shown)
        rows: list[Line] = [[("dim", f"  … {left} more")]] if left else []
        for message in shown:
            text = " ".join(clean(message).split())
            rows.append([("dim", "  then: "), ("dim", shorten(text, max(width - 9, 4)))])
        if rows:
            rows[-1].append(("dim", "  (Esc takes it back)"))
        return rows
