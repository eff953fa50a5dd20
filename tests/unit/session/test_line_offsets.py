"""Evicted transcripts are read again from their log lines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken import Session
from harken.core.events import AgentCreated, Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.errors import LogCorrupted
from harken.session.line_offsets import LineOffsets
from tests.agent_kit import fast_options

AGENTS = [AgentId(f"agent_{number:03d}") for number in (1, 2, 3, 4)]


def create_session(folder: Path, in_memory: int | None) -> Session:
    """Return a session with a root and three more agents."""
    session = Session(
        folder / f"{in_memory}.jsonl", options=replace(fast_options(), in_memory=in_memory)
    )
    births: list[MessageId] = []
    for agent in AGENTS:
        relation: Any = "subagent" if births else "primary"
        birth = AgentCreated(agent_id=agent, relation=relation, cause=births[0] if births else None)
        births.append(session.append(birth))
    return session


def say(session: Session, index: int, text: str) -> None:
    session.append(TranscriptEntry(agent_id=AGENTS[index], role="user", content=text))


def rearrange(session: Session, index: int, other_index: int) -> None:
    """Set the context of an agent to its first half and the last part of another one's."""
    count = len(session.context(AGENTS[index]))
    last = [
        entry.message_id for entry in (session.agent(AGENTS[other_index]).transcript or [])[-1:]
    ]
    segments = [Segment(start=0, stop=(count + 1) // 2)]
    segments += [Segment(entries=last)] if last else []
    session.append(TranscriptEdited(agent_id=AGENTS[index], segments=segments))


STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "edit", "read"]), *[st.integers(0, 3)] * 2),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, in_memory=st.sampled_from([0, 1, 2]))
def test_evicted_entries_are_read_again_unchanged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], in_memory: int
) -> None:
    folder = tmp_path_factory.mktemp("places")
    with create_session(folder, in_memory) as few, create_session(folder, None) as unlimited:
        for number, (step_kind, index, other_index) in enumerate(steps):
            for session in (few, unlimited):
                if step_kind == "say":
                    say(session, index, f"{number}")
                elif step_kind == "edit":
                    rearrange(session, index, other_index)
                else:
                    session.context(AGENTS[index])
        for agent in AGENTS:
            evicted, two = few.agent(agent), unlimited.agent(agent)
            assert evicted.transcript == two.transcript
            assert [*few.context(agent)] == [*unlimited.context(agent)]
        assert few.state.describe()["next_message"] == unlimited.state.describe()["next_message"]


def test_entry_of_an_evicted_agent_is_read_by_another(tmp_path: Path) -> None:
    with create_session(tmp_path, 1) as session:
        say(session, 1, "the secret of two")
        [entry] = session.agent(AGENTS[1]).transcript or []
        say(session, 2, "x")
        say(session, 3, "y")
        assert session.agents[AGENTS[1]].transcript is None
        edit = TranscriptEdited(agent_id=AGENTS[3], segments=[Segment(entries=[entry.message_id])])
        session.append(edit)
        assert [*session.context(AGENTS[3])] == [entry]
        assert session.agents[AGENTS[2]].transcript is None  # no other agent was read


def test_line_changed_on_disk_is_an_error(tmp_path: Path) -> None:
    with create_session(tmp_path, 1) as session:
        say(session, 1, "true")
        say(session, 2, "x")
        session.agent(AGENTS[1])
        say(session, 3, "y")
        say(session, 3, "z")
        assert session.agents[AGENTS[1]].transcript is None
        session.path.write_bytes(session.path.read_bytes().replace(b"true", b"fals"))
        with pytest.raises(LogCorrupted):
            session.agent(AGENTS[1])


def test_offsets_of_a_read_log_equal_those_of_its_writer(tmp_path: Path) -> None:
    with create_session(tmp_path, 1) as session:
        places = LineOffsets.from_log(session.path)
        for number in range(5):
            say(session, number % 3, f"{number}")
        session.agent(AGENTS[0])
        for number in range(5):
            say(session, number % 3, f"{number}")
        offsets = session._line_offsets()
        assert vars(LineOffsets.from_log(session.path)) == vars(offsets)
        assert vars(places) != vars(offsets)
        assert offsets.find_owner(session.path, MessageId("msg_006")) == AGENTS[1]
        assert offsets.find_owner(session.path, MessageId("msg_099")) is None
        assert offsets.read_agent(session.path, AgentId("agent_009"), None).transcript == []
