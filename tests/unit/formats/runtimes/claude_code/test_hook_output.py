"""Output of hooks that the model read is in the conversation, as the client sends it again.

The expected requests were observed with client 2.1.329.
"""

from __future__ import annotations

from typing import Any

import pytest

from harken.formats.runtimes.base import ModelUse, NewSessionInfo, read_conversation
from harken.formats.runtimes.claude_code.reader import NATIVE
from harken.formats.runtimes.claude_code.resume_request import build_resume_request
from harken.formats.runtimes.claude_code.writer import write_session
from tests.unit.formats.transcript_kit import Transcript, read_transcript, text_block

START = {
    "type": "hook_success",
    "hookName": "SessionStart:startup",
    "hookEvent": "SessionStart",
    "toolUseID": "t1",
    "content": "# Rules\n\nBe brief.",
    "stdout": "# Rules\n\nBe brief.\n",
    "exitCode": 0,
}
SUBMIT = {
    "type": "hook_additional_context",
    "hookName": "UserPromptSubmit",
    "hookEvent": "UserPromptSubmit",
    "toolUseID": "t2",
    "content": ["It is noon.", "The cafe is open."],
}
SESSION = NewSessionInfo(
    id="5e551011-0000-4000-8000-000000000009", folder="/", time="2026-01-31T12:00:00.000000Z"
)


def hooked() -> Transcript:
    transcript = Transcript()
    transcript.add("attachment", attachment=START)
    transcript.user("Is the cafe open?")
    transcript.add("attachment", attachment=SUBMIT)
    transcript.answer(text_block("Yes."))
    return transcript


def test_output_of_hooks_is_no_message_of_the_user() -> None:
    entries = read_transcript(hooked()).entries()
    assert [(e.message.role, (e.source or {})["kind"]) for e in entries] == [
        ("system", "notification"),
        ("user", "prompt"),
        ("system", "notification"),
        ("assistant", "response"),
    ]
    assert entries[0].message.content == "# Rules\n\nBe brief."
    assert (entries[0].source or {})["hook"] == {
        "type": "hook_success",
        "hookName": "SessionStart:startup",
        "hookEvent": "SessionStart",
        "toolUseID": "t1",
    }


def test_output_of_hooks_follows_the_message_of_the_user() -> None:
    entries = read_transcript(hooked()).entries()
    text = (
        "SessionStart:startup hook success: # Rules\n\nBe brief.\n\n"
        "UserPromptSubmit hook additional context: It is noon.\nThe cafe is open."
    )
    assert build_resume_request(entries)[:2] == [
        {"role": "user", "content": [text_block("Is the cafe open?")]},
        {"role": "system", "content": [text_block(text)]},
    ]
    (question, _) = build_resume_request(entries, ModelUse(has_system_messages=False))
    assert [block["text"].splitlines()[0] for block in question["content"]] == [
        "<system-reminder>",
        "<system-reminder>",
        "Is the cafe open?",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"content": ""},
        {"hookEvent": "PostToolUse"},
        {"hookEvent": "Stop"},
        {"hookEvent": 5},
        {"content": ["a"]},
        {"type": "hook_system_message"},
        {**SUBMIT, "content": []},
        {**SUBMIT, "content": "It is noon."},
        {"type": "skill_listing", "content": "- tea: make tea"},
    ],
)
def test_other_output_is_for_display(changes: dict[str, Any]) -> None:
    transcript = Transcript()
    transcript.add("attachment", attachment={**START, **changes})
    transcript.user("Is the cafe open?")
    assert [e.message.role for e in read_transcript(transcript).entries()] == ["user"]


def test_output_of_hooks_is_written_again() -> None:
    entries = read_transcript(hooked()).entries()
    data = write_session(entries, SESSION)
    written = read_conversation(NATIVE.steps, data)
    assert [entry.message for entry in written][2].content == entries[2].message.content
    assert [(e.source or {}).get("hook") for e in written] == [
        (e.source or {}).get("hook") for e in entries
    ]
    assert build_resume_request(written) == build_resume_request(entries)


def test_output_after_the_last_answer_changes_nothing_before_it() -> None:
    transcript = hooked()
    request = build_resume_request(read_transcript(transcript).entries())
    transcript.add("attachment", attachment={**SUBMIT, "hookEvent": "Stop", "hookName": "Stop"})
    longer = build_resume_request(read_transcript(transcript).entries())
    assert longer[: len(request)] == request
