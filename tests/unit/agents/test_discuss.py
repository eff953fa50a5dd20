"""`discuss`: talk that goes only along the tree, and is one text wherever it goes."""

from pathlib import Path
from typing import Any

import pytest

from harken import SmartAgent
from harken.agents.agent import log_birth
from tests.agent_kit import call, call_message, open_stage, script_model
from tests.unit.agents.tree_kit import among, talk, told_to


@pytest.mark.req("S4-11", "S4-12", "S0-16", "S0-17")
def test_speakers_speak_in_turn_and_everybody_else_hears_them(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jill", "Jack"], listeners=["Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    assert told_to(one, "Jill") == [["Talk."]]
    assert told_to(one, "Jack") == [["Talk.", "[Jill]: Jill 1"]]
    assert told_to(one, "Joe") == []
    assert one.user_messages("Jill") == ["Talk.", "[Jack]: Jack 1"]
    assert one.user_messages("Joe") == ["Talk.", "[Jill]: Jill 1", "[Jack]: Jack 1"]


@pytest.mark.req("S0-16")
def test_a_prompt_to_many_is_one_piece_and_an_entry_each(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jack"], listeners=["Jill", "Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    [piece] = one.select_lines(event_type="piece_of_text")
    [made] = [
        r
        for r in one.select_lines(role="assistant")
        if r.get("tool_calls", [{}])[0].get("id") == "c1"
    ]
    assert (piece["cause"], piece["agent_id"]) == (made["message_id"], one.root.agent_id)
    heard = one.select_lines(substance=piece["message_id"])
    assert [row["content"] for row in heard] == ["Talk."] * 3
    assert {row["agent_id"] for row in heard} == {one.id_of(n) for n in ("Jack", "Jill", "Joe")}


@pytest.mark.req("S0-17", "S0-14")
def test_what_a_speaker_said_makes_no_piece_and_keeps_its_substance(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jack", "Jill"], listeners=["Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    assert len(one.select_lines(event_type="piece_of_text")) == 1
    [said] = one.select_lines(content="Jack 1")
    heard = one.select_lines(substance=said["message_id"])
    assert [(r["agent_id"], r["content"]) for r in heard] == [
        (one.id_of("Jill"), "[Jack]: Jack 1"),
        (one.id_of("Joe"), "[Jack]: Jack 1"),
    ]


@pytest.mark.req("S4-15")
def test_all_talk_has_the_role_user_also_several_in_a_row(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]))
    assert [m["role"] for m in one.agent("Jill").transcript] == [
        "system",
        "user",
        "user",
        "assistant",
    ]


@pytest.mark.req("S4-13")
def test_the_answers_of_several_are_one_result_with_them_as_its_cause(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]))
    said = [one.select_lines(content=text)[0]["message_id"] for text in ("Jack 1", "Jill 1")]
    result = one.result()
    assert result["content"] == "[Jack]: Jack 1\n\n[Jill]: Jill 1"
    assert result["cause"] == said
    assert "substance" not in result


@pytest.mark.req("S4-13")
def test_the_answer_of_one_alone_is_handed_through(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack"]))
    [said] = one.select_lines(content="Jack 1", role="assistant")
    result = one.result()
    assert (result["content"], result["substance"]) == ("Jack 1", said["message_id"])
    assert "cause" not in result


@pytest.mark.req("S4-13")
def test_one_speaker_with_a_listener_is_compiled(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack"], listeners=["Jill"]))
    result = one.result()
    assert result["content"] == "[Jack]: Jack 1"
    assert result["cause"] == [one.select_lines(content="Jack 1")[0]["message_id"]]


@pytest.mark.req("S4-14")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"speakers": ["Jack", "Joe"]}, "subagent 'Joe' not found; existing subagents: Jack, Jill"),
        ({"speakers": ["Jack"], "listeners": ["Joe"]}, "subagent 'Joe' not found"),
        ({"speakers": []}, "no agent can speak"),
        ({"speakers": ["main"]}, "subagent 'main' not found"),
        ({"speakers": ["agent_002"]}, "subagent 'agent_002' not found"),
        ({"speakers": "Jack"}, "got `str`"),
        ({"listeners": ["Joe"]}, "subagent 'Joe' not found"),
        ({"prompt": 5}, "got `int`"),
        ({"to": ["Jack"]}, "no argument 'to'"),
    ],
)
def test_bad_arguments_send_nothing_to_anyone(
    tmp_path: Path, arguments: dict[str, Any], says: str
) -> None:
    one = among(tmp_path, talk(**{"prompt": "Talk.", **arguments}))
    assert says in one.result()["content"]
    assert one.result()["is_error"] is True
    assert one.user_messages("Jack") == one.user_messages("Jill") == []
    assert one.select_lines(event_type="piece_of_text") == []
    assert len(one.select_lines(event_type="interlocutors_set")) == 2


