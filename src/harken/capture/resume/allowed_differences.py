"""The allowed differences between a materialized conversation and the request that a client sends.

All allowed differences are listed here, each with its reason. Everything else must be equal: order,
roles, texts to the last byte, ids, inputs, signatures. A rule for what a client adds about the
present only removes content that is not expected, so it hides no loss.

There are two lists, one for each step: `LEFT_OUT` is what a written session may lack of its
conversation; `RULES` is how the request of the client may differ from the written session.

Source: docs/how-to/resume-in-another-client.md, "Allowed differences".
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.capture.resume import normalize
from harken.capture.resume.normalize import RequestTransform


@dataclass(frozen=True, slots=True)
class AllowedDifference:
    """An allowed difference, and its reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRule(AllowedDifference):
    """An allowed difference between two requests."""

    clients: tuple[str, ...]
    """The runtimes to which the rule applies."""
    from_sent: RequestTransform | None = None
    """Removes the difference from the sent request."""
    expected: RequestTransform | None = None
    """Removes the difference from the expected request."""


DIFFERENCE_RULES = (
    DifferenceRule(
        name="cache marks",
        reason="they say how far a provider should keep the request, not what the model reads",
        clients=("claude",),
        from_sent=normalize.without_cache_marks,
        expected=normalize.without_cache_marks,
    ),
    DifferenceRule(
        name="texts as lists",
        reason="a text is short for a list with this text: the provider makes no difference",
        clients=("claude", "pi", "opencode"),
        from_sent=normalize.with_text_lists,
        expected=normalize.with_text_lists,
    ),
    DifferenceRule(
        name="members that say nothing",
        reason="no citations, and a result that is no error, are what their absence says",
        clients=("claude",),
        from_sent=normalize.without_default_members,
        expected=normalize.without_default_members,
    ),
    DifferenceRule(
        name="reminders",
        reason="what Claude Code says about the folder, the day and its tools when it is started",
        clients=("claude",),
        from_sent=normalize.without_reminders,
    ),
    DifferenceRule(
        name="the joined end",
        reason="a prompt follows a user message, and Claude Code separates the two by a line",
        clients=("claude",),
        from_sent=normalize.without_line_end,
    ),
    DifferenceRule(
        name="tools of the past",
        reason="tool references and input members that this version of Claude Code lacks",
        clients=("claude",),
        expected=normalize.without_removed_tools,
    ),
    DifferenceRule(
        name="new ids",
        reason="Codex names what has no id in the session, anew each time",
        clients=("codex",),
        from_sent=normalize.without_new_ids,
    ),
    DifferenceRule(
        name="sections of instructions",
        reason="Codex lists its current tools in its instructions, whatever the session holds",
        clients=("codex",),
        expected=normalize.with_own_sections,
    ),
    DifferenceRule(
        name="instructions",
        reason="the client's own prompt, which it sends with whatever conversation",
        clients=("codex", "pi", "opencode"),
        from_sent=normalize.without_first_system,
    ),
    DifferenceRule(
        name="the present",
        reason="what Codex says about the folder, the day and its skills when it is started",
        clients=("codex",),
        from_sent=normalize.without_context_messages,
    ),
    DifferenceRule(
        name="large images",
        reason="Codex makes images smaller that have more than 2,048 pixels on a side",
        clients=("codex",),
        expected=normalize.with_small_images,
    ),
    DifferenceRule(
        name="the setting",
        reason="what Gemini CLI says about the folder and the day in front of the first prompt",
        clients=("gemini",),
        from_sent=normalize.without_session_context,
    ),
    DifferenceRule(
        name="masked outputs",
        reason="Gemini CLI sends previews of old outputs where there are many, in any session; "
        "the outputs themselves are in what is written",
        clients=("gemini",),
        from_sent=normalize.with_unmasked_outputs,
    ),
)
"""All allowed differences between requests. They are applied in this order."""

# A written session may lack these. In addition, ids and names are limited to letters that all
# providers accept, and what a provider requires is added: results of unanswered calls, turns.
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
