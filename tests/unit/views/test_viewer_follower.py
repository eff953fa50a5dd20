"""A view that follows a session shows the same as one of the complete log."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core.events import Event
from harken.core.ids import MessageId
from harken.errors import LogCorrupted
from harken.session.session import Session
from harken.views.dialogs.dialog import Dialog, DialogItem, dialog
from harken.views.links import Links
from harken.views.viewer import SessionFollower
from tests.session_kit import create_agent, log_user_message, new_session, session_options
from tests.unit.views.log_builder import LogBuilder


def play_secret(play: LogBuilder) -> None:
    """Jack tells a secret, of which Jill hears another version; then both agree."""
    jack, jill = (play.create_agent(name, by=play.root) for name in ("Jack", "Jill"))
    secret = play.says(jack, "It is 1234.")
    play.says(jack, "Did you hear?")
    play.hears(jill, "[Jack]: It is [REDACTED].", secret)
    agreed = play.says(jill, "Yes.")
    play.hears(jack, "[Jill]: Yes.", agreed)


def test_new_events_are_returned_once(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        follower = SessionFollower(session.path)
        assert [event.message_id for event in follower.read()] == ["msg_000"]
        create_agent(session)
        assert [event.message_id for event in follower.read()] == ["msg_001"]
        assert follower.read() == []
        assert len(follower.events) == 2


def test_events_of_a_group_are_returned_together(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        follower = SessionFollower(session.path)
        follower.read()
        with session.group():
            log_user_message(session, "agent_001")
            assert follower.read() == []
            log_user_message(session, "agent_001")
        assert len(follower.read()) == 2


def test_a_session_that_was_resumed_after_its_end_has_not_ended(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        session.end("test")
    follower = SessionFollower(session.path)
    has_ended = []
    for text in ("one", "two"):
        follower.read()
        has_ended.append(follower.has_ended)
        with Session.load(session.path, options=session_options()) as session:
            log_user_message(session, "agent_001", text)
            follower.read()
            has_ended.append(follower.has_ended)
            session.end("test")
    assert has_ended == [True, False, True, False]


def test_events_before_damage_are_returned_first(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, "agent_001", "hello")
    session.path.write_bytes(session.path.read_bytes().replace(b"hello", b"HELLO"))
    follower = SessionFollower(session.path)
    assert len(follower.read()) == 2
    for _ in range(2):
        with pytest.raises(LogCorrupted, match="line 3"):
            follower.read()


def test_a_dialog_that_follows_has_the_items_of_the_complete_dialog(play: LogBuilder) -> None:
    play_secret(play)
    events: list[Event] = play.viewer().events.events
    agents = ["agent_002", "agent_003"]
    expected = dialog(events, agents)
    assert expected
    for size in range(1, len(events) + 1):
        links = Links(())
        following = Dialog(links, agents)
        latest: dict[MessageId, DialogItem] = {}
        for start in range(0, len(events), size):
            new = events[start : start + size]
            links.extend(new)
            latest |= {item.message_id: item for item in following.add(new)}
        assert list(latest.values()) == expected


def test_an_item_is_repeated_only_if_another_version_was_heard(play: LogBuilder) -> None:
    play_secret(play)
    links = Links(())
    following = Dialog(links, ["agent_002", "agent_003"])
    texts: list[tuple[str, bool]] = []
    for event in play.viewer().events.events:
        links.extend([event])
        texts += [(item.content, item.differs) for item in following.add([event])]
    assert [text for text in texts if "1234" in text[0] or text[0] == "Yes."] == [
        ("It is 1234.", False),
        ("It is 1234.", True),
        ("Yes.", False),
    ]


def test_links_that_were_extended_equal_new_ones(play: LogBuilder) -> None:
    play_secret(play)
    events = play.viewer().events.events
    grown, complete = Links(events[:3]), Links(events)
    assert grown.names.latest_names
    assert grown.positions
    assert grown.events_to(events[1].message_id) is not None
    grown.extend(events[3:])
    assert grown.names.latest_names == complete.names.latest_names
    assert grown.positions == complete.positions
    for event in events:
        assert grown.links_from(event) == complete.links_from(event)
        assert grown.events_to(event.message_id) == complete.events_to(event.message_id)


def test_a_read_with_a_maximum_is_continued_by_the_next(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        with session.group():
            for _ in range(3):
                log_user_message(session, agent)
        log_user_message(session, agent)
        follower = SessionFollower(session.path)
        reads = [len(follower.read(max_events=2)) for _ in range(2)]
        log_user_message(session, agent, "later")
        reads += [len(follower.read(max_events=10)) for _ in range(3)]
    assert reads == [2, 3, 2, 0, 0]  # A group is never split. The log stays open, and may grow.
    assert [event.message_id for event in follower.events] == [f"msg_00{n}" for n in range(7)]
