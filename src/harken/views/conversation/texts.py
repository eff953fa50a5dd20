"""The whole texts of a conversation: the rows and the route of whole texts both read them here."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harken.core.events import (
    ActionRewritten,
    Event,
    HookVerdict,
    PieceOfText,
    TranscriptEntry,
    TurnStop,
)
from harken.core.ids import AgentId
from harken.core.messages import ImagePart, Part, TextPart, ThinkingPart, ToolCall
from harken.edits.tools import find_edits
from harken.views.conversation.differences import FileChange, Work, change_of_call
from harken.views.conversation.items import TextVersion
from harken.views.dialogs.labels import format_verdict_text
from harken.views.links import Links
from harken.views.message_text import iter_parts, readable_text

_MAX_FILES = 20
"""The maximum number of files of a call that are listed."""


class CallWithEffects(msgspec.Struct, frozen=True):
    """A call with the later events about it."""

    call: ToolCall
    result: TranscriptEntry | None
    rewrite: ActionRewritten | None
    agents: list[AgentId]
    """The agents that it created."""

    def find_executed(self) -> tuple[str, str]:
        """Return the tool and the arguments that ran, or would have."""
        if self.rewrite is None:
            return self.call.function.name, self.call.function.arguments
        return self.rewrite.tool, self.rewrite.arguments

    def find_change(self, work: Work) -> FileChange | None:
        """Return the change of files by the arguments that ran."""
        return change_of_call(*self.find_executed(), work)

    def iter_texts(self) -> Iterator[str]:
        """Yield the texts of the call: its name and arguments, the rewritten ones, its result."""
        yield self.call.function.name
        yield self.call.function.arguments
        if self.rewrite is not None:
            yield self.rewrite.arguments
        if self.result is not None:
            yield readable_text(self.result.content)

    def find_files(self) -> list[str]:
        """Return the paths of the files that the call edits, as it ran."""
        called = self.call.function if self.rewrite is None else self.rewrite
        name = called.tool if isinstance(called, ActionRewritten) else called.name
        paths = (edit.path for edit in find_edits(name, called.arguments))
        return [*dict.fromkeys(paths)][:_MAX_FILES]

    def find_text(self, version: TextVersion) -> str | None:
        """Return a whole text of the call. Return None if it has no such version."""
        match version:
            case "written":
                return self.call.function.arguments
            case "heard":
                return None if self.rewrite is None else self.rewrite.arguments
            case "result":
                return None if self.result is None else readable_text(self.result.content)
            case "diff" | "other":
                change = self.find_change(Work())
                if change is None:
                    return None
                return change.diff if version == "diff" else change.other_arguments


def text_of_event(event: Event, links: Links) -> str | None:
    """Return the whole text of an event. Return None if it has no text."""
    match event:
        case HookVerdict():
            return format_verdict_text(event)
        case TurnStop():
            piece = links.get(event.piece)
            return piece.content if isinstance(piece, PieceOfText) else ""
        case PieceOfText():
            return event.content
        case ActionRewritten():
            return event.arguments
        case TranscriptEntry():
            return readable_text(event.content)
        case _:
            return None


def text_of_part(part: Part) -> str | None:
    """Return the whole text of a part. Return None for an image."""
    if isinstance(part, ImagePart):
        return None
    return part.text if isinstance(part, TextPart | ThinkingPart) else part.data


def find_part(entry: TranscriptEntry, position: int) -> Part | ToolCall | None:
    """Return the part or call at a position. Return None if there is none."""
    return next((part for n, part in enumerate(iter_parts(entry)) if n == position), None)
