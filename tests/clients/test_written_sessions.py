"""Conversations of all runtimes, written for Claude Code and Pi: the real clients resume them.

Each is resumed against the strict provider, which must take what is sent; and that must be, message
by message, what Harken says that the client sends.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.capture.comparison import compare
from harken.formats import claude_code, pi
from harken.formats.native import Native, conversation
from tests.acceptance.shared_data import needed
from tests.clients import kit
from tests.clients.conversations import (
    PROMPT,
    Conversation,
    conversations,
    new_session,
    spread,
)

CLIENTS: dict[str, Native] = {"claude": claude_code.NATIVE, "pi": pi.NATIVE}


def resume(client: str, number: int, said: Conversation, folder: Path) -> list[str]:
    """Return what is wrong with a conversation that is resumed; it is written into a folder."""
    native = CLIENTS[client]
    assert native.writes
    assert native.sent
    data = native.writes(said.entries, new_session(number))
    file = folder / f"{client}-{number}.jsonl"
    file.write_bytes(data)
    ours = native.sent(conversation(native.steps, data))
    if not ours:
        return []
    resumed = kit.resume(client, file)
    found = [] if resumed.reason is None else [f"refused: {resumed.reason}"]
    compared = compare(client, ours, resumed.sent, prompt=PROMPT)
    return found + [f"{row.state} {row.number}: {row.difference}" for row in compared.differences]


@needed
@pytest.mark.parametrize("client", [pytest.param(name, marks=kit.needs(name)) for name in CLIENTS])
def test_a_conversation_of_each_of_three_runtimes_is_resumed(client: str, tmp_path: Path) -> None:
    for number, said in enumerate(spread(3)):
        assert resume(client, number, said, tmp_path) == [], said.source


@pytest.mark.full
@needed
@pytest.mark.parametrize("client", [pytest.param(name, marks=kit.needs(name)) for name in CLIENTS])
@pytest.mark.req("S2-55")
def test_every_conversation_is_resumed(client: str, tmp_path: Path) -> None:
    wrong = {
        str(said.source): found
        for number, said in enumerate(conversations())
        if (found := resume(client, number, said, tmp_path))
    }
    assert wrong == {}
