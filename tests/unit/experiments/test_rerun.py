from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Deny, LocalWorld, Session, SessionViewer, load_session, tool
from harken.agents.checkpointer import Checkpointer
from harken.context.history import get_commit
from harken.context.materialize import make_resolver
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.messages import Message, extend_context_hash, text_of
from harken.errors import ConfigError, ModelError, NameNotFound
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.provider_rules import ContextRefused
from harken.experiments.rerun import FAILURE_REASON, SUCCESS_REASON, RerunResult, rerun
from harken.llm import ReplayModel
from harken.llm.base import Model, tools_hash
from harken.session.session import build_entry
from harken.store.base import Store
from harken.store.memory import MemoryStore
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    open_stage,
    raw_call,
    run,
    script_model,
    select_lines,
)
from tests.recording_kit import RecordedClient, log_paths, open_recorder, request_body
from tests.unit.agents.hooking import watch

LINES: list[ScriptedAnswer] = [
    call_message(call("price", drink="tea")),
    "3 euros.",
    call_message(call("price", drink="milk")),
    "1 euro.",
]
SOLD: list[str] = []


@tool
def price(drink: str) -> str:
    """Tell what a drink costs."""
    SOLD.append(drink)
    return f"{drink}: {len(drink)}"


@pytest.fixture(autouse=True)
def nothing_sold() -> None:
    SOLD.clear()


def cafe(folder: Path, store: Store | None = None, **more: Any) -> Stage:
    """A session in which main was asked for the price of tea, then of milk."""
    model = script_model(main=LINES, compaction=["<summary>Tea is 3.</summary>"])
    checkpoints = None if store is None else Checkpointer(store=store)
    runtime = AgentRuntime(model=model, world=LocalWorld([price]), checkpoints=checkpoints)
    one = open_stage(folder, model, runtime=runtime, **more)
    one.ask("What is tea?")
    one.ask("And milk?")
    return one


def point(one: Stage, at: str, store: Store | None = None) -> ForkPoint:
    one.session.close()
    events = SessionViewer(one.log).events
    if store is None:
        return ForkPoint.find(one.log.stem, events, at)
    return ForkPoint.find(one.log.stem, events, at, resolver=make_resolver(store))


def again(
    fork: ForkPoint, folder: Path, model: Model, change: Change | None = None, **more: Any
) -> RerunResult:
    runtime = more.pop("runtime", None) or AgentRuntime()
    runtime = replace(runtime, models=replace(runtime.models, resolver=lambda _: model))
    done = run(rerun(fork, folder / "again.jsonl", change, runtime=runtime, **more))
    check_log(done.log, finished=done.error is None)
    return done


