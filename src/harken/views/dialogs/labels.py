"""Labels of the messages of an agent, and of the parts that they consist of.

A label tells what a part is to its agent: `System` its instructions, `Heard` a message to it,
`Thought` a thought of its model, `Action` a tool call and the text beside it, `Received` a tool
result, `Said` an utterance, `Draft` an answer that no other agent received as it is, `Verdict` the
judgment of a hook, `Stopped` the text that others read in place of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from harken.core.events import HookVerdict, TranscriptEntry
from harken.core.messages import Part, TextPart, ThinkingPart, ToolCall
from harken.views.agent_names import AgentNames
from harken.views.dialogs.answers import AnswerOutcome, Answers, AnswerStatus
from harken.views.dialogs.dialog import DialogItem
from harken.views.message_text import iter_parts

Label: TypeAlias = Literal[
    "System", "Heard", "Thought", "Action", "Received", "Said", "Draft", "Verdict", "Stopped"
]
_INPUT_LABELS: dict[str, Label] = {"system": "System", "user": "Heard", "tool": "Received"}
_EMPTY_TEXT = TextPart("")
UNHEARD_DRAFT = "{} wrote, and nobody heard"
"""The heading of the author's own text of a rewritten answer."""
HEARD_BY = "{} heard"
"""The heading of the version of a content that an agent received."""


def input_label(entry: TranscriptEntry) -> Label | None:
    """Return the label of an entry that its agent did not write. Return None for its own."""
    label = _INPUT_LABELS.get(entry.role)
    return label or (None if entry.substance is None else "Heard")


def iter_labeled_parts(entry: TranscriptEntry) -> Iterator[tuple[Label, int, Part | ToolCall]]:
    """Yield the label, position and content of the parts and calls of an entry, in order.

    Empty texts, which some models add to their calls, are left out.
    """
    label = input_label(entry)
    text_label: Label = "Action" if entry.tool_calls else "Said"
    for position, part in enumerate(iter_parts(entry)):
        if label is not None:
            yield label, position, part
        elif isinstance(part, ToolCall):
            yield "Action", position, part
        elif isinstance(part, ThinkingPart):
            yield "Thought", position, part
        elif part != _EMPTY_TEXT:
            yield text_label, position, part


def empty_label(entry: TranscriptEntry) -> Label:
    """Return the label of an entry without parts."""
    return input_label(entry) or ("Action" if entry.tool_calls else "Said")


def decide_label(
    entry: TranscriptEntry, label: Label, answers: Answers, names: AgentNames
) -> tuple[Label, str | None]:
    """Return the label of an entry's part and its note, with the decision of hooks about it."""
    outcome = answers.outcomes.get(entry.message_id)
    if label == "Said" and outcome is not None:
        return "Draft", describe_outcome(outcome, names.latest_name(outcome.hook))
    if label == "Said" and entry.message_id in answers.words_of_hooks:
        return "Verdict", None
    return label, entry.closed


def describe_outcome(outcome: AnswerOutcome, hook_name: str | None) -> str:
    """Describe the outcome of an answer in a few words.

    >>> from harken.core.ids import AgentId
    >>> describe_outcome(AnswerOutcome("denied", AgentId("agent_002"), "rude"), "Guard")
    'denied by Guard'
    """
    return _name_hook(outcome.status, hook_name)


def decide_dialog_label(item: DialogItem) -> Label:
    """Return the label of an item of a dialog."""
    if item.verdict is not None:
        return "Verdict"
    if item.stop is not None:
        return "Stopped"
    return "Said" if item.status in (None, "rewritten") else "Draft"


def describe_dialog_item(item: DialogItem) -> str | None:
    """Describe an item of a dialog beside its label: the verdict, stop, outcome or trigger.

    Return None if there is nothing to add.
    """
    verdict = item.verdict
    if verdict is not None:
        return f"{verdict.kind} · {verdict.point} of {verdict.name or verdict.agent_id}"
    if item.stop is not None:
        return item.stop
    if item.status is not None:
        return _name_hook(item.status, item.hook_name)
    return None if item.trigger is None else f"trigger {item.trigger}"


def describe_subject(verdict: HookVerdict, names: AgentNames) -> str:
    """Describe the subject of a verdict: the point, and the watched agent."""
    return f"{verdict.point} of {names.latest_name(verdict.watched)}"


def format_verdict_text(verdict: HookVerdict) -> str:
    """Format the verdict of code, which wrote no message."""
    if verdict.failed is not None:
        return f"failed: {verdict.failed}"
    kind = verdict.verdict.upper()
    return kind if verdict.text is None else f"{kind}: {verdict.text}"


def _name_hook(status: AnswerStatus, hook_name: str | None) -> str:
    return status if hook_name is None else f"{status} by {hook_name}"
