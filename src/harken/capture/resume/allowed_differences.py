"""The allowed differences between a materialized conversation and the request that a client sends.

All allowed differences are listed here, each with its reason. Everything else must be equal: order,
roles, texts to the last byte, ids, inputs, signatures. A rule for what a client adds about the
present only removes content that is not expected, so it hides no loss.

There are two lists, one for each step: `LEFT_OUT` is what a written session may lack of its
conversation; `RULES` is how the request of the client may differ from the written session.

Source: docs/how-to/resume-in-another-client.md, "Allowed differences".
"""

from __future__ import annotations

import msgspec

from harken.capture.resume import normalize
from harken.capture.resume.normalize import RequestTransform


class AllowedDifference(msgspec.Struct, frozen=True):
    """An allowed difference, and its reason."""

    name: str
    reason: str


class DifferenceRule(AllowedDifference, frozen=True, kw_only=True):
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
        reason="they control the provider's cache, not what the model reads",
        clients=("claude",),
        from_sent=normalize.without_cache_marks,
        expected=normalize.without_cache_marks,
    ),
    DifferenceRule(
        name="texts as lists",
        reason="a text and a list with this text are equal for the provider",
        clients=("claude", "pi", "opencode"),
        from_sent=normalize.with_text_lists,
        expected=normalize.with_text_lists,
    ),
    DifferenceRule(
        name="default members",
        reason="an absent member means the same: no citations, and a result without an error",
        clients=("claude",),
        from_sent=normalize.without_default_members,
        expected=normalize.without_default_members,
    ),
    DifferenceRule(
        name="reminders",
        reason="the notes of Claude Code at its start: the folder, the day and its tools",
        clients=("claude",),
        from_sent=normalize.without_reminders,
    ),
    DifferenceRule(
        name="the joined end",
        reason="Claude Code separates a prompt from a previous user message by a newline",
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
        reason="Codex generates new ids for items without one in the session",
        clients=("codex",),
        from_sent=normalize.without_new_ids,
    ),
    DifferenceRule(
        name="sections of instructions",
        reason="Codex lists its current tools in its instructions, independently of the session",
        clients=("codex",),
        expected=normalize.with_own_sections,
    ),
    DifferenceRule(
        name="instructions",
        reason="the client's own system prompt, which it sends with every conversation",
        clients=("codex", "pi", "opencode"),
        from_sent=normalize.without_first_system,
    ),
    DifferenceRule(
        name="the present",
        reason="the notes of Codex at its start: the folder, the day and its skills",
        clients=("codex",),
        from_sent=normalize.without_context_messages,
    ),
    DifferenceRule(
        name="large images",
        reason="Codex shrinks images with more than 2,048 pixels on a side",
        clients=("codex",),
        expected=normalize.with_small_images,
    ),
    DifferenceRule(
        name="unread images",
        reason="OpenCode sends a text in place of each image if its model reads no images",
        clients=("opencode",),
        expected=normalize.with_unread_images,
    ),
    DifferenceRule(
        name="the setting",
        reason="the notes of Gemini CLI before the first prompt: the folder and the day",
        clients=("gemini",),
        from_sent=normalize.without_session_context,
    ),
    DifferenceRule(
        name="masked outputs",
        reason="Gemini CLI sends previews of old outputs if there are many, in every session; "
        "the session file contains the outputs",
        clients=("gemini",),
        from_sent=normalize.with_unmasked_outputs,
    ),
)
"""All allowed differences between requests. They are applied in this order."""

# A written session may lack these. In addition, ids and names are limited to letters that all
# providers accept, and what a provider requires is added: results of unanswered calls, turns.
THINKING = AllowedDifference("thinking", "not part of the dialog, and signed by its provider")
UNREAD = AllowedDifference(
    "errors", "reports of a client about its own errors, which no model reads"
)
INSTRUCTED = AllowedDifference(
    "instructions", "the instructions of a client for its own model; other clients have their own"
)
BLOCKS = AllowedDifference(
    "blocks", "content that only its own provider accepts; its beginning is quoted as text"
)
IMAGES = AllowedDifference(
    "images", "images that other providers reject: another type, or a URL; named as text"
)
