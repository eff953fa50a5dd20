"""Ids: one counter for events, one for agents, and foreign ids that never collide with them."""

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


def test_ids_increase_numerically() -> None:
    ids = [message_id(n) for n in (1000, 999, 10_000, 2)]
    in_order = sorted(ids, key=lambda id_: parse_id_number(id_, "msg_") or 0)
    assert in_order == ["msg_002", "msg_999", "msg_1000", "msg_10000"]


@pytest.mark.parametrize("number", [0, 1, 42, 999, 1000, 123_456_789])
def test_number_of_an_id_round_trips(number: int) -> None:
    assert parse_id_number(message_id(number), "msg_") == number
    assert parse_id_number(agent_id(number), "agent_") == number


@pytest.mark.parametrize(
    "foreign", ["agent_root", "0", "1", "msg_", "msg_1a", "msg_-1", "msg_²", ""]
)
def test_foreign_id_has_no_number(foreign: str) -> None:
    assert parse_id_number(foreign, "msg_") is None
    assert parse_id_number(foreign, "agent_") is None


def test_id_of_one_kind_is_foreign_to_the_other() -> None:
    assert parse_id_number("agent_001", "msg_") is None
    assert parse_id_number("msg_001", "agent_") is None


def test_reference_names_a_message_or_a_call_of_it() -> None:
    assert reference_message_id("msg_003") == "msg_003"
    assert reference_message_id("msg_003.call_abc") == "msg_003"
    assert reference_message_id("msg_003.call.with.dots") == "msg_003"


def test_number_out_of_range_is_a_foreign_id() -> None:
    assert parse_id_number("msg_" + "9" * 5000, "msg_") is None
    assert parse_id_number("msg_" + "9" * 18, "msg_") == 10**18 - 1
