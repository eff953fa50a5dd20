from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, NameNotFound
from harken.session.session import Session
from harken.views.context import context
from harken.views.interventions import interventions
from harken.views.timeline import timeline
from harken.views.tree import tree
from harken.views.verdicts import verdicts
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import EXAMPLE_1, HI, JACK, JILL, ROOT, Line
from tests.unit.views.log_builder import LogBuilder, write_log


@pytest.mark.req("S0-41")
def test_list_agents_returns_ids_and_names_else_ids(
    cafe: SessionViewer,
) -> None:
    assert cafe.list_agents() == {ROOT: ROOT, JACK: "Jack", JILL: "Jill"}


@pytest.mark.req("S0-41")
def test_list_agents_includes_past_agents_and_not_the_user(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    utterance = play.says(play.root, "the password is 1234")
    play.hears("user", "the password is [REDACTED]", utterance)
    play.moves(jack, "gone")
    assert play.viewer().list_agents() == {play.root: "Root", jack: "Jack"}


def test_agent_without_creation_event_is_listed(inner: SessionViewer) -> None:
    assert inner.list_agents() == {JILL: JILL, "agent_jill_inner": "Inner"}


def test_renamed_agent_is_listed_by_last_name_and_resolved_by_both(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.session.append(ev.AgentConfigured(agent_id=jack, name="John"))
    viewer = play.viewer()
    assert viewer.list_agents()[jack] == "John"
    assert viewer.resolve_agent("Jack") == viewer.resolve_agent("John") == jack


@pytest.mark.req("S0-42")
def test_transcript_has_the_entries_of_the_agent_without_pieces(cafe: SessionViewer) -> None:
    own_lines = [line for line in EXAMPLE_1 if line["agent_id"] == ROOT]
    entries = [line for line in own_lines if line["event_type"] == "transcript_entry"]
    assert cafe.get_transcript(ROOT) == entries
    assert any(line["event_type"] == "piece_of_text" for line in own_lines)


@pytest.mark.req("S0-42")
def test_transcript_of_an_unknown_agent_is_empty(cafe: SessionViewer) -> None:
    assert cafe.get_transcript("agent_nobody") == []


def test_transcript_accepts_a_name(cafe: SessionViewer) -> None:
    assert cafe.get_transcript("Jack") == cafe.get_transcript(JACK) != []


def test_event_dicts_equal_the_line_without_its_sum(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    line = json.loads(play.session.path.read_text(encoding="utf-8").splitlines()[-1])
    assert line.pop("sum")
    assert play.viewer().get_transcript(play.root) == [line]


def test_event_dicts_keep_unknown_members(tmp_path: Path) -> None:
    call = {"id": "c1", "function": {"name": "new", "arguments": "{}", "strict": True}, "index": 0}
    line: Line = {
        "message_id": "msg_001",
        "event_type": "transcript_entry",
        "agent_id": "a",
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "mood": "good",
    }
    assert write_log(tmp_path, [line]).get_transcript("a") == [line]


def test_events_of_an_older_dialect_have_current_members(tmp_path: Path) -> None:
    utterance: Line = {
        "message_id": "msg_001",
        "event_type": "transcript_entry",
        "agent_id": "a",
        "role": "assistant",
        "content": "Hi",
    }
    heard_line: Line = {**utterance, "message_id": "msg_002", "agent_id": "b", "role": "user"}
    viewer = write_log(tmp_path, [utterance, {**heard_line, "content_id": "msg_001"}])
    (entry,) = viewer.get_transcript("b")
    assert entry["substance"] == "msg_001"
    assert "content_id" not in entry


def test_event_of_another_log_has_its_own_members(cafe: SessionViewer) -> None:
    stranger = ev.PieceOfText(message_id=cafe.events.events[0].message_id, content="x")
    assert cafe.raw(stranger)["content"] == "x"


def test_first_of_two_events_with_one_id_is_referenced(tmp_path: Path) -> None:
    first = {**EXAMPLE_1[14], "content": "first"}
    viewer = write_log(tmp_path, [first, {**first, "content": "second"}, *EXAMPLE_1[16:17]])
    assert viewer.trace_message_flow("msg_017")[0]["content"] == "first"
    assert [e["content"] for e in viewer.get_transcript(JACK)] == ["first", "second"]


def test_ambiguous_name_error_lists_unambiguous_names(play: LogBuilder) -> None:
    first_jack = play.create_agent("Jack", by=play.root)
    play.moves(first_jack, "gone")
    two = play.create_agent("Jack", by=play.root)
    viewer = play.viewer()
    choices = rf"'Jack'.*Root/Jack \({first_jack}, gone\), Root/Jack \({two}\)"
    with pytest.raises(NameNotFound, match=choices):
        viewer.resolve_agent("Jack")
    with pytest.raises(NameNotFound, match=choices):
        viewer.get_transcript("Jack")
    with pytest.raises(NameNotFound, match=choices.replace("'Jack'", "'Root/Jack'", 1)):
        viewer.resolve_agent("Root/Jack")
    assert viewer.resolve_agent(first_jack) == first_jack


def test_path_selects_one_of_several_agents(play: LogBuilder) -> None:
    ann = play.create_agent("Ann", by=play.root)
    mine = play.create_agent("guard", by=play.root, relation="hook")
    hers = play.create_agent("guard", by=ann, relation="hook")
    unusual_agent = play.create_agent("a/b", by=ann)
    viewer = play.viewer()
    with pytest.raises(NameNotFound, match=rf"Root/guard \({mine}\), Root/Ann/guard \({hers}\)"):
        viewer.resolve_agent("guard")
    for path, agent in (
        ("Root/guard", mine),
        ("Ann/guard", hers),
        ("Root/Ann/guard", hers),
        (f"{ann}/guard", hers),
        ("Ann/a/b", None),
        ("a/b", unusual_agent),
        ("Bob/guard", None),
        ("Root/Root/guard", None),
    ):
        if agent is not None:
            assert viewer.resolve_agent(path) == agent
            continue
        with pytest.raises(NameNotFound, match=f"agent '{path}' not found; existing agents: Root"):
            viewer.resolve_agent(path)


def test_unknown_agent_error_lists_existing_agents(cafe: SessionViewer) -> None:
    with pytest.raises(NameNotFound, match=r"'Jim'.*agent_root, Jack \(agent_jack\), Jill"):
        cafe.resolve_agent("Jim")
    with pytest.raises(NameNotFound, match="Jim"):
        cafe.extract_dialog(["Jack", "Jim"])
    with pytest.raises(NameNotFound, match="Jim"):
        cafe.extract_agent_perspective("Jim")


def test_user_can_be_named(cafe: SessionViewer) -> None:
    assert cafe.resolve_agent("user") == "user"


def test_message_is_named_by_id_call_or_number(cafe: SessionViewer) -> None:
    names = ("msg_003", "msg_003.c1", "3")
    assert {cafe.resolve_message(name) for name in names} == {"msg_003"}
    with pytest.raises(NameNotFound, match="'msg_999'.*msg_001 to msg_020"):
        cafe.resolve_message("msg_999")


def test_log_of_blank_lines_has_no_messages(tmp_path: Path) -> None:
    (tmp_path / "blank.jsonl").write_bytes(b"\n\n")
    viewer = SessionViewer(tmp_path / "blank.jsonl")
    with pytest.raises((NameNotFound, InvalidLog)):
        viewer.resolve_message("msg_001")


def test_log_is_read_once_and_lazily(tmp_path: Path) -> None:
    viewer = write_log(tmp_path, EXAMPLE_1)
    viewer.path.write_text(json.dumps(EXAMPLE_1[0]) + "\n", encoding="utf-8")
    assert list(viewer.list_agents()) == [ROOT]
    viewer.path.unlink()
    assert viewer.get_transcript(ROOT) == []


def test_locked_log_can_be_viewed(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    viewer = play.viewer()
    assert len(viewer.get_transcript(play.root)) == 1
    play.says(play.root, "Hello")
    assert len(viewer.get_transcript(play.root)) == 1
    assert len(play.viewer().get_transcript(play.root)) == 2


def test_torn_log_shows_its_complete_lines_and_a_flag(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    play.says(play.root, "Hello")
    play.session.close()
    full_log = play.session.path.read_bytes()
    play.session.path.write_bytes(full_log[:-20])
    viewer = play.viewer()
    assert [entry["content"] for entry in viewer.get_transcript("Root")] == ["Hi"]
    assert viewer.reading.torn
    assert play.session.path.read_bytes() == full_log[:-20]


def test_damaged_log_is_refused_with_its_position(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    play.says(play.root, "Hello")
    play.session.close()
    data = play.session.path.read_bytes()
    play.session.path.write_bytes(data.replace(b'"Hi"', b'"Ho"'))
    with pytest.raises(LogCorrupted, match="line 3"):
        play.viewer().list_agents()


def test_file_that_is_no_log_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        SessionViewer(tmp_path / "none.jsonl")
    with pytest.raises(InvalidLog):
        SessionViewer(tmp_path)


def test_empty_file_is_refused_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    with pytest.raises(InvalidLog, match="empty"):
        SessionViewer(str(file)).list_agents()


def test_unspecified_views_are_methods(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    answer = play.answers(play.root, request, "1234")
    play.hears(jack, "****", answer)
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    play.judges(guard, "response", answer, "OK")
    viewer = play.viewer()
    assert viewer.tree() == tree(viewer.events)
    assert viewer.timeline() == timeline(viewer.events)
    assert viewer.context(answer) == context(viewer.events, request)
    assert viewer.context(str(int(answer.removeprefix("msg_")))).request == request
    assert viewer.interventions() == interventions(viewer.events) != []
    assert viewer.verdicts() == verdicts(viewer.events) != []
    with pytest.raises(NameNotFound, match=f"'msg_001'.*{request}"):
        viewer.context("1")


@pytest.mark.req("S0-49")
def test_unknown_tools_and_event_types_are_shown_in_every_view(tmp_path: Path) -> None:
    """The arguments are not JSON, so a view that parsed them would fail."""
    invalid_arguments = "<telepathy target='Jill'/> {"
    call = {
        "id": "t1",
        "type": "function",
        "function": {"name": "telepathy", "arguments": invalid_arguments},
    }
    lines: list[Line] = [
        *EXAMPLE_1,
        {
            "message_id": "msg_021",
            "event_type": "transcript_entry",
            "agent_id": JACK,
            "role": "assistant",
            "tool_calls": [call],
        },
        {
            "message_id": "msg_022",
            "event_type": "thought_sent",
            "agent_id": JACK,
            "content": "!",
            "cause": "msg_021",
        },
        {
            "message_id": "msg_023",
            "event_type": "transcript_entry",
            "agent_id": JILL,
            "role": "user",
            "content": "!",
            "substance": "msg_022",
        },
        {
            "message_id": "msg_024",
            "event_type": "transcript_entry",
            "agent_id": JACK,
            "role": "tool",
            "tool_call_id": "t1",
            "content": "sent",
        },
    ]
    viewer = write_log(tmp_path, lines)
    assert viewer.get_transcript(JACK)[-2:] == [lines[20], lines[23]]
    assert (
        f"[Action]: telepathy {invalid_arguments}\n[Received]: sent"
        in viewer.extract_agent_perspective(JACK)
    )
    (item,) = [i for i in viewer.extract_dialog([JILL]) if i["message_id"] == "msg_022"]
    assert (item["content"], item["agent_id"]) == ("!", JACK)
    assert [e["message_id"] for e in viewer.trace_message_flow("msg_023")] == [
        "msg_021",
        "msg_022",
        "msg_023",
    ]
    assert viewer.build_causality_index()[viewer.resolve_message("msg_024")] == "msg_021"
    assert viewer.trace_message_flow("msg_022")[-1] == lines[21]


def test_views_are_the_same_after_a_resume(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.says(jack, HI)
    before = play.viewer().get_transcript(jack)
    play.session.close()
    with Session.load(play.session.path):
        assert play.viewer().get_transcript(AgentId("Jack")) == before


def test_events_without_a_log_can_be_viewed(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.says(jack, "Hi")
    logged = play.viewer()
    viewer = SessionViewer.of(list(logged.events), "cafe")
    assert (str(viewer.path), viewer.reading.sealed) == ("cafe", True)
    for event, same in zip(viewer.events, logged.events, strict=True):
        assert viewer.raw(event) == logged.raw(same)
    assert viewer.extract_dialog(["Jack"]) == logged.extract_dialog(["Jack"])
    assert viewer.tree() == logged.tree()