def test_an_unchanged_rerun_asks_what_was_asked_and_does_what_was_done(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    done = again(point(one, "1"), tmp_path, ReplayModel.load(one.log))
    assert done == RerunResult(done.log, "3 euros.")
    assert SOLD == ["tea", "milk"]
    first, second = select_lines(one.log, event_type="llm_request")[:2]
    assert [row["context_hash"] for row in select_lines(done.log, event_type="llm_request")] == [
        first["context_hash"],
        second["context_hash"],
    ]


def test_what_was_said_later_is_said_again(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    done = again(point(one, "2"), tmp_path, ReplayModel.load(one.log), follow=True)
    assert done.answer == "1 euro."
    assert SOLD == ["tea", "milk"]
    assert select_lines(done.log, event_type="session_ended")[0]["reason"] == SUCCESS_REASON


def test_what_was_said_together_is_said_together_again(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    one.root.harken("Thanks.")
    one.root.harken("How much is wine?")
    one.ask()
    fork = point(one, "4")
    assert fork.inputs_after() == [["Thanks.", "How much is wine?"]]
    done = again(fork, tmp_path, ReplayModel.load(one.log), follow=True)
    assert done.answer == "[main has no line 4]"


def test_an_edit_changes_what_the_model_reads(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "2")
    model = script_model(main=[".", "4 euros, then."])
    done = again(fork, tmp_path, model, Change(edit=[("-1", "tea: 4")], system="Be short."))
    assert done.answer == "4 euros, then."
    assert [message.content for message in model.requests[0].messages] == [
        "Be short.",
        "What is tea?",
        None,
        "tea: 4",
    ]


def test_a_call_that_was_not_made_is_refused(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    model = script_model(main=[call_message(call("price", drink="wine")), "I do not know."])
    done = again(fork, tmp_path, model)
    assert done.answer == "I do not know."
    assert [(agent, made.name) for agent, made in done.differing] == [("main", "price")]
    (result,) = select_lines(done.log, role="tool", event_type="transcript_entry")
    assert result["content"].startswith("Error: price was not run: nothing was recorded")
    assert SOLD == ["tea", "milk"]


def test_a_call_that_was_not_made_runs_live_where_it_may(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    model = script_model(main=[call_message(call("price", drink="wine")), "4."])
    done = again(fork, tmp_path, model, live=LocalWorld([price]))
    assert done.answer == "4."
    assert SOLD == ["tea", "milk", "wine"]


def test_the_birth_says_of_what_it_is_a_rerun_and_what_was_changed(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "2")
    done = again(
        fork, tmp_path, script_model(main=[".", "."]), Change(edit=[("#3", "x")], model="play")
    )
    (birth,) = select_lines(done.log, event_type="agent_created")
    assert (birth["name"], birth["spec"]["kind"]) == ("main", "smart")
    assert birth["spec"]["rerun"] == {
        "session": "s",
        "request": fork.request.message_id,
        "number": 2,
        "agent": "agent_001",
        "changes": ["edited #3", "model play"],
    }


def test_the_context_is_a_commit_that_goes_on_from_what_was_there(tmp_path: Path) -> None:
    store = MemoryStore()
    one = cafe(tmp_path, store)
    fork = point(one, "4", store)
    done = again(fork, tmp_path, ReplayModel.load(one.log), store=store)
    assert done.answer == "1 euro."
    (loaded,) = select_lines(done.log, event_type="context_loaded")
    assert loaded["context_hash"] == fork.request.context_hash
    commit = get_commit(store, CommitId(loaded["ctx"])).commit
    recorded = [row["ctx"] for row in select_lines(one.log, event_type="context_committed")]
    assert commit.parent == recorded[2]
    assert commit.message_count == 1


def test_an_edited_context_shares_what_stands_before_the_edit(tmp_path: Path) -> None:
    store = MemoryStore()
    one = cafe(tmp_path, store)
    fork = point(one, "4", store)
    recorded = [
        CommitId(row["ctx"]) for row in select_lines(one.log, event_type="context_committed")
    ]
    done = again(
        fork, tmp_path, script_model(main=["."] * 4), Change(edit=[("#4", "x")]), store=store
    )
    (loaded,) = select_lines(done.log, event_type="context_loaded")
    commit = get_commit(store, CommitId(loaded["ctx"])).commit
    assert (commit.parent, commit.type) == (recorded[0], "delta")
    other = tmp_path / "other"
    other.mkdir()
    changed = Change(system="Other.")
    done = again(fork, other, script_model(main=["."] * 4), changed, store=store)
    (loaded,) = select_lines(done.log, event_type="context_loaded")
    commit = get_commit(store, CommitId(loaded["ctx"])).commit
    assert (commit.type, commit.message_count) == ("snapshot", fork.request.count)
    assert commit.parent in recorded


def test_the_same_fork_is_the_same_commit(tmp_path: Path) -> None:
    store = MemoryStore()
    fork = point(cafe(tmp_path, store), "4", store)
    ctxs = set()
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        done = again(
            fork, folder, script_model(main=["."] * 4), Change(edit=[("-1", "x")]), store=store
        )
        ctxs |= {row["ctx"] for row in select_lines(done.log, event_type="context_loaded")}
    assert len(ctxs) == 1


def test_after_a_compaction_a_rerun_reads_what_was_read(tmp_path: Path) -> None:
    store = MemoryStore()
    one = cafe(tmp_path, store)
    assert run(one.root.compact()) is not None  # type: ignore[attr-defined]
    one.ask("And now?")
    fork = point(one, "-1", store)
    assert len(fork.context) < 10
    done = again(fork, tmp_path, ReplayModel.load(one.log), store=store)
    assert done.error is None
    (loaded,) = select_lines(done.log, event_type="context_loaded")
    assert loaded["context_hash"] == fork.request.context_hash


def test_a_context_in_a_store_that_is_not_at_hand_is_not_rerun(tmp_path: Path) -> None:
    store = MemoryStore()
    fork = point(cafe(tmp_path, store), "4", store)
    done = again(
        fork, tmp_path, script_model(main=["."] * 4), Change(edit=[("-1", "x")]), store=store
    )
    without = ForkPoint.find("again", SessionViewer(done.log).events, "1")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ConfigError, match="in a store that is not at hand"):
        again(without, other, script_model(main=["."]))


def test_a_rerun_is_a_session_that_goes_on(tmp_path: Path) -> None:
    done = again(point(cafe(tmp_path), "2"), tmp_path, script_model(main=[".", "3.", "Bye."]))
    runtime = AgentRuntime(model=script_model(main=[".", "3.", "Bye."]))
    root, session = load_session(done.log, runtime=runtime)
    with session:
        assert run(root.response("Bye!")) == "Bye."


def test_a_rerun_of_a_rerun_is_one(tmp_path: Path) -> None:
    store = MemoryStore()
    fork = point(cafe(tmp_path, store), "4", store)
    done = again(
        fork, tmp_path, script_model(main=["."] * 4), Change(edit=[("-1", "x")]), store=store
    )
    events = SessionViewer(done.log).events
    second = ForkPoint.find("again", events, "-1", resolver=make_resolver(store))
    assert second.messages[-1].content == "x"
    other = tmp_path / "other"
    other.mkdir()
    assert again(second, other, ReplayModel.load(done.log), store=store).answer == "."


def test_hooks_watch_as_they_did_or_not_at_all(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=LINES), tools=[price])
    watch(one, "guard", action=lambda _: Deny("no"))
    one.ask("What is tea?")
    fork = point(one, "1")
    done = again(fork, tmp_path, script_model(main=LINES))
    hook = select_lines(done.log, event_type="agent_created")[1]
    assert (hook["name"], hook["relation"], hook["spec"]) == (
        "guard",
        "hook",
        {"kind": "test-judge"},
    )
    other = tmp_path / "other"
    other.mkdir()
    done = again(fork, other, script_model(main=LINES), Change(without_hooks=["guard"]))
    assert len(select_lines(done.log, event_type="agent_created")) == 1
    with pytest.raises(NameNotFound, match="guard"):
        again(fork, tmp_path, script_model(main=LINES), Change(without_hooks=["nobody"]))


def test_subagents_are_there_with_what_they_remember(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        "Ann is here.",
        call_message(call("discuss", prompt="Tea?")),
        "She wants tea.",
    ]
    one = open_stage(tmp_path, script_model(main=lines, Ann=["Hello.", "Yes."]))
    one.ask("Get Ann")
    one.ask("Ask her")
    fork = point(one, "4")
    assert fork.name == "main"
    done = again(fork, tmp_path, ReplayModel.load(one.log))
    assert done.answer == "She wants tea."
    names = [row["name"] for row in select_lines(done.log, event_type="agent_created")]
    assert names == ["main", "Ann"]
    heard = [row["content"] for row in select_lines(done.log, agent_id="agent_002", role="user")]
    assert heard == ["Hi", "Tea?"]


def test_a_subagents_call_is_rerun_on_its_own(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        "Ann is here.",
    ]
    one = open_stage(tmp_path, script_model(main=lines, Ann=["Hello."]))
    one.ask("Get Ann")
    done = again(point(one, "2"), tmp_path, script_model(Ann=["Bonjour."]))
    assert done.answer == "Bonjour."


@pytest.mark.parametrize("store", [MemoryStore(), None])
def test_edits_that_a_provider_would_refuse_leave_nothing_behind(
    tmp_path: Path, store: Store | None
) -> None:
    fork = point(cafe(tmp_path, store), "2", store)
    with pytest.raises(ContextRefused, match="call-without-result"):
        again(fork, tmp_path, script_model(main=LINES), Change(drop=["-1"]), store=store)
    assert not (tmp_path / "again.jsonl").exists()


def test_a_failing_model_ends_a_session_that_says_so(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    done = again(fork, tmp_path, script_model(main=[ModelError("no credit")]))
    assert (done.answer, done.error) == (None, "no credit")
    assert select_lines(done.log, event_type="session_ended")[0]["reason"] == FAILURE_REASON


def test_a_call_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    one = cafe(tmp_path)
    with pytest.raises(NameNotFound, match="1 to 4"):
        point(one, "9")
    with pytest.raises(NameNotFound, match=r"msg_\d+ \(call 4, of main\)"):
        point(one, "msg_099")


def foreign(folder: Path) -> ForkPoint:
    """A call of another program: it has a tool that is called like an action of Harken."""
    schema = {"name": "task", "description": "Run an agent.", "parameters": {"type": "object"}}
    made = call_message(call("task", prompt="Look"))
    result = Message("tool", "Nothing there.", tool_call_id="c1", name="task")
    with Session(folder / "claude.jsonl", options=fast_options()) as session:
        one = session.allocate_agent_id()
        session.log_agent_created(one, None, "main", "claude-x", spec={"recorded": "claude-code"})
        session.append(build_entry(one, Message("user", "Go")))
        hash_ = tools_hash([schema])
        tools = session.append(ev.ToolsDefined(tools=[schema], tools_hash=hash_))
        for said in (made, Message("assistant", "Nothing.")):
            seen = session.context(one)
            asked = ev.LlmRequest(
                agent_id=one,
                context=session.agent(one).segments(),
                count=len(seen),
                context_hash=reduce(extend_context_hash, seen, ""),
                model="claude-x",
                parameters={"stream": True, "max_tokens": 9, "metadata": {"user": "x"}},
                tools=tools,
            )
            request = session.append(asked)
            entry = session.append(build_entry(one, said))
            session.append(ev.LlmResponse(agent_id=one, request=request, entry=entry))
            if said is made:
                session.append(build_entry(one, result))
    return ForkPoint.find("claude", SessionViewer(session.path).events, "1")


def test_a_call_of_another_program_is_rerun_with_its_tools_answered_from_the_record(
    tmp_path: Path,
) -> None:
    fork = foreign(tmp_path)
    assert not fork.is_run_by_harken
    model = script_model(main=[call_message(call("task", prompt="Look")), "Nothing, as before."])
    done = again(fork, tmp_path, model)
    assert done.answer == "Nothing, as before."
    assert select_lines(done.log, role="tool")[0]["content"] == "Nothing there."
    assert [dict(one) for one in model.requests[0].tools] == fork.tools
    assert model.requests[0].parameters == {"max_tokens": 9}


def test_a_replay_of_another_program_is_asked_with_all_that_was_recorded(tmp_path: Path) -> None:
    fork = foreign(tmp_path)
    log = tmp_path / "claude.jsonl"
    change = Change(model=f"replay:{log}")
    assert again(fork, tmp_path, ReplayModel.load(log), change).answer == "Nothing."


def test_whose_a_recorded_model_is_must_be_plain(tmp_path: Path) -> None:
    fork = foreign(tmp_path)
    fork.request.model = "some-model"
    with pytest.raises(ConfigError, match="--model"):
        again(fork, tmp_path, script_model())


TOOL = {"name": "Look", "description": "Look.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Look", "input": {"at": "door"}}
FOUND = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Jill."}


@pytest.mark.parametrize("store", [MemoryStore(), None])
def test_a_session_that_was_recorded_on_the_wire_is_rerun_the_same_and_otherwise(
    tmp_path: Path, store: Store | None
) -> None:
    client = RecordedClient(open_recorder(tmp_path / "logs", store=store))
    asked: list[Any] = [{"role": "user", "content": "Who is there?"}]
    cached = [{"type": "text", "text": "You are Jack.", "cache_control": {"type": "ephemeral"}}]
    more: dict[str, Any] = {
        "system": cached,
        "tools": [TOOL],
        "stream": True,
        "metadata": {"user_id": "x"},
    }
    client.ask(request_body(*asked, **more), [{"type": "text", "text": "I look."}, USE])
    asked += [
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]},
        {"role": "user", "content": [FOUND, {"type": "text", "text": "Mind the step."}]},
    ]
    client.ask(request_body(*asked, **more), "Jill is there.")
    client.recorder.close()
    (log,) = log_paths(tmp_path / "logs")
    events = SessionViewer(log).events
    fork = ForkPoint.find(log.stem, events, "1")
    replay = Change(model=f"replay:{log}")
    done = again(fork, tmp_path, ReplayModel.load(log), replay, store=store)
    assert done == RerunResult(done.log, "Jill is there.")
    other = tmp_path / "other"
    other.mkdir()
    model = script_model(main=[call_message(raw_call("Look", '{"at": "door"}')), "It is Jill."])
    done = again(fork, other, model, Change(edit=[("-1", "Who?")], model="play"), store=store)
    assert [text_of(one.content) for one in model.requests[1].messages][-1] == "Mind the step."
    assert done == RerunResult(done.log, "It is Jill.")
    assert model.requests[0].parameters == {"max_tokens": 10}
    with pytest.raises(ContextRefused, match="user-first"):
        again(ForkPoint.find(log.stem, events, "2"), other, model, Change(drop=["#1"]))
