"""The real clients resume conversations of all runtimes that were written for them.

The strict provider must accept the requests, and they must equal the predicted ones except for
the differences listed in `harken.capture.resume.allowed_differences`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harken.capture.resume.verify import compare_requests
from harken.formats.registry import FORMATS
from harken.formats.runtimes.base import ModelUse, RuntimeFormat, read_conversation
from harken.formats.runtimes.registry import find_runtime_format
from tests.acceptance.shared_data import needed
from tests.clients import kit
from tests.clients.conversations import PROMPT, Conversation, conversations, new_session, spread

MODELS = {"opencode": "fake/fake-model"}
"""Of the lab, where a session must name one that the client knows."""
SLOW = {"opencode": 4}
"""Where a client takes its time, it resumes only each of so many."""
each_client = pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=kit.needs(name))
        for name in ("claude", "codex", "gemini", "opencode", "pi")
    ],
)


def resume(client: str, number: int, conversation: Conversation, folder: Path) -> list[str]:
    """Write a conversation into a folder and resume it. Return the failures."""
    native: RuntimeFormat | None = find_runtime_format(client)
    assert native
    assert native.writes
    session = msgspec.structs.replace(new_session(number), model=MODELS.get(client, ""))
    return resumed(
        client, native.writes(conversation.entries, session), folder / f"{client}-{number}.jsonl"
    )


def resumed(client: str, data: bytes, file: Path) -> list[str]:
    """Resume a session file. Return the failures."""
    native = find_runtime_format(client)
    assert native
    assert native.build_resume_request
    file.write_bytes(data)
    conversation = read_conversation(native.steps, data)
    expected_request = native.build_resume_request(conversation)
    if not expected_request:
        return []
    result = kit.resume(client, file)
    if native.build_request_for_model is not None:
        has_system = any(message.get("role") == "system" for message in result.sent)
        use = ModelUse(model=result.model, has_system_messages=has_system)
        expected_request = native.build_request_for_model(conversation, use)
    failures = [] if result.reason is None else [f"refused: {result.reason}"]
    compared = compare_requests(client, expected_request, result.sent, prompt=PROMPT)
    return failures + [f"{row!r:.500}" for row in compared.differences]


@needed
@each_client
@pytest.mark.req("D-04")
def test_conversation_of_other_runtimes_is_resumed(client: str, tmp_path: Path) -> None:
    for number, conversation in enumerate(spread(3)[:: SLOW.get(client, 1)]):
        assert resume(client, number, conversation, tmp_path) == [], conversation.source


@pytest.mark.full
@needed
@each_client
@pytest.mark.req("S2-55")
def test_every_conversation_is_resumed(client: str, tmp_path: Path) -> None:
    failures = {
        str(conversation.source): failure
        for number, conversation in enumerate(conversations())
        if number % SLOW.get(client, 1) == 0
        and (failure := resume(client, number, conversation, tmp_path))
    }
    assert failures == {}


@pytest.mark.full
@needed
@pytest.mark.parametrize(
    "client", [pytest.param(name, marks=kit.needs(name)) for name in ("claude", "pi")]
)
@pytest.mark.req("S2-54", "S2-56")
def test_exported_conversation_is_resumed(client: str, tmp_path: Path) -> None:
    native = find_runtime_format(client)
    assert native
    form = FORMATS.find(native.name)
    assert form.writes
    for number, conversation in enumerate(spread(2)):
        file = tmp_path / f"{client}-{number}.jsonl"
        assert resumed(client, form.writes(conversation.entries) or b"", file) == [], (
            conversation.source
        )
