"""`Agent`: an identity in a session that hears, answers, and is made again at any time."""

import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from harken import (
    Agent,
    AgentRuntime,
    DumbAgent,
    LoggedString,
    Session,
    SmartAgent,
    load_session,
    register_agent_class,
)
from harken.agents.agent import get_agent, log_birth, unload_agent
from harken.agents.runtime import AgentLibrary
from harken.core.event_types.spec import AgentSpec
from harken.errors import ConfigError, NameNotFound
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.session_kit import read_lines


def session_in(folder: Path) -> Session:
    return Session(folder / "s.jsonl", options=fast_options())


def entries(session: Session) -> list[dict[str, Any]]:
    return [line for line in read_lines(session.path) if line["event_type"] == "transcript_entry"]


@pytest.mark.req("S0-37")
def test_an_agent_cannot_be_made_without_a_session() -> None:
    parameters = inspect.signature(Agent.__init__).parameters
    assert parameters["session"].default is inspect.Parameter.empty
    assert parameters["system_prompt"].default is None
    assert parameters["init_prompt"].default is None


@pytest.mark.req("S0-37")
def test_an_agent_allocates_its_id_and_logs_nothing_before_its_birth(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    one = SmartAgent(session, "You are one.")
    two = SmartAgent(session, "You are two.")
    assert (one.agent_id, two.agent_id) == ("agent_001", "agent_002")
    assert [line["event_type"] for line in read_lines(session.path)] == ["session_started"]


@pytest.mark.req("S0-37")
@pytest.mark.parametrize("by_session", [False, True], ids=["log_birth", "log_agent_created"])
def test_the_system_prompt_is_the_first_entry_after_the_birth(
    tmp_path: Path, by_session: bool
) -> None:
    session = session_in(tmp_path)
    agent = SmartAgent(session, "You are one.")
    if by_session:
        session.log_agent_created(agent.agent_id, name="one")
    else:
        log_birth(agent, name="one")
    birth, prompt = read_lines(session.path)[1:]
    assert (birth["event_type"], birth["name"]) == ("agent_created", "one")
    assert (prompt["role"], prompt["content"]) == ("system", "You are one.")


@pytest.mark.req("S0-37")
@pytest.mark.parametrize("by_session", [False, True], ids=["log_birth", "log_agent_created"])
def test_an_initial_transcript_of_this_session_is_not_logged_again(
    tmp_path: Path, by_session: bool
) -> None:
    first = open_stage(tmp_path, script_model(main=["Hi."]))
    first.ask("Hello")
    known = len(entries(first.session))
    again = SmartAgent(first.session, init_prompt=first.root.transcript, runtime=first.runtime)
    if by_session:
        first.session.log_agent_created(again.agent_id, first.root.state.birth, "again")
    else:
        log_birth(again, first.root.state.birth, "again", "subagent")
    assert again.transcript == first.root.transcript
    assert len(entries(first.session)) == known
    check_log(first.log)


@pytest.mark.req("S0-37", "S0-31")
@pytest.mark.parametrize("by_session", [False, True], ids=["log_birth", "log_agent_created"])
def test_plain_messages_to_start_from_are_logged_once_and_survive(
    tmp_path: Path, by_session: bool
) -> None:
    first = open_stage(tmp_path, script_model(main=["Hi."], again=["-", "Blue."]))
    given = [
        {"role": "user", "content": "I like blue."},
        {"role": "assistant", "content": "Noted."},
    ]
    again = SmartAgent(first.session, "You are again.", given, runtime=first.runtime)
    if by_session:
        first.session.log_agent_created(again.agent_id, first.root.state.birth, "again", "play")
    else:
        log_birth(again, first.root.state.birth, "again", "subagent")
    assert run(again.response("What do I like?")) == "Blue."
    said = ["You are again.", "I like blue.", "Noted.", "What do I like?", "Blue."]
    assert [message["content"] for message in again.transcript] == said
    mine = [e["content"] for e in entries(first.session) if e["agent_id"] == again.agent_id]
    assert mine == said
    live = full_state(first.session)
    later = first.resume()
    assert full_state(later.session) == live
    assert [m["content"] for m in get_agent(later.root, again.agent_id).transcript] == said


@pytest.mark.req("S0-37")
def test_a_transcript_of_another_session_is_logged_in_full(tmp_path: Path) -> None:
    """Its ids mean other messages here."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = open_stage(
        tmp_path / "one", script_model(main=["I am one."]), system_prompt="You are one."
    )
    one.ask("Who are you?")
    two = open_stage(
        tmp_path / "two", script_model(main=["I am two."]), system_prompt="You are two."
    )
    two.ask("Who are you?")
    fork = SmartAgent(two.session, init_prompt=one.root.transcript, runtime=two.runtime)
    log_birth(fork, two.root.state.birth, "fork", "subagent")
    assert [m["content"] for m in fork.transcript] == ["You are one.", "Who are you?", "I am one."]
    assert two.resume().agent("fork").transcript == fork.transcript


@pytest.mark.req("S0-37")
def test_an_initial_transcript_may_hold_calls_and_parts(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("look")), "Nothing."])
    one = open_stage(tmp_path, model)
    one.ask("Look.")
    known = len(entries(one.session))
    fork = SmartAgent(one.session, init_prompt=one.root.transcript, runtime=one.runtime)
    log_birth(fork, one.root.state.birth, "fork", "subagent")
    assert fork.transcript == one.root.transcript
    assert len(entries(one.session)) == known


@pytest.mark.req("S0-37")
def test_before_its_birth_an_agent_shows_what_it_starts_from(tmp_path: Path) -> None:
    given = [{"role": "user", "content": "hello"}]
    assert SmartAgent(session_in(tmp_path), init_prompt=given).transcript == given


@pytest.mark.req("S0-38")
def test_what_is_heard_is_a_user_entry_without_substance_where_it_is_new(tmp_path: Path) -> None:
    first = open_stage(tmp_path, script_model())
    first.root.harken("hello")
    row = read_lines(first.log)[-1]
    assert (row["role"], row["content"]) == ("user", "hello")
    assert row["agent_id"] == first.root.agent_id
    assert "substance" not in row
    assert "cause" not in row


@pytest.mark.req("S0-38")
def test_what_is_heard_keeps_what_it_represents(tmp_path: Path) -> None:
    first = open_stage(tmp_path, script_model(main=["Hi."]))
    said = run(first.root.response("hello"))
    first.root.harken(said.as_said_by("somebody"))
    row = read_lines(first.log)[-1]
    assert (row["content"], row["substance"]) == ("[somebody]: Hi.", said.message_id)


@pytest.mark.req("S0-38")
def test_hearing_a_string_subclass_of_any_kind_logs_a_plain_text(tmp_path: Path) -> None:
    first = open_stage(tmp_path, script_model())
    first.root.harken(LoggedString("no id"))
    assert "substance" not in read_lines(first.log)[-1]


@pytest.mark.req("S0-39", "S4-02")
def test_a_response_carries_the_id_of_its_own_entry(tmp_path: Path) -> None:
    first = open_stage(
        tmp_path, script_model(main=[call_message(call("look"), text="I look."), "Nothing there."])
    )
    said = run(first.root.response("look"))
    assert isinstance(said, LoggedString)
    [row] = first.select_lines(message_id=said.message_id)
    assert (row["role"], row["content"]) == ("assistant", "Nothing there.")
    assert "substance" not in row
    assert [r["content"] for r in first.select_lines(role="assistant")] == [
        "I look.",
        "Nothing there.",
    ]


@pytest.mark.req("S0-36", "S0-39")
def test_a_response_is_an_ordinary_string_everywhere(tmp_path: Path) -> None:
    said = run(open_stage(tmp_path, script_model(main=["Hi."])).root.response("hello"))
    assert said == "Hi."
    assert {str(said): 1}[said] == 1
    assert json.loads(json.dumps(said)) == "Hi."
    assert pickle.loads(pickle.dumps(said)).message_id == said.message_id
    assert f"{said}!" == "Hi.!"


@pytest.mark.req("S0-40")
def test_informing_lets_another_agent_hear_with_the_metadata_intact(tmp_path: Path) -> None:
    first = open_stage(tmp_path, script_model(main=[call_message(call("task", name="Ann")), "Hi."]))
    said = run(first.root.response("hello"))
    ann = first.agent("Ann")
    first.root.inform(ann, said)
    row = read_lines(first.log)[-1]
    assert (row["agent_id"], row["role"]) == (ann.agent_id, "user")
    assert (row["content"], row["substance"]) == ("Hi.", said.message_id)


@pytest.mark.req("S0-40")
@pytest.mark.parametrize("kind", [Agent, SmartAgent, DumbAgent])
def test_no_method_takes_logging_parameters(kind: type[Agent]) -> None:
    assert list(inspect.signature(kind.harken).parameters) == ["self", "input"]
    assert list(inspect.signature(kind.response).parameters) == ["self", "input"]
    assert list(inspect.signature(kind.inform).parameters) == ["self", "dst", "txt"]


@pytest.mark.req("S4-01")
def test_a_response_with_input_is_hearing_and_answering(tmp_path: Path) -> None:
    logs = []
    for name in ("at once", "in two steps"):
        (tmp_path / name).mkdir()
        one = open_stage(tmp_path / name, script_model(main=["Hi."]))
        if name == "at once":
            assert run(one.root.response("hello")) == "Hi."
        else:
            one.root.harken("hello")
            assert run(one.root.response()) == "Hi."
        logs.append(one.log.read_bytes())
    assert logs[0] == logs[1]


def test_a_plain_agent_is_a_smart_one(tmp_path: Path) -> None:
    """`SmartAgent` has options of its own, which the birth records."""
    session = session_in(tmp_path)
    agent = Agent(session, "You are kind.", runtime=AgentRuntime(model=script_model()))
    log_birth(agent, name="kind")
    assert type(agent) is SmartAgent
    assert (agent.state.spec.kind, agent.state.language_model) == ("smart", "play")
    assert [message["content"] for message in agent.transcript] == ["You are kind."]


def test_a_class_without_an_answer_says_what_to_derive_it_from(tmp_path: Path) -> None:
    class Mute(Agent):
        pass

    session = session_in(tmp_path)
    agent = Mute(session)
    session.log_agent_created(agent.agent_id, name="mute")
    with pytest.raises(ConfigError, match="SmartAgent"):
        run(agent.response("hello"))


def test_an_agent_without_a_model_says_what_to_do(tmp_path: Path) -> None:
    root, _ = load_session(tmp_path / "s.jsonl", options=fast_options())
    with pytest.raises(ConfigError, match="model"):
        run(root.response("hello"))


def cafe(folder: Path) -> Stage:
    """Return a stage where main has Jack and Jill, and Jill has Inner."""
    model = script_model(
        main=[
            call_message(call("task", name="Jack", instructions="You are Jack.")),
            call_message(
                call("task", name="Jill", instructions="You are Jill.", prompt="Get ready.")
            ),
            "Both are here.",
            call_message(call("discuss", prompt="Talk.", speakers=["Jack", "Jill"])),
            "They talked.",
            call_message(call("discuss")),
            "They talked again.",
        ],
        Jack=["Jack 1", "Jack 2", "Jack 3"],
        Jill=[
            call_message(call("task", name="Inner", instructions="You are Inner.", prompt="Well?")),
            "Jill 1",
            "Jill 2",
            "Jill 3",
        ],
        Inner=["Inner 1"],
    )
    one = open_stage(folder, model)
    one.ask("Make Jack and Jill.")
    return one


@pytest.mark.req("S0-30")
def test_agents_that_were_evicted_go_on_as_if_they_had_not_been(tmp_path: Path) -> None:
    answers = []
    for name in ("kept", "evicted"):
        (tmp_path / name).mkdir()
        one = cafe(tmp_path / name)
        for text in ("Let them talk.", "Once more."):
            if name == "evicted":
                for agent_id in list(one.session.agents):
                    unload_agent(one.session, agent_id)
                assert not one.session.live
                one = Stage(
                    SmartAgent._from_state(
                        one.session, one.session.agents[one.root.agent_id], one.runtime
                    ),
                    one.session,
                    one.runtime,
                )
            one.ask(text)
        answers.append([{**r, "sum": ""} for r in read_lines(one.log)])
        check_log(one.log)
    assert answers[0] == answers[1]


@pytest.mark.req("S0-30")
def test_an_evicted_agent_comes_back_with_its_exact_transcript(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    before = one.agent("Jill").transcript
    unload_agent(one.session, one.id_of("Jill"))
    assert one.session.agents[one.agent("Jill").agent_id].name == "Jill"
    assert one.agent("Jill").transcript == before
    assert [m["role"] for m in before][:3] == ["system", "user", "assistant"]


@pytest.mark.req("S0-30", "S4-17")
def test_a_terminated_agent_can_be_revived_to_be_read_after_a_resume(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Say A.")),
            call_message(call("terminate", name="Ann")),
            "Ann is gone.",
        ],
        Ann=["A."],
    )
    one = open_stage(tmp_path, model)
    one.ask("Go.")
    later = one.resume()
    ann = later.agent("Ann")
    assert [m["content"] for m in ann.transcript] == ["You are Ann.", "Say A.", "A."]
    assert ann.state.place == "gone"
    assert later.root.subagents == {}


def test_an_unknown_agent_is_named_with_those_that_exist(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    with pytest.raises(NameNotFound, match="agent_004"):
        get_agent(one.root, "agent_099")
    with pytest.raises(NameNotFound, match="Jack, Jill"):
        one.root.subagents["Joe"]


def test_two_kinds_of_agents_cannot_have_one_name() -> None:
    class Other(DumbAgent):
        pass

    with pytest.raises(ValueError, match="smart"):
        register_agent_class("smart")(Other)


def test_a_log_never_runs_a_kind_that_nobody_registered(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."]))
    one.session.log_agent_created(
        one.session.allocate_agent_id(),
        one.root.state.birth,
        "Odd",
        relation="subagent",
        spec=AgentSpec(kind="os.system"),
    )
    with pytest.raises(NameNotFound, match=r"os\.system"):
        one.agent("Odd")
    assert one.ask("hello") == "Hi."


def test_a_kind_may_be_given_by_the_runtime_alone(tmp_path: Path) -> None:
    @register_agent_class("parrot")
    class Parrot(DumbAgent):
        async def answer(self, heard: str) -> str:
            return heard

    runtime = AgentRuntime(
        model=script_model(main=["Hi."]), library=AgentLibrary(kinds={"parrot": Parrot})
    )
    one = open_stage(tmp_path, script_model(), runtime=runtime)
    log_birth(Parrot(one.session, runtime=runtime), one.root.state.birth, "Polly", "subagent")
    assert run(one.resume().agent("Polly").response("ho")) == "ho"
