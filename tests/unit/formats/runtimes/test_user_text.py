"""Text that clients write with the role of the user is no prompt."""

from __future__ import annotations

import pytest

from harken.formats.runtimes.user_text import extract_typed_text

REMINDER = "<system-reminder>\nIt is noon.\n</system-reminder>"


@pytest.mark.parametrize(
    "text",
    [
        REMINDER,
        f"{REMINDER}\n\n{REMINDER}\n",
        "<system-reminder>cut off",
        '<hook_prompt hook_run_id="1">Look again.</hook_prompt>',
        "# AGENTS.md instructions for /a",
        f"{REMINDER}\nThis session is being continued from a previous conversation that ran out",
        "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
    ],
)
def test_text_of_a_client_contains_no_typed_prompt(text: str) -> None:
    assert not extract_typed_text(text)


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        (f"{REMINDER}\n\n{REMINDER}\n\n\nGo.", "Go."),
        ("<session_context>\nHere.\n</session_context>\n\nGo.", "Go."),
        ("Go.", "Go."),
        ("What does <system-reminder> mean?", "What does <system-reminder> mean?"),
        ("<skills>are these</skills>", "<skills>are these</skills>"),
        ("", ""),
    ],
)
def test_remaining_text_is_the_typed_prompt(text: str, prompt: str) -> None:
    assert extract_typed_text(text) == prompt
