"""All that may differ between what was materialized and what a client sends, and why.

One idea: what may differ is listed here and nowhere else, with its reason. Everything else must be
equal: order, roles, texts to the last byte, ids, inputs, signatures. A rule about what a client
says of the present takes away only what nobody expects, so it hides no loss.

There are two lists, since there are two steps: `LEFT_OUT` is what a written session may lack of the
conversation that it is made of; `RULES` in what the request of the client may differ from the
written session.

Source: docs/how-to/continue-anywhere.md, "What may differ".
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.capture.resume import normalize
from harken.capture.resume.normalize import Change


@dataclass(frozen=True, slots=True)
class AllowedDifference:
    """Something that may differ."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRule(AllowedDifference):
    """Something in which two requests may differ."""

    clients: tuple[str, ...]
    """By runtime."""
    sent: Change | None = None
    """Takes it out of what was sent."""
    expected: Change | None = None
    """Takes it out of what is expected."""


RULES = (
    DifferenceRule(
        name="cache marks",
        why="they say how far a provider should keep the request, not what the model reads",
        clients=("claude",),
        sent=normalize.unmarked,
        expected=normalize.unmarked,
    ),
    DifferenceRule(
        name="texts as lists",
        why="a text is short for a list with this text: the provider makes no difference",
        clients=("claude", "pi", "opencode"),
        sent=normalize.listed,
        expected=normalize.listed,
    ),
    DifferenceRule(
        name="members that say nothing",
        why="no citations, and a result that is no error, are what their absence says",
        clients=("claude",),
        sent=normalize.unsaid,
        expected=normalize.unsaid,
    ),
    DifferenceRule(
        name="reminders",
        why="what Claude Code says about the folder, the day and its tools when it is started",
        clients=("claude",),
        sent=normalize.without_reminders,
    ),
    DifferenceRule(
        name="the joined end",
        why="a prompt follows on what a user said before, and Claude Code parts the two by a line",
        clients=("claude",),
        sent=normalize.without_line_end,
    ),
    DifferenceRule(
        name="tools of the past",
        why="references to tools, and members of inputs, that this version of Claude Code has not",
        clients=("claude",),
        expected=normalize.without_gone_tools,
    ),
    DifferenceRule(
        name="new ids",
        why="Codex names what has no id in the session, anew each time",
        clients=("codex",),
        sent=normalize.without_new_ids,
    ),
    DifferenceRule(
        name="sections of instructions",
        why="Codex says in its own instructions which tools it has now, whatever the session holds",
        clients=("codex",),
        expected=normalize.with_own_sections,
    ),
    DifferenceRule(
        name="instructions",
        why="the client's own prompt, which it sends with whatever conversation",
        clients=("codex", "pi", "opencode"),
        sent=normalize.without_first_system,
    ),
    DifferenceRule(
        name="the present",
        why="what Codex says about the folder, the day and its skills when it is started",
        clients=("codex",),
        sent=normalize.without_told,
    ),
    DifferenceRule(
        name="large images",
        why="Codex makes images smaller that have more than 2,048 pixels on a side",
        clients=("codex",),
        expected=normalize.with_small_images,
    ),
    DifferenceRule(
        name="the setting",
        why="what Gemini CLI says about the folder and the day in front of the first prompt",
        clients=("gemini",),
        sent=normalize.without_setting,
    ),
    DifferenceRule(
        name="masked outputs",
        why="Gemini CLI sends previews of old outputs where there are many, in any session; "
        "the outputs themselves are in what is written",
        clients=("gemini",),
        sent=normalize.unmasked,
    ),
)
"""All that may differ. They are applied in this order."""


THOUGHTS = AllowedDifference(
    "thoughts", "nobody said them, and only who thought them can sign them"
)
UNREAD = AllowedDifference(
    "errors", "what a client said of its own errors, which no model was to read"
)
INSTRUCTED = AllowedDifference(
    "instructions", "what a client instructs its own model with; others have theirs"
)
BLOCKS = AllowedDifference(
    "blocks", "what only its own provider understands; its beginning is told"
)
IMAGES = AllowedDifference(
    "images", "what no other provider shows: another kind, or an address; it is told"
)
LEFT_OUT = (THOUGHTS, UNREAD, INSTRUCTED, BLOCKS, IMAGES)
"""What a written session may lack. Beside that, ids and names have only letters that all providers
take, and what a provider demands is added: results of calls that nobody answered, turns."""
