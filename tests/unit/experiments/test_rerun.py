from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Deny, LocalWorld, Session, SessionViewer, load_session, tool
from harken.agents.checkpointer import Checkpointer
from harken.agents.load import start_from_commit
from harken.agents.runtime import ModelSettings
from harken.agents.tree.hook_action import new_hook
from harken.context.materialize import make_resolver
from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.messages import Message, extend_context_hash, text_of
from harken.errors import ConfigError, ModelError, NameNotFound
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.provider_rules import ContextRefused
from harken.experiments.rerun import FAILURE_REASON, SUCCESS_REASON, RerunResult, rerun
from harken.llm import ReplayModel
from harken.llm.base import Model, tools_hash
from harken.session.session import SessionOptions, build_entry
from harken.session.verify import verify
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
from tests.session_kit import read_lines
from tests.unit.agents.hook_kit import watch

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


def cafe(folder: Path, store: Store | None = None, **members: Any) -> Stage:
    """A session in which main was asked for the price of tea, then of milk."""
    model = script_model(main=LINES, compaction=["<summary>Tea is 3.</summary>"])
    checkpoints = None if store is None else Checkpointer(store=store)
    runtime = AgentRuntime(model=model, world=LocalWorld([price]), checkpoints=checkpoints)
    scene = open_stage(folder, model, runtime=runtime, **members)
    scene.ask("What is tea?")
    scene.ask("And milk?")
    return scene


def point(scene: Stage, message_ref: str, store: Store | None = None) -> ForkPoint:
    scene.session.close()
    events = SessionViewer(scene.log).events
    if store is None:
        return ForkPoint.find(scene.log.stem, events, message_ref, log=scene.log)
    return ForkPoint.find(
        scene.log.stem, events, message_ref, resolver=make_resolver(store), log=scene.log
    )


def rerun_fork(
    fork: ForkPoint, folder: Path, model: Model, change: Change | None = None, **members: Any
) -> RerunResult:
    runtime = members.pop("runtime", None) or AgentRuntime()
    runtime = replace(runtime, models=replace(runtime.models, resolver=lambda _: model))
    result = run(rerun(fork, folder / "again.jsonl", change, runtime=runtime, **members))
    check_log(result.log, finished=result.error is None)
    return result


