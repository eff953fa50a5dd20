"""Ids: one growing space for events, one for agents, and foreign ones that never collide."""

import pytest

from harken.core.ids import agent_id, message_id, parse_id_number, reference_message_id


def test_ids_have_at_least_three_digits() -> None:
    assert [message_id(n) for n in (0, 7, 999, 1000)] == [
        "msg_000",
        "msg_007",
        "msg_999",
        "msg_1000",
    ]
    assert agent_id(2) == "agent_002"


def test_ids_follow_each_other_as_numbers_not_as_texts() -> None:
    ids = [message_id(n) for n in (1000, 999, 10_000, 2)]
    in_order = sorted(ids, key=lambda id_: parse_id_number(id_, "msg_") or 0)
    assert in_order == ["msg_002", "msg_999", "msg_1000", "msg_10000"]


@pytest.mark.parametrize("number", [0, 1, 42, 999, 1000, 123_456_789])
def test_a_number_comes_back_from_its_id(number: int) -> None:
    assert parse_id_number(message_id(number), "msg_") == number
    assert parse_id_number(agent_id(number), "agent_") == number


@pytest.mark.parametrize(
    "foreign", ["agent_root", "0", "1", "msg_", "msg_1a", "msg_-1", "msg_²", ""]
)
def test_a_foreign_id_has_no_number(foreign: str) -> None:
    assert parse_id_number(foreign, "msg_") is None
    assert parse_id_number(foreign, "agent_") is None


def test_an_id_of_one_kind_is_foreign_to_the_other() -> None:
    assert parse_id_number("agent_001", "msg_") is None
    assert parse_id_number("msg_001", "agent_") is None


def test_a_reference_names_a_message_or_one_of_its_calls() -> None:
    assert reference_message_id("msg_003") == "msg_003"
    assert reference_message_id("msg_003.call_abc") == "msg_003"
    assert reference_message_id("msg_003.call.with.dots") == "msg_003"


def test_a_number_that_no_session_can_reach_is_a_foreign_id() -> None:
    assert parse_id_number("msg_" + "9" * 5000, "msg_") is None
    assert parse_id_number("msg_" + "9" * 18, "msg_") == 10**18 - 1
