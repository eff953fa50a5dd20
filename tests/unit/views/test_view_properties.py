"""Properties of every view."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harken.core import canonical
from harken.core.events import Event, LlmRequest
from harken.core.record import SparseRecord
from harken.views.agent_names import AgentNames
from harken.views.context import context
from harken.views.dialogs.dialog import dialog
from harken.views.dialogs.perspective import perspective
from harken.views.filter import transcript
from harken.views.flow import hearers, parents, references, spread, trace
from harken.views.interventions import interventions
from harken.views.links import Links
from harken.views.timeline import timeline
from harken.views.tree import tree
from harken.views.verdicts import verdicts
from tests.unit.views.log_builder import LogBuilder

View = Callable[[list[Event] | Links], object]


def contexts(events: list[Event] | Links) -> object:
    requests = [event for event in events if isinstance(event, LlmRequest)]
    return [context(events, request.message_id) for request in requests]


VIEWS: dict[str, View] = {
    "context": contexts,
    "dialog": lambda events: dialog(events, ["agent_002", "agent_001"]),
    "hearers": lambda events: hearers(events, "msg_009"),
    "interventions": interventions,
    "names": lambda events: AgentNames(events).latest_names,
    "parents": parents,
    "perspective": lambda events: perspective(events, "agent_001"),
    "references": lambda events: references(events, "msg_009"),
    "spread": lambda events: spread(events, "msg_009"),
    "timeline": timeline,
    "trace": lambda events: trace(events, "msg_010"),
    "transcript": lambda events: transcript(events, "agent_002"),
    "tree": tree,
    "verdicts": verdicts,
}


@pytest.fixture
def events(play: LogBuilder) -> list[Event]:
    jack = play.create_agent("Jack", by=play.root)
    play.hears(play.root, "Hi")
    play.answers(play.root, play.asks(play.root), "the password is 1234")
    answer_id = play.says(jack, "1234")
    play.hears(play.root, "[Jack]: ...", answer_id)
    play.result(play.root, play.calls(play.root, ("look", "{}")), "a cat", substance=answer_id)
    play.asks(play.root)
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    play.judges(guard, "response", answer_id, "REWRITE: ...")
    play.moves(jack, "gone")
    return list(play.viewer().events)


@pytest.mark.parametrize("name", VIEWS)
def test_every_prefix_of_a_log_can_be_viewed(events: list[Event], name: str) -> None:
    """A live log is a prefix of the finished one."""
    for length in range(len(events) + 1):
        VIEWS[name](events[:length])


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_deterministic_over_shared_references(events: list[Event], name: str) -> None:
    before = canonical.to_json_line(events)
    assert VIEWS[name](events) == VIEWS[name](events) == VIEWS[name](Links(events))
    assert canonical.to_json_line(events) == before


@pytest.mark.parametrize("name", VIEWS)
def test_views_return_json_values(events: list[Event], name: str) -> None:
    view_value = VIEWS[name](events)
    assert view_value
    plain = canonical.from_json(canonical.to_json_line(view_value))
    if isinstance(view_value, list) and isinstance(view_value[0], SparseRecord):
        assert plain == [row.as_json() for row in view_value]
