"""`init_prompt`: what an agent starts from is whole, and checked before its birth."""

from pathlib import Path

import pytest

from harken import SmartAgent, load_session
from harken.agents.agent import log_birth
from tests.agent_kit import call, call_message, check_log, fast_options, open_stage, script_model
from tests.unit.agents.hook_kit import send, sending


def test_an_agent_has_one_system_prompt(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."], fork=["x", "Hello."]))
    one.ask("hello")
    fork = SmartAgent(one.session, "You fork.", one.root.transcript, runtime=one.runtime)
    log_birth(fork, one.root.state.birth, "fork")
    assert [m["content"] for m in fork.transcript] == ["You fork.", "hello", "Hi."]


def test_calls_that_nobody_answered_get_a_result(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path, script_model(main=[call_message(call("send", text="a")), "Hi."]), tools=[send]
    )
    one.ask("hello")
    cut = one.root.transcript[:3]
    fork = SmartAgent(one.session, None, cut, runtime=one.runtime)
    log_birth(fork, one.root.state.birth, "fork")
    assert [m["role"] for m in fork.transcript] == ["system", "user", "assistant", "tool"]
    assert fork.transcript[-1]["content"].startswith("Error: interrupted")
    assert not fork.state.open_calls
    check_log(one.log)


def test_a_result_that_was_edited_comes_with_its_call(tmp_path: Path) -> None:
    one = sending(tmp_path)
    one.ask("Send.")
    edited = [m | ({"content": "-"} if m["role"] == "tool" else {}) for m in one.root.transcript]
    fork = SmartAgent(one.session, None, edited, runtime=one.runtime)
    log_birth(fork, one.root.state.birth, "fork")
    assert [m.get("content") for m in fork.transcript] == [m.get("content") for m in edited]
    check_log(one.log)


@pytest.mark.parametrize(
    "message", [{"role": "tool", "tool_call_id": "c9", "content": "x"}, {"role": "nobody"}]
)
def test_what_is_no_transcript_is_refused_before_the_birth(tmp_path: Path, message: dict) -> None:  # type: ignore[type-arg]
    one = open_stage(tmp_path, script_model())
    with pytest.raises(ValueError, match="."):
        SmartAgent(one.session, None, [message], runtime=one.runtime)
    assert len(one.session.agents) == len(one.session.live) == 1


def test_a_model_can_be_given_alone(tmp_path: Path) -> None:
    model = script_model(main=["Hi."])
    root, session = load_session(tmp_path / "s.jsonl", model=model, options=fast_options())
    assert root._language_model == "play"
    session.close()
