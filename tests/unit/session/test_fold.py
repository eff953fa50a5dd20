"""The fold of events. Each rule is checked on the live state and on one read from the log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec, Limits, SpecChange
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.session.fold import fold
from harken.session.session import Session
from harken.session.state import AgentState, SessionState
from tests.session_kit import (
    create_agent,
    find_line,
    fold_log,
    hash_context,
    log_answer,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    range_segment,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with one agent. At teardown its log must fold to the live state."""
    with new_session(tmp_path) as session:
        create_agent(session)
        yield session
        live = session.state.describe()
    assert fold_log(session.path, session.options.resolver).describe() == live


def agent(session: Session, id_: AgentId = ROOT) -> AgentState:
    """Return the state of the agent, read from the log."""
    return fold_log(session.path, session.options.resolver).agents[id_]


def moved(
    session: Session, agent_id: AgentId, place: ev.Place, parent: AgentId | None = None
) -> None:
    session.append(ev.AgentMoved(agent_id=agent_id, place=place, parent=parent, cause=BIRTH))


def test_agent_created_sets_place_name_model_and_spec(session: Session) -> None:
    members: dict[str, Any] = {
        "name": "Jack",
        "language_model": "m",
        "spec": AgentSpec(kind="smart", limits=Limits(tools=["look"])),
    }
    jack = create_agent(session, cause=BIRTH, **members)
    state = agent(session, jack)
    assert (state.name, state.language_model, state.spec) == ("Jack", "m", members["spec"])
    assert (state.parent, state.place) == (ROOT, "subagent")
    assert agent(session).subagents == [jack]


