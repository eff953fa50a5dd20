"""Conversations written as sessions of other runtimes: laws, whoever said what.

Providers are asked through their strict checks, where these are: the real clients are in
`tests/clients`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.core.messages import Message, message_hash
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat, read_conversation
from harken.formats.runtimes.base import SessionWriter as Writer
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.claude_code import writer as claude_code_written
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.pi import reader as pi
from harken.formats.runtimes.pi import writer as pi_written
from harken.formats.runtimes.target import TargetRules
from tests.provider import checks
from tests.unit.formats.context_kit import ODD_CONTEXT, tidy_contexts
from tests.unit.formats.native_kit import read_steps

STRICT = checks.shared("strict")
SESSION = NewSessionInfo(
    id="5e551011-0000-4000-8000-000000000009",
    folder="/home/jill/café",
    time="2026-01-31T12:00:00.000000Z",
    title="Tea",
)


def strict_claude(messages: list[dict[str, Any]]) -> None:
    request = {"role": "user", "content": [{"type": "text", "text": "Go on"}]}
    STRICT.check_anthropic({"messages": [*messages, request]}) if STRICT else None


def strict_pi(messages: list[dict[str, Any]]) -> None:
    STRICT.check_chat({"messages": messages}) if STRICT else None


TARGETS: list[tuple[RuntimeFormat, TargetRules, Callable[[list[dict[str, Any]]], None]]] = [
    (claude_code.NATIVE, claude_code_written.FIT, strict_claude),
    (pi.NATIVE, pi_written.FIT, strict_pi),
]
few = settings(max_examples=settings().max_examples // 4)
every_target = pytest.mark.parametrize(
    ("native", "fit", "strict"), TARGETS, ids=[native.name for native, _, _ in TARGETS]
)


def writer(native: RuntimeFormat) -> Writer:
    assert native.writes is not None
    return native.writes


def read_back(native: RuntimeFormat, entries: list[ConversationEntry]) -> list[ConversationEntry]:
    """Return entries as they are read after they were written."""
    return read_conversation(native.steps, writer(native)(entries, SESSION))


def to_entries(messages: list[Message]) -> list[ConversationEntry]:
    return [ConversationEntry(message) for message in messages]


@every_target
@few
@given(context=ODD_CONTEXT)
def test_resume_request_of_a_written_session_is_valid(
    native: RuntimeFormat, fit: TargetRules, strict: Callable[[Any], None], context: list[Message]
) -> None:
    entries = read_back(native, to_entries(context))
    assert native.build_resume_request
    messages = native.build_resume_request(entries)
    json.dumps(messages, allow_nan=False, ensure_ascii=False).encode()
    strict(messages)


@every_target
@few
@given(context=ODD_CONTEXT)
def test_written_lines_form_one_conversation(
    native: RuntimeFormat, fit: TargetRules, strict: object, context: list[Message]
) -> None:
    data = writer(native)(to_entries(context), SESSION)
    _, reading = read_steps(native, data)
    assert not reading.bad
    assert not reading.branches
    assert len(reading.tips) <= 1


@every_target
@few
@given(context=tidy_contexts())
def test_written_session_reads_back_the_normalized_entries(
    native: RuntimeFormat, fit: TargetRules, strict: object, context: list[Message]
) -> None:
    expected = [
        message_hash(entry.message) for entry in normalize_entries(to_entries(context), fit)
    ]
    assert [
        message_hash(entry.message) for entry in read_back(native, to_entries(context))
    ] == expected


@every_target
@few
@given(context=ODD_CONTEXT)
def test_rewriting_a_written_session_changes_nothing(
    native: RuntimeFormat, fit: TargetRules, strict: object, context: list[Message]
) -> None:
    once = read_back(native, to_entries(context))
    assert read_back(native, once) == once
    assert native.build_resume_request
    assert native.build_resume_request(read_back(native, once)) == native.build_resume_request(once)


@every_target
@few
@given(context=ODD_CONTEXT, words=st.text(max_size=5))
def test_written_bytes_depend_only_on_the_conversation(
    native: RuntimeFormat, fit: TargetRules, strict: object, context: list[Message], words: str
) -> None:
    session = msgspec.structs.replace(SESSION, title=words, folder=words, model=words)
    entries = to_entries(context)
    assert writer(native)(entries, session) == writer(native)([*entries], session)
    other_session = msgspec.structs.replace(session, id="5e551011-0000-4000-8000-00000000000a")
    if entries and writer(native)(entries, session).count(b"\n") > 1:
        assert writer(native)(entries, session) != writer(native)(entries, other_session)
