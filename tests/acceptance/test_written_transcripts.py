"""The real conversations, written for other runtimes and read again: nothing that was said is lost.

What the real clients make of them is in `tests/clients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import RuntimeFormat, read_conversation
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.claude_code import writer as claude_code_written
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.pi import reader as pi
from harken.formats.runtimes.pi import writer as pi_written
from harken.formats.runtimes.target import TargetRules
from tests.acceptance.shared_data import needed
from tests.clients.conversations import Conversation, conversations, new_session
from tests.property.test_written_sessions import strict_claude, strict_pi

TARGETS = [
    (claude_code.NATIVE, claude_code_written.FIT, strict_claude),
    (pi.NATIVE, pi_written.FIT, strict_pi),
]


@pytest.fixture(scope="module")
def conversation_list() -> list[Conversation]:
    return list(conversations())


def rewrite_entries(
    native: RuntimeFormat, entries: list[ConversationEntry]
) -> list[ConversationEntry]:
    assert native.writes
    return read_conversation(native.steps, native.writes(entries, new_session(1)))


def is_whole(entries: list[ConversationEntry], fit: TargetRules) -> bool:
    """Whether nothing has to be closed, joined or told otherwise."""
    return [entry.message for entry in normalize_entries(entries, fit)] == [
        entry.message for entry in entries
    ]


def native_conversations(
    conversations_: list[Conversation], native: RuntimeFormat, fit: TargetRules
) -> Iterator[Conversation]:
    for conversation in conversations_:
        if conversation.runtime == native.runtime and is_whole(conversation.entries, fit):
            yield conversation


def facts(entry: ConversationEntry, like: ConversationEntry) -> object:
    """Return an entry without names that may be given anew, and without what `like` lacks.

    Names that are no UUIDs are given anew, and an answer gets a model where it has none, or usage:
    without it, Pi does not begin.
    """
    source = _like(entry.source or {}, like.source or {})
    return (
        entry.message,
        entry.time,
        {n: v for n, v in source.items() if n not in ("uuid", "uuids")},
    )


def _like(value: Any, like: Any) -> Any:
    """Return a value without the members, at any depth, that `like` lacks."""
    if not isinstance(value, Mapping) or not isinstance(like, Mapping):
        return value
    return {name: _like(inner, like[name]) for name, inner in value.items() if name in like}


@pytest.mark.full
@needed
@pytest.mark.parametrize(("native", "fit", "strict"), TARGETS, ids=["claude", "pi"])
def test_native_conversations_round_trip(
    native: RuntimeFormat, fit: TargetRules, strict: object, conversation_list: list[Conversation]
) -> None:
    """Times, signatures, usage: all of it; and so is what is sent. (Of names, see the unit tests.)"""
    wholes = list(native_conversations(conversation_list, native, fit))
    assert wholes
    for conversation in wholes:
        entries = rewrite_entries(native, conversation.entries)
        pairs = zip(entries, conversation.entries, strict=True)
        assert all(facts(new, was) == facts(was, was) for new, was in pairs), conversation.source
        assert native.build_resume_request
        assert native.build_resume_request(entries) == native.build_resume_request(
            conversation.entries
        ), conversation.source


@pytest.mark.full
@needed
@pytest.mark.parametrize(("native", "fit", "strict"), TARGETS, ids=["claude", "pi"])
def test_written_conversations_are_valid_and_read_back(
    native: RuntimeFormat, fit: TargetRules, strict: object, conversation_list: list[Conversation]
) -> None:
    for conversation in conversation_list:
        entries = rewrite_entries(native, conversation.entries)
        assert len(entries) == len(normalize_entries(conversation.entries, fit)), (
            conversation.source
        )
        assert native.build_resume_request
        assert callable(strict)
        strict(native.build_resume_request(entries))