@pytest.mark.req("S4-14")
def test_talking_with_nobody_there_is_an_error(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[call_message(talk(prompt="Hello?")), "Nobody."]))
    assert one.ask("Go.") == "Nobody."
    assert "create a subagent first" in one.result()["content"]


@pytest.mark.req("S4-16")
def test_the_newest_subagent_is_meant_by_default(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk."))
    assert one.user_messages("Jill") == ["Talk."]
    assert one.user_messages("Jack") == []


@pytest.mark.req("S4-16")
def test_the_last_speakers_and_listeners_are_meant_by_default(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"], listeners=["Joe"]),
        talk("c2", prompt="Two."),
        names="Jack Jill Joe",
    )
    assert told_to(one, "Jack")[1] == ["One.", "Jack 1", "Two."]
    assert one.user_messages("Joe") == ["One.", "[Jack]: Jack 1", "Two.", "[Jack]: Jack 2"]
    assert one.user_messages("Jill") == []


@pytest.mark.req("S4-16")
def test_a_new_subagent_is_the_one_talked_with_next(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack", "Jill"]),
        call("task", "c2", name="Joe"),
        talk("c3", prompt="Two."),
        Joe=["Joe 1"],
    )
    assert one.result("c3")["content"] == "Joe 1"


@pytest.mark.req("S4-16")
def test_speakers_alone_clear_the_listeners(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"], listeners=["Joe"]),
        talk("c2", prompt="Two.", speakers=["Jill"]),
        talk("c3", prompt="Three."),
        names="Jack Jill Joe",
    )
    assert one.user_messages("Joe") == ["One.", "[Jack]: Jack 1"]
    assert one.result("c3")["content"] == "Jill 2"


@pytest.mark.req("S4-16")
def test_listeners_alone_keep_the_speakers(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"]),
        talk("c2", prompt="Two.", listeners=["Jill"]),
    )
    assert one.result("c2")["content"] == "[Jack]: Jack 2"
    assert one.user_messages("Jill") == ["Two.", "[Jack]: Jack 2"]


@pytest.mark.req("S4-12")
def test_somebody_named_as_a_listener_does_not_speak(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack", "Jill"]),
        talk("c2", prompt="Two.", listeners=["Jill"]),
    )
    assert one.result("c2")["content"] == "[Jack]: Jack 2"


@pytest.mark.req("S4-16", "S4-17")
def test_a_terminated_agent_drops_out_of_the_discussion(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack", "Jill"]),
        call("terminate", "c2", name="Jack"),
        talk("c3", prompt="Two."),
    )
    assert one.result("c3")["content"] == "Jill 2"


@pytest.mark.req("S4-16")
def test_where_all_interlocutors_are_gone_the_newest_subagent_is_meant(tmp_path: Path) -> None:
    one = among(tmp_path, call("terminate", name="Jill"), talk("c2", prompt="You."))
    assert one.result("c2")["content"] == "Jack 1"


@pytest.mark.req("S4-16")
def test_a_subagent_made_by_code_is_the_newest_too(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path, script_model(main=[call_message(talk(prompt="Hi?")), "Done."], Ann=["Hi."])
    )
    log_birth(
        SmartAgent(one.session, "You are Ann.", runtime=one.runtime),
        one.root.state.birth,
        "Ann",
        "subagent",
    )
    assert one.ask("Go.") == "Done."
    assert one.result()["content"] == "Hi."


@pytest.mark.req("S4-11")
def test_without_a_prompt_the_talk_goes_on(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]), talk("c2"))
    assert one.result("c2")["content"] == "[Jack]: Jack 2\n\n[Jill]: Jill 2"
    assert told_to(one, "Jack")[1] == ["Talk.", "Jack 1", "[Jill]: Jill 1"]
    assert len(one.select_lines(event_type="piece_of_text")) == 1


@pytest.mark.req("S4-11")
def test_a_name_given_twice_speaks_once(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jack"], listeners=["Jack"]))
    assert one.result()["content"] == "Jack 1"


@pytest.mark.req("S4-11", "S4-03")
def test_what_goes_wrong_for_a_speaker_is_shared_as_text(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Talk.", speakers=["Jack", "Jill"]),
        Jack=[call_message(call("nope")), "I cannot."],
    )
    assert one.result()["content"] == "[Jack]: I cannot.\n\n[Jill]: Jill 1"
    assert one.user_messages("Jill") == ["Talk.", "[Jack]: I cannot."]