def test_unchanged_rerun_repeats_requests_and_actions(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    result = rerun_fork(point(scene, "1"), tmp_path, ReplayModel.load(scene.log))
    assert result == RerunResult(result.log, "3 euros.")
    assert SOLD == ["tea", "milk"]
    first, second = select_lines(scene.log, event_type="llm_request")[:2]
    assert [row["context_hash"] for row in select_lines(result.log, event_type="llm_request")] == [
        first["context_hash"],
        second["context_hash"],
    ]


def test_later_user_messages_are_repeated(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    result = rerun_fork(point(scene, "2"), tmp_path, ReplayModel.load(scene.log), follow=True)
    assert result.answer == "1 euro."
    assert SOLD == ["tea", "milk"]
    assert select_lines(result.log, event_type="session_ended")[0]["reason"] == SUCCESS_REASON


def test_messages_sent_together_are_repeated_together(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    scene.root.harken("Thanks.")
    scene.root.harken("How much is wine?")
    scene.ask()
    fork = point(scene, "4")
    assert fork.inputs_after() == [["Thanks.", "How much is wine?"]]
    result = rerun_fork(fork, tmp_path, ReplayModel.load(scene.log), follow=True)
    assert result.answer == "[main has no line 4]"


def test_edit_changes_the_model_input(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "2")
    model = script_model(main=[".", "4 euros, then."])
    result = rerun_fork(fork, tmp_path, model, Change(edit=[("-1", "tea: 4")], system="Be short."))
    assert result.answer == "4 euros, then."
    assert [message.content for message in model.requests[0].messages] == [
        "Be short.",
        "What is tea?",
        None,
        "tea: 4",
    ]


def test_unrecorded_call_is_refused(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    model = script_model(main=[call_message(call("price", drink="wine")), "I do not know."])
    rerun_result = rerun_fork(fork, tmp_path, model)
    assert rerun_result.answer == "I do not know."
    assert [(agent, function_call.name) for agent, function_call in rerun_result.differing] == [
        ("main", "price")
    ]
    (result,) = select_lines(rerun_result.log, role="tool", event_type="transcript_entry")
    assert result["content"].startswith("Error: price was not run: nothing was recorded")
    assert SOLD == ["tea", "milk"]


def test_unrecorded_call_runs_live_if_allowed(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    model = script_model(main=[call_message(call("price", drink="wine")), "4."])
    result = rerun_fork(fork, tmp_path, model, live=LocalWorld([price]))
    assert result.answer == "4."
    assert SOLD == ["tea", "milk", "wine"]


def test_rerun_is_a_branch_before_the_call_with_the_changes_as_events(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    fork = point(scene, "2")
    change = Change(edit=[("#1", "What is it?")], model="play", parameters={"seed": 7})
    result = rerun_fork(fork, tmp_path, script_model(main=[".", "."]), change)
    recorded, rows = read_lines(scene.log), read_lines(result.log)
    shared = [row["message_id"] for row in recorded].index(fork.request.message_id)
    origin = rows[0]["origin"]
    assert (origin["session"], origin["upto"]) == ("s", recorded[shared - 1]["message_id"])
    assert _without_sums(rows[1:shared]) == _without_sums(recorded[1:shared])
    entry, edit, *configured = rows[shared : shared + 4]
    assert (entry["role"], entry["content"], entry["more"]) == ("user", "What is it?", True)
    assert (edit["event_type"], edit["reason"]) == (
        "transcript_edited",
        "rerun: edited #1, model play, seed 7",
    )
    assert edit["segments"] == [
        {"start": 0, "stop": 1},
        {"entries": [entry["message_id"]]},
        {"start": 2, "stop": 4},
    ]
    assert [row["event_type"] for row in configured] == ["agent_configured"] * 2
    assert (configured[0]["parameters"], configured[1]["language_model"]) == (
        {"seed": 7},
        "play",
    )


def _without_sums(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "sum"} for row in rows]


def test_a_changed_result_is_logged_with_its_call(tmp_path: Path) -> None:
    """A result follows its call: both are new entries, and the old ones leave the context."""
    scene = cafe(tmp_path)
    fork = point(scene, "4")
    model = script_model(main=["."] * 3 + ["4 euros, then 1."])
    result = rerun_fork(fork, tmp_path, model, Change(edit=[("#3", "tea: 4")], drop=["#4"]))
    assert [text_of(message.content) for message in model.requests[0].messages] == [
        text_of(message.content)
        for message in Change(edit=[("#3", "tea: 4")], drop=["#4"]).context(fork.context)
    ]
    assert verify(result.log) == []


@pytest.mark.parametrize("store", [MemoryStore(), None])
def test_rerun_after_a_compaction_reads_the_compacted_context(
    tmp_path: Path, store: Store | None
) -> None:
    scene = cafe(tmp_path, store)
    assert run(scene.root.compact()) is not None  # type: ignore[attr-defined]
    scene.ask("And now?")
    fork = point(scene, "-1", store)
    assert len(fork.context) < 10
    result = rerun_fork(fork, tmp_path, ReplayModel.load(scene.log), store=store)
    assert result.error is None
    last = select_lines(result.log, event_type="llm_request")[-1]
    assert last["context_hash"] == fork.request.context_hash


def test_context_in_an_unavailable_store_is_not_rerun(tmp_path: Path) -> None:
    store = MemoryStore()
    scene = cafe(tmp_path, store)
    (*_, ctx) = [row["ctx"] for row in select_lines(scene.log, event_type="context_committed")]
    scene.session.close()
    options = SessionOptions(resolver=make_resolver(store), durability="none")
    root, session = load_session(
        tmp_path / "later.jsonl", name="main", model=script_model(main=["."] * 9), options=options
    )
    with session:
        start_from_commit(root, ctx)
        run(root.response("Hello?"))
    without = ForkPoint.find("later", SessionViewer(session.path).events, "1", log=session.path)
    with pytest.raises(ConfigError, match="in a store that is not at hand"):
        rerun_fork(without, tmp_path, script_model(main=["."]))
    fork = ForkPoint.find(
        "later",
        SessionViewer(session.path).events,
        "1",
        log=session.path,
        resolver=make_resolver(store),
    )
    assert rerun_fork(fork, tmp_path, script_model(main=["Hi."] * 9), store=store).answer == "Hi."


def test_rerun_is_a_session_that_can_continue(tmp_path: Path) -> None:
    result = rerun_fork(
        point(cafe(tmp_path), "2"), tmp_path, script_model(main=[".", "3.", "Bye."])
    )
    runtime = AgentRuntime(model=script_model(main=[".", "3.", "Bye."]))
    root, session = load_session(result.log, runtime=runtime)
    with session:
        assert run(root.response("Bye!")) == "Bye."


def test_rerun_of_a_rerun_works(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    fork = point(scene, "4")
    result = rerun_fork(fork, tmp_path, script_model(main=["."] * 4), Change(edit=[("-1", "x")]))
    events = SessionViewer(result.log).events
    second = ForkPoint.find("again", events, "-1", log=result.log)
    assert second.messages[-1].content == "x"
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    assert rerun_fork(second, other_folder, ReplayModel.load(result.log)).answer == "."


def test_a_rerun_of_a_session_of_harken_needs_its_log(tmp_path: Path) -> None:
    fork = replace(point(cafe(tmp_path), "2"), log=None)
    with pytest.raises(ConfigError, match="needs its log"):
        rerun_fork(fork, tmp_path, script_model(main=["."]))
    assert not (tmp_path / "again.jsonl").exists()


def test_hooks_are_kept_or_disabled(tmp_path: Path) -> None:
    scene = open_stage(tmp_path, script_model(main=LINES), tools=[price])
    watch(scene, "guard", action=lambda _: Deny("no"))
    scene.ask("What is tea?")
    fork = point(scene, "1")
    result = rerun_fork(fork, tmp_path, script_model(main=LINES))
    asked = select_lines(result.log, event_type="hook_verdict", point="action")
    assert [row["agent_id"] for row in asked] == ["agent_002"]
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    result = rerun_fork(
        fork, other_folder, script_model(main=LINES), Change(without_hooks=["guard"])
    )
    (moved,) = select_lines(result.log, event_type="agent_moved")
    assert (moved["agent_id"], moved["place"]) == ("agent_002", "gone")
    assert select_lines(result.log, event_type="hook_verdict", point="action") == []
    with pytest.raises(NameNotFound, match="guard"):
        rerun_fork(fork, tmp_path, script_model(main=LINES), Change(without_hooks=["nobody"]))


def test_smart_hooks_keep_their_instructions(tmp_path: Path) -> None:
    """A rerun's hook had its place and its name, but not one message of its transcript."""
    model = script_model(main=["Tea.", "Milk."], tone=["OK", "OK"])
    scene = open_stage(tmp_path, model)
    tone = new_hook(scene.root, "You watch the tone.", points=["response"])
    tone.install(scene.root, "tone")
    scene.ask("What is there?")
    scene.ask("And?")
    fork = point(scene, "-1")
    assert fork.name == "tone"
    fork = point(scene, "3")
    assert fork.name == "main"
    again = script_model(main=[".", "Wine."], tone=["OK"])
    result = rerun_fork(fork, tmp_path, again)
    assert result.answer == "Wine."
    asked = [
        request for request in again.requests if "You watch the tone." in str(request.messages[0])
    ]
    assert len(asked) == 1
    (before, _) = select_lines(result.log, event_type="hook_verdict")
    assert before["message_id"] < fork.request.message_id


def test_subagents_keep_their_context(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        "Ann is here.",
        call_message(call("discuss", prompt="Tea?")),
        "She wants tea.",
    ]
    scene = open_stage(tmp_path, script_model(main=lines, Ann=["Hello.", "Yes."]))
    scene.ask("Get Ann")
    scene.ask("Ask her")
    fork = point(scene, "4")
    assert fork.name == "main"
    result = rerun_fork(fork, tmp_path, ReplayModel.load(scene.log))
    assert result.answer == "She wants tea."
    names = [row["name"] for row in select_lines(result.log, event_type="agent_created")]
    assert names == ["main", "Ann"]
    user_texts = [
        row["content"] for row in select_lines(result.log, agent_id="agent_002", role="user")
    ]
    assert user_texts == ["Hi", "Tea?"]


def test_subagent_call_is_rerun_separately(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        "Ann is here.",
    ]
    scene = open_stage(tmp_path, script_model(main=lines, Ann=["Hello."]))
    scene.ask("Get Ann")
    runtime = AgentRuntime(models=ModelSettings(resolver=lambda _: script_model(Ann=["Bonjour."])))
    result = run(rerun(point(scene, "2"), tmp_path / "again.jsonl", runtime=runtime))
    assert result.answer == "Bonjour."
    model = script_model(main=[".", "Ann says {}."])
    root, session = load_session(result.log, runtime=AgentRuntime(model=model))
    with session:  # main, which waits for her, goes on
        assert run(root.response()) == "Ann says {}."
    check_log(result.log)
    assert select_lines(result.log, role="tool")[0]["content"].endswith("Bonjour.")


@pytest.mark.parametrize("store", [MemoryStore(), None])
def test_edits_that_a_provider_refuses_leave_nothing(tmp_path: Path, store: Store | None) -> None:
    fork = point(cafe(tmp_path, store), "2", store)
    with pytest.raises(ContextRefused, match="call-without-result"):
        rerun_fork(fork, tmp_path, script_model(main=LINES), Change(drop=["-1"]), store=store)
    assert not (tmp_path / "again.jsonl").exists()


def test_failing_model_ends_the_session_with_an_error(tmp_path: Path) -> None:
    fork = point(cafe(tmp_path), "1")
    result = rerun_fork(fork, tmp_path, script_model(main=[ModelError("no credit")]))
    assert (result.answer, result.error) == (None, "no credit")
    assert select_lines(result.log, event_type="session_ended")[0]["reason"] == FAILURE_REASON


def test_missing_call_error_names_the_nearest(tmp_path: Path) -> None:
    scene = cafe(tmp_path)
    with pytest.raises(NameNotFound, match="1 to 4"):
        point(scene, "9")
    with pytest.raises(NameNotFound, match=r"msg_\d+ \(call 4, of main\)"):
        point(scene, "msg_099")


def foreign(folder: Path) -> ForkPoint:
    """A call of another program that has a tool with the name of a Harken action."""
    schema = {"name": "task", "description": "Run an agent.", "parameters": {"type": "object"}}
    task_calls = call_message(call("task", prompt="Look"))
    result = Message("tool", "Nothing there.", tool_call_id="c1", name="task")
    with Session(folder / "claude.jsonl", options=fast_options()) as session:
        agent_id = session.allocate_agent_id()
        session.log_agent_created(
            agent_id, None, "main", "claude-x", spec=AgentSpec(foreign=ForeignAgent("claude-code"))
        )
        session.append(build_entry(agent_id, Message("user", "Go")))
        hash_ = tools_hash([schema])
        tools = session.append(ev.ToolsDefined(tools=[schema], tools_hash=hash_))
        for message in (task_calls, Message("assistant", "Nothing.")):
            context = session.context(agent_id)
            request_event = ev.LlmRequest(
                agent_id=agent_id,
                context=session.agent(agent_id).segments(),
                count=len(context),
                context_hash=reduce(extend_context_hash, context, ""),
                model="claude-x",
                parameters={"stream": True, "max_tokens": 9, "metadata": {"user": "x"}},
                tools=tools,
            )
            request = session.append(request_event)
            entry = session.append(build_entry(agent_id, message))
            session.append(ev.LlmResponse(agent_id=agent_id, request=request, entry=entry))
            if message is task_calls:
                session.append(build_entry(agent_id, result))
    return ForkPoint.find("claude", SessionViewer(session.path).events, "1")


def test_call_of_another_program_is_rerun_with_recorded_tool_results(
    tmp_path: Path,
) -> None:
    fork = foreign(tmp_path)
    assert not fork.is_run_by_harken
    model = script_model(main=[call_message(call("task", prompt="Look")), "Nothing, as before."])
    result = rerun_fork(fork, tmp_path, model)
    assert result.answer == "Nothing, as before."
    assert select_lines(result.log, role="tool")[0]["content"] == "Nothing there."
    assert [dict(tool) for tool in model.requests[0].tools] == fork.tools
    assert model.requests[0].parameters == {"max_tokens": 9}


def test_replay_of_another_program_sends_all_recorded_requests(tmp_path: Path) -> None:
    fork = foreign(tmp_path)
    log = tmp_path / "claude.jsonl"
    change = Change(model=f"replay:{log}")
    assert rerun_fork(fork, tmp_path, ReplayModel.load(log), change).answer == "Nothing."


def test_provider_of_a_recorded_model_must_be_unambiguous(tmp_path: Path) -> None:
    fork = foreign(tmp_path)
    fork.request.model = "some-model"
    with pytest.raises(ConfigError, match="--model"):
        rerun_fork(fork, tmp_path, script_model())


TOOL = {"name": "Look", "description": "Look.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Look", "input": {"at": "door"}}
FOUND = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Jill."}


@pytest.mark.parametrize("store", [MemoryStore(), None])
def test_session_recorded_by_the_proxy_is_rerun_with_and_without_changes(
    tmp_path: Path, store: Store | None
) -> None:
    client = RecordedClient(open_recorder(tmp_path / "logs", store=store))
    messages: list[Any] = [{"role": "user", "content": "Who is there?"}]
    cached = [{"type": "text", "text": "You are Jack.", "cache_control": {"type": "ephemeral"}}]
    members: dict[str, Any] = {
        "system": cached,
        "tools": [TOOL],
        "stream": True,
        "metadata": {"user_id": "x"},
    }
    client.ask(request_body(*messages, **members), [{"type": "text", "text": "I look."}, USE])
    messages += [
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]},
        {"role": "user", "content": [FOUND, {"type": "text", "text": "Mind the step."}]},
    ]
    client.ask(request_body(*messages, **members), "Jill is there.")
    client.recorder.close()
    (log,) = log_paths(tmp_path / "logs")
    events = SessionViewer(log).events
    fork = ForkPoint.find(log.stem, events, "1")
    replay = Change(model=f"replay:{log}")
    result = rerun_fork(fork, tmp_path, ReplayModel.load(log), replay, store=store)
    assert result == RerunResult(result.log, "Jill is there.")
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    model = script_model(main=[call_message(raw_call("Look", '{"at": "door"}')), "It is Jill."])
    result = rerun_fork(
        fork, other_folder, model, Change(edit=[("-1", "Who?")], model="play"), store=store
    )
    assert [text_of(message.content) for message in model.requests[1].messages][
        -1
    ] == "Mind the step."
    assert result == RerunResult(result.log, "It is Jill.")
    assert model.requests[0].parameters == {"max_tokens": 10}
    with pytest.raises(ContextRefused, match="user-first"):
        rerun_fork(ForkPoint.find(log.stem, events, "2"), other_folder, model, Change(drop=["#1"]))
