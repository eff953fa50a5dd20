"""ChatDev: a log is a chat of roles, and the context of a role begins anew with each phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.chatdev import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, read, said
from tests.unit.formats.runtimes.research.samples import chatdev_log

LOG = chatdev_log().encode()


def test_chat_has_what_was_said_in_order() -> None:
    steps, reading = read(NATIVE, LOG)
    entries = [entry for step in steps if not step.agent for entry in step.entries]
    assert [(entry.message.name, entry.message.content) for entry in entries] == [
        ("Boss", "Which tea?"),
        ("Cook", "Green."),
        ("Cook", "Serve it."),
        ("Waiter", "Done."),
    ]
    assert entries[0].time == "2026-01-31T12:00:02.000000Z"
    assert (reading.session_id, reading.title) == ("Cafe-20260131120000", "A cafe.")


def test_a_role_has_a_new_context_in_each_phase() -> None:
    steps, _ = read(NATIVE, LOG)
    assert said(steps, "Cook") == [
        ("system", "You are the cook."),
        ("user", "Which tea?"),
        ("assistant", "Green."),
        ("system", "You are the cook."),
        ("assistant", "Serve it."),
        ("user", "Done."),
    ]
    assert [step.type for step in steps if step.agent == "Cook"][:2] == ["snapshot", "snapshot"]
    assert said(steps, "Boss") == [
        ("system", "You are the boss."),
        ("assistant", "Which tea?"),
        ("user", "Green."),
    ]


def test_usage_of_a_call_is_that_of_its_answer(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "Cafe.log", LOG)
    rows = home.query(
        "SELECT a.name, model, input_tokens, output_tokens FROM requests r "
        "JOIN agents a ON a.id = r.agent_id"
    )
    assert rows == [("Cook", "TEA", 30, 4), ("Waiter", "TEA", 30, 4)]
    rows = home.query(
        "SELECT a.name, m.kind FROM messages m JOIN agents a ON a.id = m.agent_id "
        "WHERE NOT is_repeat AND role = 'assistant' ORDER BY m.time"
    )
    assert rows == [
        ("Boss", "system"),  # A template wrote the opening messages.
        ("Cook", "response"),
        ("Cook", "system"),
        ("Waiter", "response"),
    ]


def test_each_record_is_read_or_counted() -> None:
    _, reading = read(NATIVE, b"noise\n" + LOG)
    assert reading.uninterpreted == {
        "before the first record": 1,
        "Seminar Conclusion": 1,
        "flask": 1,
    }
    assert reading.lines == reading.used_lines + 3


@pytest.mark.parametrize("data", [b"", b"nothing", LOG[:200], b"\xff\xfe\x00"])
def test_a_log_in_which_nobody_speaks_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="nobody speaks"):
        read(NATIVE, data)


@pytest.mark.parametrize("cut", range(250, len(LOG), 97))
def test_a_torn_log_is_read_as_far_as_it_goes(cut: int) -> None:
    try:
        _, reading = read(NATIVE, LOG[:cut] + b"\x80\x00[")
    except FormatError:
        return
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values())


def test_files_are_recognized_by_their_first_record() -> None:
    assert detect_runtime_format("Cafe.log", LOG) is NATIVE
    assert detect_runtime_format("Cafe.log", b"[2026-31-01 12:00:00 INFO] started") is None
    assert detect_runtime_format("Cafe.prompt", LOG) is None
