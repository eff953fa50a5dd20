"""The spec of an agent: its parts, their changes, and values that are not valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.event_types.spec import (
    NO_LIMITS,
    NO_STANDING,
    AgentSpec,
    Budget,
    Copies,
    ForeignAgent,
    Limits,
    SpecChange,
    Standing,
)
from harken.core.ids import AgentId
from harken.errors import InvalidEvent, LogCorrupted
from harken.session.log.checksum import DIGITS_AT, seal
from harken.session.session import Session
from tests.session_kit import create_agent, new_session

JILL = AgentId("agent_001")


def birth_line(spec: Any) -> bytes:
    """Return the line of a birth with this spec, without its sum."""
    return canonical.to_json_line(
        {
            "event_type": "agent_created",
            "message_id": "msg_001",
            "time": "2026-01-31T12:00:00.000000Z",
            "agent_id": JILL,
            "relation": "primary",
            "spec": spec,
        }
    )


def test_change_replaces_members_that_it_sets() -> None:
    before = AgentSpec(
        kind="smart",
        limits=Limits(tools=["look"], skills=["a"]),
        standing=Standing(points=["input"], made="agent"),
    )
    change = SpecChange(limits=Limits(tools=[]), standing=Standing(points=[]))
    after = before.apply(change)
    assert after.limits == Limits(tools=[], skills=["a"])
    assert after.standing == Standing(points=[], made="agent")
    assert before.change(after.limits, after.standing) == change
    assert before.change(before.limits, before.standing) is None
    assert before.apply(None) is before


def test_merged_spec_has_the_members_of_both() -> None:
    role = AgentSpec(keeps="notes", standing=Standing(points=["input"]))
    merged = role.merge(AgentSpec(kind="smart", keeps="all", limits=Limits(tools=[])))
    assert merged == AgentSpec(
        kind="smart", keeps="all", limits=Limits(tools=[]), standing=Standing(points=["input"])
    )


def test_empty_parts_are_not_written() -> None:
    spec = AgentSpec(kind="smart", limits=Limits(), standing=Standing())
    assert (spec.limits, spec.standing) == (NO_LIMITS, NO_STANDING)
    birth = ev.AgentCreated(agent_id=JILL, spec=spec)
    assert ev.event_dict(birth)["spec"] == {"kind": "smart"}
    move = ev.AgentMoved(agent_id=JILL, place="gone", spec=SpecChange(limits=Limits()))
    assert ev.event_dict(move)["spec"] == {}


def test_spec_for_another_session_does_not_refer_to_this_one() -> None:
    spec = AgentSpec(
        kind="smart",
        original=JILL,
        foreign=ForeignAgent("codex"),
        rerun={"agent": JILL},
        limits=Limits(tools=[]),
    )
    assert spec.portable() == AgentSpec(kind="smart", limits=Limits(tools=[]))


def test_hook_without_points_is_asked_at_all_and_a_silent_hook_stays_silent() -> None:
    points = ["action", "input", "response", "result"]
    assert AgentSpec().with_points().standing.points == points
    silent = AgentSpec(standing=Standing(points=[]))
    assert silent.with_points() is silent


@pytest.mark.parametrize("made", ["agent", "file", "moved", "guard", None])
def test_copy_of_a_hook_is_no_guard_if_an_agent_or_a_file_made_the_hook(made: Any) -> None:
    spec = AgentSpec(keeps="all", standing=Standing(points=["input"], made=made))
    inherited = spec.inherited_by_copy(JILL)
    is_made = made in ("agent", "file")
    assert inherited == AgentSpec(
        original=JILL, standing=Standing(points=["input"], made=made if is_made else None)
    )
    assert inherited.standing.is_guard is not is_made
    only_here = AgentSpec(copies=Copies(subagents=False, instructions="Be brief."))
    assert only_here.inherited_by_copy(JILL).copies == Copies(subagents=False)


def test_unknown_members_of_all_parts_are_kept() -> None:
    spec = {
        "kind": "smart",
        "color": "red",
        "limits": {"tools": [], "speed": 3, "budget": {"depth": 1, "days": 2}},
        "standing": {"points": ["input"], "rank": 1},
        "foreign": {"program": "codex", "host": "h"},
    }
    event = ev.decode_event(birth_line(spec))
    assert isinstance(event, ev.AgentCreated)
    assert event.spec == AgentSpec(
        kind="smart",
        foreign=ForeignAgent("codex"),
        limits=Limits(tools=[], budget=Budget(depth=1)),
        standing=Standing(points=["input"]),
    )
    assert ev.event_dict(event)["spec"] == spec


INVALID = [
    ([], "Expected `object | null`, got `array` - at `$.spec`"),
    ({"kind": 7}, "Expected `str | null`, got `int` - at `$.spec.kind`"),
    ({"limits": {"tools": 5}}, "Expected `array | null`, got `int` - at `$.spec.limits.tools`"),
    ({"limits": {"permission": "root"}}, "Invalid enum value 'root'"),
    ({"limits": {"budget": {"tokens": -1}}}, "Budget: tokens must be 0 or more, not -1"),
    ({"standing": {"points": ["always"]}}, "Invalid enum value 'always'"),
    ({"standing": {"made": "user"}}, "Invalid enum value 'user'"),
    ({"template": {"hash": "x"}}, "Object missing required field `name`"),
]


@pytest.mark.parametrize(("spec", "reason"), INVALID)
def test_log_with_an_invalid_spec_is_refused_with_one_line(
    tmp_path: Path, spec: Any, reason: str
) -> None:
    with new_session(tmp_path) as session:
        path = session.path
    first = path.read_bytes()
    line, _ = seal(first[DIGITS_AT], birth_line(spec))
    path.write_bytes(first + line)
    with pytest.raises(LogCorrupted) as caught:
        Session.load(path)
    text = str(caught.value)
    assert f"corrupted at line 2, byte {len(first)}: not an event: {reason}" in text
    assert "\n" not in text
    assert path.read_bytes() == first + line


def test_standing_changes_only_with_the_place(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        change = SpecChange(standing=Standing(points=[]))
        with pytest.raises(InvalidEvent, match="log an agent_moved"):
            session.append(ev.AgentConfigured(agent_id=agent, spec=change))
