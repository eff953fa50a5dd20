"""Transcripts that were let go are read again from their own lines."""

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


def born(folder: Path, in_memory: int | None) -> Session:
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


def say(session: Session, at: int, text: str) -> None:
    session.append(TranscriptEntry(agent_id=AGENTS[at], role="user", content=text))


def rearrange(session: Session, at: int, other: int) -> None:
    """Let an agent read the first half of what it reads, and the last of what another one reads."""
    count = len(session.context(AGENTS[at]))
    last = [entry.message_id for entry in (session.agent(AGENTS[other]).transcript or [])[-1:]]
    segments = [Segment(start=0, stop=(count + 1) // 2)]
    segments += [Segment(entries=last)] if last else []
    session.append(TranscriptEdited(agent_id=AGENTS[at], segments=segments))


STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "edit", "read"]), *[st.integers(0, 3)] * 2),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, in_memory=st.sampled_from([0, 1, 2]))
def test_what_was_let_go_is_read_again_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], in_memory: int
) -> None:
    folder = tmp_path_factory.mktemp("places")
    with born(folder, in_memory) as few, born(folder, None) as all_:
        for number, (what, at, other) in enumerate(steps):
            for session in (few, all_):
                if what == "say":
                    say(session, at, f"{number}")
                elif what == "edit":
                    rearrange(session, at, other)
                else:
                    session.context(AGENTS[at])
        for agent in AGENTS:
            one, two = few.agent(agent), all_.agent(agent)
            assert one.transcript == two.transcript
            assert [*few.context(agent)] == [*all_.context(agent)]
        assert few.state.describe()["next_message"] == all_.state.describe()["next_message"]


def test_an_entry_of_an_agent_that_was_let_go_can_be_read_by_another(tmp_path: Path) -> None:
    with born(tmp_path, 1) as session:
        say(session, 1, "the secret of two")
        [entry] = session.agent(AGENTS[1]).transcript or []
        say(session, 2, "x")
        say(session, 3, "y")
        assert session.agents[AGENTS[1]].transcript is None
        edit = TranscriptEdited(agent_id=AGENTS[3], segments=[Segment(entries=[entry.message_id])])
        session.append(edit)
        assert [*session.context(AGENTS[3])] == [entry]
        assert session.agents[AGENTS[2]].transcript is None  # nobody else was read for it


def test_a_line_that_is_not_what_was_written_is_told_of(tmp_path: Path) -> None:
    with born(tmp_path, 1) as session:
        say(session, 1, "true")
        say(session, 2, "x")
        session.agent(AGENTS[1])
        say(session, 3, "y")
        say(session, 3, "z")
        assert session.agents[AGENTS[1]].transcript is None
        session.path.write_bytes(session.path.read_bytes().replace(b"true", b"fals"))
        with pytest.raises(LogCorrupted):
            session.agent(AGENTS[1])


def test_places_of_a_log_are_those_that_its_writer_knew(tmp_path: Path) -> None:
    with born(tmp_path, 1) as session:
        places = LineOffsets.from_log(session.path)
        for number in range(5):
            say(session, number % 3, f"{number}")
        session.agent(AGENTS[0])
        for number in range(5):
            say(session, number % 3, f"{number}")
        written = session._line_offsets()
        assert vars(LineOffsets.from_log(session.path)) == vars(written)
        assert vars(places) != vars(written)
        assert written.find_owner(session.path, MessageId("msg_006")) == AGENTS[1]
        assert written.find_owner(session.path, MessageId("msg_099")) is None
        assert written.read_agent(session.path, AgentId("agent_009"), None).transcript == []
