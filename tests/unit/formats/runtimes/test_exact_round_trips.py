"""Times, usage and order stay exact through import, export and import, in every runtime."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from harken.core.messages import FunctionCall, Message, TextPart, ToolCall
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat, read_conversation
from harken.formats.runtimes.registry import list_runtime_formats

WRITERS = [native for native in list_runtime_formats() if native.writes]
USAGE: dict[str, dict[str, Any]] = {
    "claude": {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 3},
    "codex": {"input_tokens": 10, "output_tokens": 7, "cache_read_tokens": 3},
}
DURATIONS_S = {"c1": 0.001, "c2": 61.25, "c3": 4.5}


def stamp(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"2026-01-31T12:{int(minutes):02d}:{rest:09.6f}Z"


def conversation() -> list[ConversationEntry]:
    """Return a conversation with parallel calls whose results arrived in another order."""
    calls = [ToolCall(id_, FunctionCall("look", f'{{"n":"{id_}"}}')) for id_ in DURATIONS_S]
    entries = [
        ConversationEntry(Message("user", "Is the cafe open?"), stamp(0), {"kind": "prompt"}),
        ConversationEntry(Message("assistant", [TextPart("I look.")], calls[:2]), stamp(1)),
    ]
    entries += [
        ConversationEntry(
            Message("tool", f"of {id_}", tool_call_id=id_), stamp(1 + DURATIONS_S[id_])
        )
        for id_ in ("c1", "c2")
    ]
    entries.append(ConversationEntry(Message("assistant", None, calls[2:]), stamp(70)))
    entries.append(
        ConversationEntry(
            Message("tool", "of c3", tool_call_id="c3"), stamp(70 + DURATIONS_S["c3"])
        )
    )
    entries.append(ConversationEntry(Message("assistant", "It is."), stamp(80)))
    return entries


def read_back(native: RuntimeFormat, entries: list[ConversationEntry]) -> list[ConversationEntry]:
    assert native.writes
    session = NewSessionInfo(
        id="5e551011-0000-4000-8000-000000000001", folder="/w", time=stamp(0), title="Tea"
    )
    return read_conversation(native.steps, native.writes(entries, session))


def durations(entries: list[ConversationEntry]) -> dict[str, float]:
    """Return the seconds between each call and its result."""
    starts: dict[str, datetime] = {}
    measured: dict[str, float] = {}
    for entry in entries:
        assert entry.time
        moment = datetime.fromisoformat(entry.time)
        for call in entry.message.tool_calls or ():
            starts[call.id] = moment
        if entry.message.role == "tool":
            id_ = entry.message.tool_call_id or ""
            measured[id_] = round((moment - starts[id_]).total_seconds(), 6)
    return measured


@pytest.mark.parametrize("native", WRITERS, ids=lambda native: native.runtime)
@pytest.mark.req("S2-54")
def test_second_import_equals_the_first(native: RuntimeFormat) -> None:
    imported = read_back(native, conversation())
    assert [entry.message.role for entry in imported] == [
        entry.message.role for entry in conversation()
    ]
    assert read_back(native, imported) == imported


@pytest.mark.parametrize("native", WRITERS, ids=lambda native: native.runtime)
def test_durations_of_tools_stay_exact(native: RuntimeFormat) -> None:
    imported = read_back(native, conversation())
    assert list(durations(imported).values()) == list(DURATIONS_S.values())
    assert durations(read_back(native, imported)) == durations(imported)


@pytest.mark.parametrize("runtime", ["claude", "codex"])
def test_usage_is_counted_once_for_each_answer(runtime: str) -> None:
    native = next(native for native in WRITERS if native.runtime == runtime)
    imported = [
        ConversationEntry(
            entry.message,
            entry.time,
            {**(entry.source or {}), "usage": {**USAGE[runtime], "output_tokens": number}},
        )
        if entry.message.role == "assistant"
        else entry
        for number, entry in enumerate(read_back(native, conversation()), start=1)
    ]
    exported = read_back(native, imported)
    assert usages(exported) == usages(imported)
    assert len(usages(exported)) == 3


def usages(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    sources = [entry.source or {} for entry in entries]
    return [
        {name: n for name, n in source["usage"].items() if n}
        for source in sources
        if "usage" in source
    ]
