"""Conversations of all runtimes, written for Claude Code and Pi: the real clients resume them.

Each is resumed against the strict provider, which must take what is sent; and that must be, message
by message, what Harken says that the client sends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken.formats import claude_code, pi
from harken.formats.native import Native, conversation
from harken.formats.registry import FORMATS
from tests.acceptance.sent_comparison import differences
from tests.acceptance.shared_data import needed
from tests.clients import kit
from tests.clients.conversations import (
    Conversation,
    conversations,
    less_present_of_claude,
    less_present_of_pi,
    less_tools_of_today,
    new_session,
    spread,
)

Request: TypeAlias = list[dict[str, Any]]
Compare: TypeAlias = Callable[[Request, Request], list[str]]


def exactly(ours: Request, theirs: Request) -> list[str]:
    """Return what differs, a line for each message."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    found = [
        f"message {at}: {one!r:.300} is not {two!r:.300}" for at, (one, two) in pairs if one != two
    ]
    return found + ([] if len(ours) == len(theirs) else [f"{len(ours)} are not {len(theirs)}"])


def as_offered(ours: Request, theirs: Request) -> list[str]:
    """Return what differs, but for what Claude Code fits to the tools that it offers."""
    return differences(less_tools_of_today(ours), less_tools_of_today(theirs))


CLIENTS: dict[str, tuple[Native, Callable[[Request], Request], Compare]] = {
    "claude": (claude_code.NATIVE, less_present_of_claude, as_offered),
    "pi": (pi.NATIVE, less_present_of_pi, exactly),
}


def resume(client: str, number: int, said: Conversation, folder: Path) -> list[str]:
    """Return what is wrong with a conversation that is resumed; it is written into a folder."""
    native, _, _ = CLIENTS[client]
    assert native.writes
    return resumed(client, native.writes(said.entries, new_session(number)), folder)


def resumed(client: str, data: bytes, folder: Path) -> list[str]:
    """Return what is wrong with a file that is resumed."""
    native, less_present, compare = CLIENTS[client]
    assert native.sent
    file = folder / f"{client}.jsonl"
    file.write_bytes(data)
    ours = native.sent(conversation(native.steps, data))
    if not ours:
        return []
    found = kit.resume(client, file)
    if found.reason is not None:
        return [f"refused: {found.reason}"]
    return compare(ours, less_present(found.sent))


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


@pytest.mark.full
@needed
@pytest.mark.parametrize("client", [pytest.param(name, marks=kit.needs(name)) for name in CLIENTS])
@pytest.mark.req("S2-54", "S2-56")
def test_what_is_exported_is_resumed(client: str, tmp_path: Path) -> None:
    form = FORMATS.find(CLIENTS[client][0].name)
    assert form.writes
    for said in spread(2):
        assert resumed(client, form.writes(said.entries) or b"", tmp_path) == [], said.source