@pytest.mark.req("S0-18")
def test_parent_is_the_agent_of_the_cause(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b")
    jack = create_agent(session, cause=f"{calling}.a")
    jill = create_agent(session, cause=[f"{calling}.b", BIRTH])
    inner = create_agent(session, cause=log_tool_calls(session, jill, "a"))
    by_birth = create_agent(session, cause=session.agents[jack].birth)
    parents = {id_: a.parent for id_, a in fold_log(session.path).agents.items()}
    assert parents == {ROOT: None, jack: ROOT, jill: ROOT, inner: jill, by_birth: jack}
    assert "cause" not in find_line(session, BIRTH)
    assert find_line(session, session.agents[jack].birth)["cause"] == f"{calling}.a"


@pytest.mark.req("S0-20")
def test_agent_created_tells_hook_or_subagent(session: Session) -> None:
    hook = create_agent(session, cause=BIRTH, relation="hook")
    sub = create_agent(session, cause=BIRTH, relation="subagent")
    relations = [
        find_line(session, session.agents[id_].birth)["relation"] for id_ in (ROOT, hook, sub)
    ]
    assert relations == ["primary", "hook", "subagent"]
    assert (agent(session).hooks, agent(session).subagents) == ([hook], [sub])
    assert agent(session, hook).place == "hook"


def tree(session: Session) -> dict[str, tuple[str, str | None]]:
    """Return the place and the parent of every agent, read from the log."""
    state = fold_log(session.path)
    for agent_state in state.agents.values():
        above = state.agents.get(agent_state.parent) if agent_state.parent else None
        rows = {"hook": above.hooks, "subagent": above.subagents} if above else {}
        for place, row in rows.items():
            assert row.count(agent_state.id) == (agent_state.place == place)
    return {a.id: (a.place, a.parent) for a in state.agents.values()}


@pytest.mark.req("S0-20")
def test_terminate_removes_the_subtree(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    inner = create_agent(session, cause=session.agents[jack].birth)
    hook = create_agent(session, cause=session.agents[inner].birth, relation="hook")
    moved(session, jack, "gone")
    state = fold_log(session.path)
    assert [state.is_live(id_) for id_ in (ROOT, jack, inner, hook)] == [True, False, False, False]
    assert agent(session).subagents == []
    assert not state.is_live(AgentId("agent_009"))


@pytest.mark.req("S0-20")
def test_quit_removes_a_hook(session: Session) -> None:
    first, two = (create_agent(session, cause=BIRTH, relation="hook") for _ in range(2))
    moved(session, first, "gone")
    assert (agent(session).hooks, agent(session).former_hooks) == ([two], [first])


def test_quit_applies_only_to_hooks_until_they_return(session: Session) -> None:
    first, two = (create_agent(session, cause=BIRTH, relation="hook") for _ in range(2))
    three = create_agent(session, cause=BIRTH)
    for id_ in (two, first, three):
        moved(session, id_, "gone")
    assert agent(session).former_hooks == [two, first]
    moved(session, two, "subagent")
    assert agent(session).former_hooks == [first]
    moved(session, two, "gone")
    assert agent(session).former_hooks == [first]


@pytest.mark.req("S0-20")
def test_hook_turns_a_subagent_into_a_hook_of_another_agent(session: Session) -> None:
    jack, jill = (create_agent(session, cause=BIRTH) for _ in range(2))
    moved(session, jill, "hook", jack)
    assert tree(session) == {
        ROOT: ("primary", None),
        jack: ("subagent", ROOT),
        jill: ("hook", jack),
    }


@pytest.mark.req("S0-20")
def test_meta_makes_the_hook_primary_and_the_agent_its_subagent(session: Session) -> None:
    hook = create_agent(session, cause=BIRTH, relation="hook")
    second_hook = create_agent(session, cause=BIRTH, relation="hook")
    moved(session, hook, "primary")
    moved(session, ROOT, "subagent", hook)
    assert tree(session) == {
        ROOT: ("subagent", hook),
        hook: ("primary", None),
        second_hook: ("hook", ROOT),
    }
    assert fold_log(session.path).primary == hook
    assert fold_log(session.path).root == ROOT


@pytest.mark.req("S0-20")
def test_endo_makes_a_subagent_primary_and_meta_reverts_it(
    session: Session,
) -> None:
    inner = create_agent(session, cause=BIRTH)
    before = tree(session)
    moved(session, inner, "primary")
    moved(session, ROOT, "hook", inner)
    assert tree(session) == {ROOT: ("hook", inner), inner: ("primary", None)}
    assert fold_log(session.path).primary == inner
    moved(session, ROOT, "primary")
    moved(session, inner, "subagent", ROOT)
    assert tree(session) == before
    assert fold_log(session.path).primary == ROOT


@pytest.mark.req("S0-20")
def test_talk_with_changes_the_primary_agent_and_revives_a_terminated_one(
    session: Session,
) -> None:
    jack = create_agent(session, cause=BIRTH)
    moved(session, jack, "gone")
    moved(session, jack, "subagent")
    assert tree(session)[jack] == ("subagent", ROOT)
    moved(session, jack, "primary")
    assert fold_log(session.path).primary == jack
    assert tree(session)[jack] == ("primary", None)


@pytest.mark.req("S0-21")
def test_interlocutors_are_the_last_ones_set(session: Session) -> None:
    jack, jill = (create_agent(session, cause=BIRTH) for _ in range(2))
    session.append(ev.InterlocutorsSet(agent_id=ROOT, speakers=[jack], listeners=[jill]))
    assert (agent(session).speakers, agent(session).listeners) == ([jack], [jill])
    session.append(ev.InterlocutorsSet(agent_id=ROOT, speakers=[jill, jack]))
    assert (agent(session).speakers, agent(session).listeners) == ([jill, jack], [])


def test_removed_agent_is_no_interlocutor(session: Session) -> None:
    jack, jill = (create_agent(session, cause=BIRTH) for _ in range(2))
    both = [jack, jill, jack]
    session.append(ev.InterlocutorsSet(agent_id=ROOT, speakers=both, listeners=[jack]))
    moved(session, jack, "gone")
    assert (agent(session).speakers, agent(session).listeners) == ([jill], [])


@pytest.mark.req("S0-21")
def test_configuration_changes_the_named_members(session: Session) -> None:
    session.append(
        ev.AgentConfigured(
            agent_id=ROOT, name="Jill", spec=SpecChange(limits=Limits(tools=[], skills=["a"]))
        )
    )
    session.append(
        ev.AgentConfigured(
            agent_id=ROOT, language_model="m", spec=SpecChange(limits=Limits(skills=["b"]))
        )
    )
    session.append(ev.AgentConfigured(agent_id=ROOT, parameters={"top_p": 1}))
    state = agent(session)
    assert (state.name, state.language_model) == ("Jill", "m")
    limits = Limits(tools=[], skills=["b"])
    assert state.spec == AgentSpec(parameters={"top_p": 1}, limits=limits)


@pytest.mark.req("S0-21")
def test_saved_state_replaces_the_previous_one(session: Session) -> None:
    state = {"count": 1, "seen": ["a"]}
    session.append(ev.AgentStateSaved(agent_id=ROOT, state=state))
    state["count"] = 2  # the caller continues to use the object
    assert session.agents[ROOT].saved_state == {"count": 1, "seen": ["a"]}
    session.append(ev.AgentStateSaved(agent_id=ROOT, state=state))
    assert agent(session).saved_state == {"count": 2, "seen": ["a"]}


@pytest.mark.req("S0-21")
def test_session_end_is_folded_and_cleared_by_a_resume(session: Session) -> None:
    session.append(ev.SessionEnded(reason="bye"))
    assert fold_log(session.path).ended
    log_user_message(session, ROOT)
    assert not fold_log(session.path).ended


@pytest.mark.req("S0-21")
def test_commit_of_an_agent_is_its_last_one(session: Session) -> None:
    upto = log_user_message(session, ROOT)
    session.append(ev.ContextCommitted(agent_id=ROOT, ctx="ctx-1", upto=upto))
    committed = session.append(
        ev.ContextCommitted(
            agent_id=ROOT, ctx="ctx-2", parent_ctx="ctx-1", checkpoint="turn_boundary"
        )
    )
    assert agent(session).commit_id == "ctx-2"
    assert find_line(session, committed)["parent_ctx"] == "ctx-1"


@pytest.mark.req("S0-21")
def test_tools_memory_and_rewritten_actions_are_in_state_as_logged(session: Session) -> None:
    tools = [{"name": "look", "parameters": {"type": "object", "properties": {}}}]
    defined = session.append(ev.ToolsDefined(tools=tools, tools_hash="h"))
    calling = log_tool_calls(session, ROOT, "a")
    rewrite = session.append(
        ev.ActionRewritten(agent_id=ROOT, call=calling, tool="look", arguments='{"x": 1}')
    )
    memory_event = session.append(
        ev.MemoryOperation(agent_id=ROOT, memory_type="LTM", operation="QUERY", query="Jack")
    )
    assert fold_log(session.path).tools == {"h": defined}
    assert find_line(session, defined)["tools"] == tools
    assert find_line(session, rewrite)["arguments"] == '{"x": 1}'
    assert find_line(session, rewrite)["call"] == calling
    assert find_line(session, memory_event)["query"] == "Jack"
    assert [call.arguments for call in agent(session).open_calls.values()] == ["{}"]


def test_calls_are_open_until_their_results(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b", tool="run", arguments='{"x":1}')
    assert list(agent(session).open_calls) == ["a", "b"]
    log_tool_result(session, ROOT, "a")
    (call,) = agent(session).open_calls.values()
    assert (call.id, call.name, call.arguments) == ("b", "run", '{"x":1}')
    assert call.reference == f"{calling}.b"
    log_tool_result(session, ROOT, "b")
    assert not agent(session).open_calls
    assert not fold_log(session.path).open_references


def test_user_display_event_creates_no_agent(session: Session) -> None:
    answer_id = log_answer(session, ROOT)
    log_user_message(session, USER, "[REDACTED]", substance=answer_id)
    assert list(fold_log(session.path).agents) == [ROOT]


@pytest.mark.req("S0-22")
def test_response_adds_its_cost(session: Session) -> None:
    log_user_message(session, ROOT)
    usage = ev.Usage(input_tokens=10, output_tokens=3, cache_read_tokens=7)
    for cost in (0.5, 0.25):
        request = log_request(session, ROOT, parameters={"temperature": 0})
        assert fold_log(session.path).requests[ROOT].message_id == request
        log_response(session, ROOT, request, usage=usage, cost_usd=cost, latency_s=0.1)
        assert not fold_log(session.path).requests
    request = log_request(session, ROOT)
    log_response(session, ROOT, request, stop_reason="cancelled", partial="Once up")
    agent_usage = agent(session).usage
    assert (agent_usage.model_calls, agent_usage.tokens, agent_usage.cost_usd) == (3, 26, 0.75)
    assert find_line(session, request)["model"] == "scripted:x"


@pytest.mark.req("S0-22")
def test_request_and_response_metadata_is_in_the_state(session: Session) -> None:
    log_user_message(session, ROOT)
    defined = session.append(ev.ToolsDefined(tools=[{"name": "look"}], tools_hash="h"))
    request = log_request(session, ROOT, parameters={"temperature": 0}, tools=defined)
    response = log_response(
        session,
        ROOT,
        request,
        model="x-1",
        usage=ev.Usage(input_tokens=1),
        cost_usd=0.5,
        latency_s=0.25,
        stop_reason="cancelled",
        partial="Once",
    )
    request_record, response_record = find_line(session, request), find_line(session, response)
    assert request_record["context"] == [{"entries": ["msg_002"]}]
    assert (request_record["count"], request_record["parameters"], request_record["tools"]) == (
        1,
        {"temperature": 0},
        defined,
    )
    assert request_record["context_hash"] == hash_context([Message("user", "hello")])
    assert response_record["usage"] == {"input_tokens": 1}
    assert (response_record["cost_usd"], response_record["latency_s"]) == (0.5, 0.25)
    assert (
        response_record["stop_reason"],
        response_record["partial"],
        response_record["model"],
    ) == ("cancelled", "Once", "x-1")


def read_all(*events: ev.Event) -> SessionState:
    """Fold events that a current writer would refuse."""
    state = SessionState()
    for number, event in enumerate(events):
        if not isinstance(event, ev.UnknownEvent):
            event.message_id = MessageId(str(number))
        fold(state, event)
    return state


def foreign(agent: str, role: Any = "user", **members: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(agent_id=AgentId(agent), role=role, **members)


def test_older_log_may_mention_agents_before_their_creation() -> None:
    state = read_all(
        foreign("jill", content="hello"),
        ev.AgentCreated(agent_id=AgentId("jill"), name="Jill"),
        foreign("jill", content="more"),
        ev.AgentConfigured(name="nobody"),
    )
    assert state.root == state.primary == "jill"
    assert [e.content for e in state.agents[AgentId("jill")].transcript or ()] == ["hello", "more"]
    assert state.agents[AgentId("jill")].name == "Jill"
    assert state.agents[AgentId("")].name == "nobody"


def test_older_agent_with_unknown_cause_is_below_the_root() -> None:
    root, jack = AgentId("root"), AgentId("jack")
    state = read_all(
        ev.AgentCreated(agent_id=root),
        ev.AgentCreated(agent_id=jack, cause="77"),
        ev.AgentMoved(agent_id=jack, place="primary"),
        ev.AgentMoved(agent_id=AgentId("late"), place="gone"),
    )
    assert state.root == root
    assert state.agents[jack].place == "primary"
    assert state.agents[root].subagents == []
    assert AgentId("late") in state.agents


def test_foreign_log_may_contain_a_cycle_of_agents() -> None:
    first, two = AgentId("one"), AgentId("two")
    state = read_all(
        ev.AgentCreated(agent_id=first),
        ev.AgentCreated(agent_id=two, cause="0"),
        ev.AgentMoved(agent_id=first, place="subagent", parent=two),
        ev.AgentMoved(agent_id=two, place="subagent", parent=first),
    )
    assert not state.is_live(first)


@pytest.mark.req("S0-09")
def test_log_with_two_results_for_a_call_is_readable() -> None:
    call = ToolCall("c3", FunctionCall("discuss", "{}"))
    tool = {"tool_call_id": "c3", "name": "discuss"}
    state = read_all(
        ev.AgentCreated(agent_id=ROOT),
        foreign(ROOT, "assistant", tool_calls=[call]),
        foreign(ROOT, "tool", content="one", **tool),
        foreign(ROOT, "tool", content="two", **tool),
    )
    assert [e.content for e in state.agents[ROOT].transcript or ()] == [None, "one", "two"]
    assert not state.agents[ROOT].open_calls


def test_impossible_edit_is_an_error() -> None:
    with pytest.raises(ValueError, match="keeps 0 to 5 of 0"):
        read_all(
            ev.AgentCreated(agent_id=ROOT),
            ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(0, 5)]),
        )
