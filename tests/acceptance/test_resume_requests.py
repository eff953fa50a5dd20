"""What official clients sent after resuming a transcript is what Harken says that they send.

The differences that are allowed, each with its reason, are in
`harken.capture.resume.allowed_differences`, and in `MODELS` here.
"""

from __future__ import annotations

import pytest

from harken.capture.resume.allowed_differences import DIFFERENCE_RULES
from harken.capture.resume.verify import compare_requests
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ModelUse, RuntimeFormat
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.pi import reader as pi
from tests.acceptance.shared_data import DATA, Recorded, recordings
from tests.unit.formats.native_kit import read_context, read_steps, store_and_load

CLIENTS: dict[str, RuntimeFormat] = {
    "cc": claude_code.NATIVE,
    "cx": codex.NATIVE,
    "pi": pi.NATIVE,
}
MODELS = {"cc25": "claude-opus-5-5"}
"""The model that the client selected, where it is not the one that answered last. It is in the
request, but not in the recording. In cc25, Claude Code replaced a retired model, and sends no
thinking of it."""
ALLOWED = {
    "cache marks",
    "texts as lists",
    "default members",
    "reminders",
    "the joined end",
    "tools of the past",
    "new ids",
    "sections of instructions",
    "instructions",
    "the present",
}
"""The rules that the recordings need. A new one is a new difference."""
RECORDINGS = recordings()
needs_recordings = pytest.mark.skipif(
    not RECORDINGS, reason="../shared/data/sent and ../shared/data/sent2 are not here"
)


def read_recorded(recorded: Recorded) -> list[ConversationEntry]:
    """Return the conversation of a recording, as it is read from a store."""
    steps, reading = read_steps(CLIENTS[recorded.name[:2]], recorded.source)
    return store_and_load(read_context(steps, next(iter(reading.tips.values()))))


def build_request(recorded: Recorded) -> list[dict[str, object]]:
    native, entries = CLIENTS[recorded.name[:2]], read_recorded(recorded)
    if native.build_request_for_model is None:
        assert native.build_resume_request
        return native.build_resume_request(entries)
    has_system = any(message.get("role") == "system" for message in recorded.messages)
    use = ModelUse(model=MODELS.get(recorded.name, ""), has_system_messages=has_system)
    return native.build_request_for_model(entries, use)


@needs_recordings
def test_all_recordings_are_compared() -> None:
    assert len(RECORDINGS) == len([*DATA.glob("sent*/*.json")]) == 24
    assert {recorded.name[:2] for recorded in RECORDINGS} == CLIENTS.keys()


@needs_recordings
@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda recorded: recorded.name)
@pytest.mark.req("S2-55")
def test_resume_request_equals_the_request_of_the_client(recorded: Recorded) -> None:
    native, request = CLIENTS[recorded.name[:2]], build_request(recorded)
    compared = compare_requests(native.runtime, request, recorded.messages)
    assert compared.differences == []
    assert len(compared.rows) == len(request)
    assert {rule.name for rule in compared.ignored} <= ALLOWED


@needs_recordings
def test_a_lost_or_reordered_message_is_not_allowed() -> None:
    """The rules hide no loss: without any one message, a recording differs."""
    recorded = min(RECORDINGS, key=lambda recorded: abs(len(recorded.messages) - 30))
    request = build_request(recorded)
    for index in range(1, len(request)):
        shorter = [*request[:index], *request[index + 1 :]]
        compared = compare_requests(CLIENTS[recorded.name[:2]].runtime, request, shorter)
        assert compared.differences, index


def test_every_rule_has_a_reason() -> None:
    assert all(rule.reason and rule.clients for rule in DIFFERENCE_RULES)
