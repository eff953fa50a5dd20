"""The answer of the primary agent while it is streamed.

Chunks become pieces as soon as a block is finished; the remaining text is the tail of the live
area.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harken.chat.render.event_printer import format_thought
from harken.core.stream import Chunk, TextDelta, ThinkingDelta
from harken.terminal.markdown_blocks import Block, Blocks
from harken.terminal.markdown_tail import format_tail as tail
from harken.terminal.pieces import Piece, Prose
from harken.terminal.styled_text import Line


class AnswerStream(msgspec.Struct):
    """One answer. Times are those of one clock, in seconds."""

    has_shown: bool = False
    """Whether a part of this answer was printed."""
    _blocks: Blocks = msgspec.field(default_factory=Blocks)
    _thoughts: list[str] = msgspec.field(default_factory=list)
    _thinking_since: float = 0.0
    _joined: bool = False

    def feed(self, chunk: Chunk, now: float) -> Iterator[Piece]:
        """Process the next chunk. Yield the blocks that it finished."""
        match chunk:
            case ThinkingDelta() if chunk.text:
                yield from self._finish_text()
                if not self._thoughts:
                    self._thinking_since = now
                self._thoughts.append(chunk.text)
                self.has_shown = True
            case TextDelta() if chunk.text:
                yield from self._finish_thought(now)
                self.has_shown = True
                for block in self._blocks.feed(chunk.text):
                    yield _piece(block)
            case _:
                pass

    def end(self, now: float) -> Iterator[Piece]:
        """Yield the remaining text. The next chunk begins another answer."""
        yield from self._finish_thought(now)
        yield from self._finish_text()
        self.has_shown = False

    def _finish_text(self) -> Iterator[Piece]:
        for block in self._blocks.finish():
            yield _piece(block)

    def _finish_thought(self, now: float) -> Iterator[Piece]:
        text = "".join(self._thoughts)
        self._thoughts.clear()
        if text.strip():
            yield format_thought(text, max(now - self._thinking_since, 0.0))

    @property
    def is_continuation(self) -> bool:
        """Whether the tail follows the last printed piece without an empty line."""
        return self._blocks.is_continuation

    def tail(self, width: int, height: int) -> list[Line]:
        """Return the last rows of the open block."""
        open_block = self._blocks.open_text
        if not open_block.strip():
            return []
        return tail(open_block, width, height, in_fence=self._blocks.in_fence)


def _piece(block: Block) -> Prose:
    return Prose(block.text, block.is_continuation)
