"""`LoggedString`: a `str` with the id of its event."""

import copy
import json
import pickle

import pytest

from harken.core.logged_string import LoggedString

pytestmark = pytest.mark.req("S0-36")

HI = LoggedString("Hi, Jill", message_id="msg_015")


def test_utterance_has_its_own_id() -> None:
    assert HI.message_id == "msg_015"
    assert LoggedString("Hi").message_id is None
    assert LoggedString().message_id is None
    assert LoggedString(42, "msg_001") == "42"


def test_formatted_version_has_the_id_of_the_original() -> None:
    user_message = HI.as_said_by("Jack")
    assert user_message == "[Jack]: Hi, Jill"
    assert user_message.message_id == "msg_015"


def test_logged_string_equals_the_plain_string() -> None:
    assert isinstance(HI, str)
    assert HI == "Hi, Jill"
    assert "Hi, Jill" == HI  # noqa: SIM300 - both ways round
    assert hash(HI) == hash("Hi, Jill")
    assert HI != "Hi"
    assert LoggedString("a") < "b" < LoggedString("c")


def test_id_is_not_part_of_the_text() -> None:
    assert LoggedString("Hi", "msg_001") == LoggedString("Hi", "msg_002")
    assert len({LoggedString("Hi", "msg_001"), LoggedString("Hi", "msg_002"), "Hi"}) == 1


def test_logged_string_is_a_key_equal_to_its_text() -> None:
    by_text: dict[str, int] = {HI: 1}
    assert by_text["Hi, Jill"] == 1
    assert {"Hi, Jill": 2}[HI] == 2
    assert HI in {"Hi, Jill", "Hello"}


def test_derived_string_is_a_plain_string() -> None:
    derived_strings = [
        HI[:2],
        HI + "!",
        "!" + HI,
        HI * 2,
        HI.upper(),
        f"{HI}",
        HI.replace("H", "h"),
        str(HI),
    ]
    assert derived_strings == [
        "Hi",
        "Hi, Jill!",
        "!Hi, Jill",
        "Hi, JillHi, Jill",
        "HI, JILL",
        "Hi, Jill",
        "hi, Jill",
        "Hi, Jill",
    ]
    assert {type(text) for text in derived_strings} == {str}


def test_all_format_operations_return_its_text() -> None:
    assert f"{HI}" == "Hi, Jill"
    assert f"{HI:>10}" == "  Hi, Jill"
    assert f"{HI!r}" == "'Hi, Jill'"
    assert "{}".format(HI) == "Hi, Jill"  # noqa: UP032 - this form too
    assert "%s" % HI == "Hi, Jill"  # noqa: UP031 - this form too
    assert ", ".join(2 * [HI]) == "Hi, Jill, Hi, Jill"


def test_logged_string_can_be_searched_and_iterated() -> None:
    assert "Jill" in HI
    assert HI.startswith("Hi")
    assert HI.split(", ") == ["Hi", "Jill"]
    assert list(HI)[:2] == ["H", "i"]
    assert len(HI) == 8
    assert HI.encode() == b"Hi, Jill"
    assert not LoggedString("", "msg_001")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_logged_string_keeps_its_id(protocol: int) -> None:
    copied = pickle.loads(pickle.dumps(HI, protocol))
    assert type(copied) is LoggedString
    assert (copied, copied.message_id) == ("Hi, Jill", "msg_015")


def test_copied_logged_string_keeps_its_id() -> None:
    for copied in (copy.copy(HI), copy.deepcopy(HI), copy.deepcopy([HI])[0]):
        assert type(copied) is LoggedString
        assert (copied, copied.message_id) == ("Hi, Jill", "msg_015")


def test_json_encodes_a_logged_string_as_a_string() -> None:
    assert json.dumps({"said": HI, HI: 1}) == '{"said": "Hi, Jill", "Hi, Jill": 1}'


def test_logged_string_matches_a_string_pattern() -> None:
    match HI:
        case "Hi, Jill":
            matched = True
        case _:
            matched = False
    assert matched
