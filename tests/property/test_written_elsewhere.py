"""Whatever a conversation holds: the session written of it is one that the runtime can go on with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.core.messages import Message, TextPart, ThinkingPart, ToolCall
from harken.formats.base import ConversationEntry
from harken.formats.providers.alternation import SYSTEM_PREFIX
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.gemini_cli import reader as gemini_cli
from harken.formats.runtimes.opencode import reader as opencode
from harken.formats.tool_calls import iter_items
from tests.provider.sessions import check
from tests.unit.formats.context_kit import ODD_CONTEXT, tidy_contexts
from tests.unit.formats.native_kit import read_context, read_steps, store_and_load

NATIVES = pytest.mark.parametrize(
    "native", [codex.NATIVE, gemini_cli.NATIVE, opencode.NATIVE], ids=lambda native: native.runtime
)
NEW = NewSessionInfo(
    id="019f0675-387a-79c2-9e8d-ceb8a3060001", folder="/w", time="2026-01-31T12:00:00.000000Z"
)
few = settings(max_examples=settings().max_examples // 3)
TIMES = st.none() | st.sampled_from(["2026-01-30T10:00:00.000000Z", "2026-01-29T10:00:00.500000Z"])
SOURCES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["r1", "r2", "../x", "é", ""]),
        "kind": st.sampled_from(["prompt", "system"]),
        "model": st.sampled_from(["claude-x", "m/n", ""]),
        "usage": st.sampled_from(
            [{"input_tokens": 5, "output_tokens": 3}, {"input_tokens": -1}, 7]
        ),
    },
)


def entries_of(messages: Sequence[Message]) -> st.SearchStrategy[list[ConversationEntry]]:
    return st.tuples(
        *(st.builds(ConversationEntry, st.just(message), TIMES, SOURCES) for message in messages)
    ).map(list)


CONVERSATIONS = ODD_CONTEXT.flatmap(entries_of)


def read_back(
    native: RuntimeFormat, entries: Sequence[ConversationEntry]
) -> list[ConversationEntry]:
    """Return what is read of a session that was written."""
    assert native.writes is not None
    data = native.writes(entries, NEW)
    assert data == native.writes([*entries], NEW)
    data.decode()
    steps, reading = read_steps(native, data)
    assert not reading.bad
    return store_and_load(read_context(steps, next(iter(reading.tips.values()), None)))


@NATIVES
@few
@given(CONVERSATIONS)
def test_written_session_is_valid_and_round_trips(
    native: RuntimeFormat, entries: list[ConversationEntry]
) -> None:
    written_entries = read_back(native, entries)
    assert native.build_resume_request is not None
    check(native.runtime, native.build_resume_request(written_entries))
    assert read_back(native, written_entries) == written_entries


def list_contents(messages: Sequence[Message]) -> list[object]:
    """Return what was said and done, without thoughts, ids and who said an instruction."""
    contents: list[object] = []
    for message in messages:
        for item in iter_items(message):
            if isinstance(item, ToolCall):
                contents.append((item.function.name, item.function.arguments))
            elif isinstance(item, TextPart):
                text = item.text.removeprefix(SYSTEM_PREFIX).removeprefix("[error]: ")
                contents.append(text.removesuffix("\n\n"))  # OpenCode's writer parts texts so
            elif not isinstance(item, ThinkingPart):
                contents.append(item)
    return contents


@NATIVES
@few
@given(tidy_contexts(images=False))
def test_written_session_keeps_all_contents(native: RuntimeFormat, messages: list[Message]) -> None:
    entries = [ConversationEntry(message, None, None) for message in messages]
    read_again = [entry.message for entry in read_back(native, entries)]
    text_ = "\n\n".join(text for text in list_contents(messages) if isinstance(text, str))
    assert "\n\n".join(text for text in list_contents(read_again) if isinstance(text, str)) == text_
    calls = [call for call in list_contents(messages) if not isinstance(call, str)]
    assert [call for call in list_contents(read_again) if not isinstance(call, str)] == calls
