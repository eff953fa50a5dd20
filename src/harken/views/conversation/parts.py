"""Build the parts of items from whole texts: cut, with the lengths of the whole texts."""

from __future__ import annotations

import msgspec

from harken.core.events import TranscriptEntry
from harken.core.messages import ImagePart, Part, TextPart, ThinkingPart
from harken.views.agent_names import AgentNames
from harken.views.conversation.calls import summarize_arguments
from harken.views.conversation.differences import Work, compare_texts
from harken.views.conversation.images import describe_image, iter_images
from harken.views.conversation.items import (
    CallItem,
    CallResult,
    ConversationPart,
    Cuts,
    OtherItem,
    RewrittenCall,
    RewrittenItem,
    TextItem,
    cut_text,
)
from harken.views.conversation.texts import CallWithEffects, text_of_part
from harken.views.dialogs.answers import AnswerOutcome
from harken.views.message_text import readable_text

_MAX_NAME_CHARS = 1000
_MAX_SPAN_CHARS = 16 * 1024
_CHARS_PER_STEP = 20
"""The number of characters of arguments that are decoded in the time of a step of a comparison."""


class PartBuilder(msgspec.Struct, frozen=True):
    """Builds the parts of one item."""

    cuts: Cuts
    work: Work
    """The steps that comparisons in this item may still take."""

    def build(self, part: Part, position: int) -> ConversationPart:
        """Return a part that is no call."""
        if isinstance(part, ImagePart):
            return describe_image(part)
        text = text_of_part(part) or ""
        if isinstance(part, TextPart | ThinkingPart):
            return self.build_text(text, position)
        name = cut_text(part.kind, _MAX_NAME_CHARS)
        short = cut_text(text, self.cuts.text)
        return OtherItem(name=name, text=short, length=len(text), position=position)

    def build_text(self, text: str, position: int | None = None) -> TextItem:
        """Return a text."""
        return TextItem(text=cut_text(text, self.cuts.text), length=len(text), position=position)

    def build_call(self, logged: CallWithEffects, position: int) -> CallItem:
        """Return a call with its result."""
        name, arguments = logged.call.function.name, logged.call.function.arguments
        limit, result = self.cuts.call, logged.result
        # The arguments are decoded twice: for the change, and for the files.
        self.work.spend(min(self.work.steps, 2 * len(arguments) // _CHARS_PER_STEP))
        change = logged.find_change(self.work)
        other = None if change is None else change.other_arguments
        return CallItem(
            id=cut_text(logged.call.id, _MAX_NAME_CHARS),
            name=cut_text(name, _MAX_NAME_CHARS),
            subject=summarize_arguments(*logged.find_executed()),
            arguments=cut_text(arguments, limit),
            length=len(arguments),
            position=position,
            result=None if result is None else self._build_result(result),
            diff=None if change is None else cut_text(change.diff, limit),
            diff_length=None if change is None else len(change.diff),
            is_diff_partial=change is not None and change.is_partial,
            other_arguments=None if other is None else cut_text(other, limit),
            other_length=None if other is None else len(other),
            files=[cut_text(path, _MAX_NAME_CHARS) for path in logged.find_files()],
            agents=logged.agents,
            rewritten=self._build_rewritten_call(logged),
        )

    def build_rewritten(
        self, written: str, outcome: AnswerOutcome, names: AgentNames
    ) -> RewrittenItem:
        """Return the text with which a hook replaced an answer."""
        max_chars = min(_MAX_SPAN_CHARS, self.cuts.text)
        difference = compare_texts(written, outcome.text, self.work, max_chars)
        return RewrittenItem(
            text=cut_text(outcome.text, self.cuts.text),
            length=len(outcome.text),
            spans=difference.spans,
            is_partial=difference.is_partial,
            hook=outcome.hook,
            hook_name=names.latest_name(outcome.hook),
        )

    def _build_result(self, result: TranscriptEntry) -> CallResult:
        text = readable_text(result.content)
        return CallResult(
            message_id=result.message_id,
            time=result.time,
            text=cut_text(text, self.cuts.call),
            length=len(text),
            is_error=result.is_error,
            closed=result.closed,
            images=[*map(describe_image, iter_images(result))],
        )

    def _build_rewritten_call(self, logged: CallWithEffects) -> RewrittenCall | None:
        event, limit = logged.rewrite, self.cuts.call
        if event is None:
            return None
        written = logged.call.function.arguments
        difference = compare_texts(written, event.arguments, self.work, limit)
        return RewrittenCall(
            message_id=event.message_id,
            name=cut_text(event.tool, _MAX_NAME_CHARS),
            arguments=cut_text(event.arguments, limit),
            length=len(event.arguments),
            spans=difference.spans,
            is_partial=difference.is_partial,
        )
