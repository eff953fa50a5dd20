"""Older dialects and the current meaning of their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.core.events import (
    AgentCreated,
    Event,
    PieceOfText,
    TranscriptEntry,
    UnknownEvent,
    event_dict,
)
from harken.errors import LogCorrupted, LogReadOnly
from harken.session.fold import fold
from harken.session.log.dialects import FragmentDialect, PlainDialect, dialect_of
from harken.session.log.reader import LogReadReport, iter_events
from harken.session.session import Session
from harken.session.state import SessionState

FIXTURES = Path(__file__).parents[3] / "fixtures" / "dialects"


def log(folder: Path, *lines: dict[str, Any], end: str = "\n") -> Path:
    path = folder / "old.jsonl"
    path.write_text("".join(json.dumps(line) + end for line in lines))
    return path


def read(path: Path) -> dict[str, Event]:
    return {event.message_id: event for event in iter_events(path)}


def dialect(path: Path) -> str | None:
    reading = LogReadReport()
    for _ in iter_events(path, reading):
        pass
    assert not reading.sealed
    return reading.dialect


def state_of(path: Path) -> SessionState:
    state = SessionState()
    for event in iter_events(path):
        fold(state, event)
    return state


def parents(path: Path) -> dict[str, str | None]:
    return {agent.id: agent.parent for agent in state_of(path).agents.values()}


def birth(id_: str, agent: str, **members: Any) -> dict[str, Any]:
    return {"message_id": id_, "event_type": "agent_created", "agent_id": agent, **members}


def entry(id_: str, agent: str, **members: Any) -> dict[str, Any]:
    return {"message_id": id_, "event_type": "transcript_entry", "agent_id": agent, **members}


def calling(id_: str, agent: str, *calls: tuple[str, str, str]) -> dict[str, Any]:
    """A message that calls tools: (call id, tool, arguments)."""
    items = [{"id": c, "function": {"name": t, "arguments": a}} for c, t, a in calls]
    return entry(id_, agent, role="assistant", tool_calls=items)


def result(id_: str, agent: str, call: str) -> dict[str, Any]:
    return entry(id_, agent, role="tool", tool_call_id=call, content="done")


def task(call: str, name: str) -> tuple[str, str, str]:
    return call, "task", json.dumps({"name": name, "system_prompt": "..."})


class TestCurrentWithoutSums:
    @pytest.mark.req("S0-03", "S0-09")
    def test_examples_of_the_specification_are_read(self) -> None:
        state = state_of(FIXTURES / "s0.jsonl")
        assert dialect(FIXTURES / "s0.jsonl") is None
        root = state.agents["agent_root"]  # type: ignore[index]
        assert state.root == state.primary == "agent_root"
        assert [e.tool_call_id for e in root.transcript or ()].count("c3") == 2
        assert state.agents["agent_jill_inner"].parent == "agent_jill"  # type: ignore[index]

    @pytest.mark.req("S0-03")
    def test_foreign_agent_ids_are_kept_and_never_reused(self, tmp_path: Path) -> None:
        path = log(tmp_path, birth("msg_001", "agent_root"), birth("msg_002", "agent_007"))
        state = state_of(path)
        assert list(state.agents) == ["agent_root", "agent_007"]
        assert state.next_agent == 8

    @pytest.mark.req("S0-05")
    def test_unknown_members_and_types_are_kept(self, tmp_path: Path) -> None:
        mood = {"message_id": "msg_002", "event_type": "mood_changed", "to": {"calm": 1}}
        path = log(tmp_path, birth("msg_001", "a", colour="red"), mood)
        first, second = read(path).values()
        assert event_dict(first)["colour"] == "red"
        assert isinstance(second, UnknownEvent)
        assert event_dict(second) == mood

    def test_current_log_rewritten_by_another_tool_is_read(self, tmp_path: Path) -> None:
        path = log(tmp_path, birth("msg_001", "a", sum="0123456789abcdef"))
        assert "sum" not in event_dict(read(path)["msg_001"])

    def test_agent_place_is_explicit_or_derived(self, tmp_path: Path) -> None:
        hook = birth("msg_002", "b", cause="msg_001", relation="hook")
        events = read(log(tmp_path, birth("msg_001", "a"), hook))
        assert [event_dict(event)["relation"] for event in events.values()] == ["primary", "hook"]

    def test_line_that_is_no_event_is_damage(self, tmp_path: Path) -> None:
        path = log(tmp_path, birth("msg_001", "a"), {"message_id": "msg_002"})
        with pytest.raises(LogCorrupted, match="line 2"):
            read(path)

    def test_unterminated_line_is_torn(self, tmp_path: Path) -> None:
        path = log(tmp_path, birth("msg_001", "a"))
        full_size = path.stat().st_size
        with path.open("a") as file:
            file.write('{"message_id": "msg_002", "spec": {}')
        reading = LogReadReport()
        assert len(list(iter_events(path, reading))) == 1
        assert (reading.end, reading.torn[:1]) == (full_size, b"{")


class TestS1:
    @pytest.mark.req("S1-01")
    def test_older_log_equals_its_successor(self) -> None:
        """The examples of both versions of the specification differ only in their members."""
        old = [event_dict(event) for event in iter_events(FIXTURES / "s1.jsonl")]
        new = [event_dict(event) for event in iter_events(FIXTURES / "s0.jsonl")]
        assert old == new
        assert dialect(FIXTURES / "s1.jsonl") == "S1"

    @pytest.mark.req("S1-01")
    def test_content_id_becomes_the_substance(self) -> None:
        event = read(FIXTURES / "s1.jsonl")["msg_017"]
        assert isinstance(event, TranscriptEntry)
        assert (event.substance, event.cause, event.unknown) == ("msg_015", None, None)

    @pytest.mark.req("S1-01")
    def test_entry_that_is_its_own_content_is_an_original(self, tmp_path: Path) -> None:
        path = log(tmp_path, entry("msg_001", "a", role="user", content_id="msg_001"))
        event = read(path)["msg_001"]
        assert "substance" not in event_dict(event)
        assert dialect(path) == "S1"

    @pytest.mark.req("S1-01")
    def test_piece_has_the_agent_of_the_causing_call(self) -> None:
        event = read(FIXTURES / "s1.jsonl")["msg_035"]
        assert isinstance(event, PieceOfText)
        assert (event.agent_id, event.cause) == ("agent_jill", "msg_034")

    def test_piece_of_an_unknown_call_has_no_agent(self, tmp_path: Path) -> None:
        piece = {"message_id": "msg_001", "event_type": "piece_of_text", "content": "x"}
        path = log(tmp_path, {**piece, "caused_by": "msg_999"})
        assert read(path)["msg_001"].agent_id is None

    @pytest.mark.req("S1-01")
    def test_other_events_get_no_substance_and_no_cause(self, tmp_path: Path) -> None:
        both = entry("msg_002", "a", role="user", content_id="msg_001", caused_by="msg_001")
        path = log(tmp_path, birth("msg_001", "a"), both)
        event = read(path)["msg_002"]
        assert isinstance(event, TranscriptEntry)
        assert (event.substance, event.cause) == ("msg_001", None)
        assert event.unknown == {"caused_by": "msg_001"}

    @pytest.mark.req("S1-01")
    def test_older_log_is_readable_and_never_appended_to(self, tmp_path: Path) -> None:
        path = tmp_path / "s1.jsonl"
        path.write_bytes((FIXTURES / "s1.jsonl").read_bytes())
        with pytest.raises(LogReadOnly, match="S1"):
            Session(path)
        assert path.read_bytes() == (FIXTURES / "s1.jsonl").read_bytes()

    @pytest.mark.req("S1-02")
    def test_parent_has_the_open_task_call_that_names_the_agent(self) -> None:
        assert parents(FIXTURES / "s1.jsonl") == {
            "agent_root": None,
            "agent_jack": "agent_root",
            "agent_jill": "agent_root",
            "agent_jill_inner": "agent_jill",
            "agent_resource_hook": "agent_root",
            "agent_watcher": None,
        }

    @pytest.mark.req("S1-02")
    def test_parallel_task_calls_match_agents_by_name(self, tmp_path: Path) -> None:
        path = log(
            tmp_path,
            birth("msg_001", "root"),
            calling("msg_002", "root", task("c1", "Ann"), task("c2", "Bo")),
            birth("msg_003", "b", name="Bo"),
            birth("msg_004", "a", name="Ann"),
        )
        events = read(path)
        assert event_dict(events["msg_003"])["cause"] == "msg_002.c2"
        assert event_dict(events["msg_004"])["cause"] == "msg_002.c1"

    @pytest.mark.req("S1-02")
    def test_latest_open_call_creates_the_agent_and_only_one(self, tmp_path: Path) -> None:
        path = log(
            tmp_path,
            birth("msg_001", "root"),
            calling("msg_002", "root", task("c1", "Ann")),
            birth("msg_003", "ann", name="Ann"),
            calling("msg_004", "ann", task("c1", "Bo")),
            calling("msg_005", "root", task("c2", "Bo")),
            birth("msg_006", "bo", name="Bo"),
            birth("msg_007", "bo_2", name="Bo"),
        )
        assert parents(path) == {"root": None, "ann": "root", "bo": "root", "bo_2": "ann"}

    @pytest.mark.req("S1-02")
    @pytest.mark.parametrize(
        "call",
        [
            ("c1", "task", '{"name": "Bo"}'),
            ("c1", "hire", '{"name": "Ann"}'),
            ("c1", "task", "no JSON"),
            ("c1", "task", '["Ann"]'),
            ("c1", "task", '{"name": null}'),
        ],
    )
    def test_agent_named_by_no_call_has_no_parent(
        self, tmp_path: Path, call: tuple[str, str, str]
    ) -> None:
        path = log(
            tmp_path,
            birth("msg_001", "root"),
            calling("msg_002", "root", call),
            birth("msg_003", "ann", name="Ann"),
            birth("msg_004", "nobody"),
        )
        state = state_of(path)
        assert parents(path) == {"root": None, "ann": None, "nobody": None}
        assert (state.root, state.primary) == ("root", "root")
        assert dialect(path) is None

    @pytest.mark.req("S1-02")
    def test_call_with_a_result_creates_no_agent(self, tmp_path: Path) -> None:
        path = log(
            tmp_path,
            birth("msg_001", "root"),
            calling("msg_002", "root", task("c1", "Ann")),
            result("msg_003", "root", "c1"),
            birth("msg_004", "ann", name="Ann"),
        )
        assert parents(path)["ann"] is None


class TestFragment:
    @pytest.mark.req("S1-03")
    def test_ids_of_messages_and_agents_stay(self) -> None:
        read_events = list(iter_events(FIXTURES / "fragment.jsonl"))
        assert [event.message_id for event in read_events] == [str(n) for n in range(27)]
        assert list(state_of(FIXTURES / "fragment.jsonl").agents) == [
            "primary",
            "ann",
            "bo",
            "hook",
        ]
        assert dialect(FIXTURES / "fragment.jsonl") == "fragment"

    @pytest.mark.req("S1-03")
    def test_fragment_is_a_piece_of_text(self) -> None:
        events = read(FIXTURES / "fragment.jsonl")
        piece, call_event = events["11"], events["1"]
        assert isinstance(piece, PieceOfText)
        assert (piece.agent_id, piece.content, piece.cause) == ("primary", "You meet", "10")
        assert isinstance(call_event, PieceOfText)
        assert (call_event.agent_id, call_event.cause) == ("user", None)

    @pytest.mark.req("S1-03", "S0-13")
    def test_cause_names_a_call_only_among_several(self) -> None:
        events = read(FIXTURES / "fragment.jsonl")
        assert event_dict(events["7"])["cause"] == "3.toolu_2"
        assert event_dict(events["5"])["cause"] == ["3.toolu_1"]
        assert event_dict(events["20"])["cause"] == "19"
        assert event_dict(events["18"])["cause"] == ["14", "16"]

    @pytest.mark.req("S1-03")
    def test_agent_events_give_places_in_the_tree(self) -> None:
        state = state_of(FIXTURES / "fragment.jsonl")
        assert {a.id: (a.place, a.parent) for a in state.agents.values()} == {
            "primary": ("primary", None),
            "ann": ("subagent", "primary"),
            "bo": ("subagent", "primary"),
            "hook": ("hook", "primary"),
        }

    @pytest.mark.req("S1-03")
    def test_every_call_matches_its_result(self) -> None:
        state = state_of(FIXTURES / "fragment.jsonl")
        assert all(not agent.open_calls for agent in state.agents.values())

    @pytest.mark.req("S1-03", "S0-05")
    def test_edit_is_kept_as_an_unknown_event(self) -> None:
        event = read(FIXTURES / "fragment.jsonl")["26"]
        assert isinstance(event, UnknownEvent)
        assert (event.agent_id, event.event_type) == ("hook", "transcript_edit")
        assert event.data["mood"] == "unknown"

    @pytest.mark.req("S1-03")
    def test_agent_of_an_earlier_version_has_its_parent_by_name(self, tmp_path: Path) -> None:
        """The first versions had numeric agent ids, no roles, and some agents had no cause."""
        old = {"event_type": "agent_created", "language_model": "m"}
        path = log(
            tmp_path,
            {**old, "message_id": "0", "agent": "0", "name": None, "parent": "user"},
            {**old, "message_id": "1", "agent": "1", "name": "Ann", "parent": "0"},
            end="\n\n",
        )
        assert parents(path) == {"0": None, "1": "0"}
        assert "parent" not in event_dict(read(path)["1"])

    def test_members_that_contradict_the_current_format_are_kept(self) -> None:
        dialect = FragmentDialect()
        lines = [
            birth("0", "a", parent="user"),
            birth("1", "b", parent="c", cause="0"),
            calling("2", "a", ("c1", "look", "{}")),
            {**result("3", "a", "c1"), "tool_call": "1"},
        ]
        read_events = [next(iter(dialect.read(json.dumps(line).encode()))) for line in lines]
        assert event_dict(read_events[1])["parent"] == "c"
        assert event_dict(read_events[3])["tool_call"] == "1"

    @pytest.mark.req("S1-03")
    def test_event_with_substance_has_no_cause(self) -> None:
        line = {"message_id": "1", "event_type": "transcript_entry", "agent": "a", "role": "user"}
        both = json.dumps({**line, "substance": "0", "cause": ["0"]}).encode()
        (event,) = FragmentDialect().read(both)
        assert isinstance(event, TranscriptEntry)
        assert (event.substance, event.cause) == ("0", None)

    def test_cause_of_the_wrong_shape_is_no_event(self) -> None:
        line = {"message_id": "1", "event_type": "fragment", "agent": "a", "content": "x"}
        with pytest.raises(ValueError, match="cause"):
            list(FragmentDialect().read(json.dumps({**line, "cause": [{"id": 1}]}).encode()))


class TestDetection:
    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            (b'{"message_id": "0", "event_type": "fragment", "agent": "user"}', FragmentDialect),
            (
                b'{"message_id": "msg_001", "event_type": "agent_created", "agent_id": "a"}',
                PlainDialect,
            ),
            (
                b'{"message_id": "x", "event_type": "y", "agent_id": "a", "agent": "b"}',
                PlainDialect,
            ),
            (b'{"no": "event"}', PlainDialect),
            (b"no JSON", PlainDialect),
        ],
    )
    def test_first_event_determines_the_dialect(self, line: bytes, kind: type) -> None:
        assert isinstance(dialect_of(line), kind)

    def test_log_is_detected_as_s1_by_a_later_line(self, tmp_path: Path) -> None:
        path = log(
            tmp_path,
            birth("msg_001", "root"),
            entry("msg_002", "root", role="user", content="x", content_id="msg_001"),
        )
        reading = LogReadReport()
        lines = iter_events(path, reading)
        next(lines)
        assert reading.dialect is None
        list(lines)
        assert reading.dialect == "S1"

    def test_older_agent_event_is_read_as_agent_created(self) -> None:
        (event,) = PlainDialect().read(json.dumps(birth("msg_001", "a")).encode())
        assert isinstance(event, AgentCreated)
        assert event.relation == "primary"
