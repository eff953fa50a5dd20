"""`load_session`: new, or exactly as it was."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Budget, Session, load_session
from harken.agents.agent import unload_agent
from harken.agents.runtime import ModelSettings
from harken.errors import ConfigError, LogLocked, LogWriteError
from harken.testing import FailingDisk
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    fast_options,
    full_state,
    open_stage,
    script_model,
)
from tests.session_kit import fold_log, read_lines
from tests.unit.agents.crash_kit import cut_after, resume


@pytest.mark.req("S0-28")
def test_a_new_file_gives_a_root_agent_and_an_empty_session(tmp_path: Path) -> None:
    root, session = load_session(tmp_path / "s.jsonl", options=fast_options())
    assert (root.agent_id, root.subagents, root.transcript) == ("agent_001", {}, [])
    assert session.state.primary == session.state.root == root.agent_id
    assert [line["event_type"] for line in read_lines(session.path)] == [
        "session_started",
        "agent_created",
    ]
    assert "cause" not in read_lines(session.path)[1]


@pytest.mark.req("S0-28")
def test_an_empty_file_is_a_new_session(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").touch()
    root, session = load_session(tmp_path / "s.jsonl", system_prompt="Hi.", options=fast_options())
    assert [m["content"] for m in root.transcript] == ["Hi."]
    session.close()


@pytest.mark.req("S0-28")
def test_a_session_is_returned_as_root_and_session(tmp_path: Path) -> None:
    loaded = load_session(tmp_path / "s.jsonl", options=fast_options())
    assert isinstance(loaded, tuple)
    assert isinstance(loaded[1], Session)


def full(folder: Path) -> Stage:
    """Return a session with nearly everything in it."""
    model = script_model(
        main=[
            call_message(
                call("task", "a", name="Ann", instructions="You are Ann.", prompt="Get help.")
            ),
            call_message(call("task", "b", name="Bob", tools=["discuss"])),
            call_message(call("task", "c", name="Cid")),
            call_message(call("terminate", "d", name="Cid")),
            call_message(call("discuss", "e", prompt="Talk.", speakers=["Ann"], listeners=["Bob"])),
            "Done.",
            call_message(call("task", "f", name="Dan")),
            "Done too.",
        ],
        Ann=[call_message(call("task", "x", name="Amy", prompt="Help.")), "Amy helps.", "Hello."],
        Amy=["I help."],
    )
    one = open_stage(folder, model, budget=Budget(model_calls=99, depth=5))
    one.ask("Go.")
    return one


@pytest.mark.req("S0-28", "S0-31")
def test_the_whole_tree_comes_back(tmp_path: Path) -> None:
    one = full(tmp_path)
    live, transcripts = (
        full_state(one.session),
        {n: one.agent(n).transcript for n in ("Ann", "Amy")},
    )
    counters = (one.session.state.next_message, one.session.state.next_agent)
    later = one.resume()
    assert full_state(later.session) == live
    assert list(later.root.subagents) == ["Ann", "Bob"]
    assert list(later.root.subagents["Ann"].subagents) == ["Amy"]
    assert {n: later.agent(n).transcript for n in ("Ann", "Amy")} == transcripts
    assert (later.session.state.next_message, later.session.state.next_agent) == counters
    assert later.agent("Amy")._language_model == "play"
    assert [later.agent(n).name for n in ("Ann", "Cid")] == ["Ann", "Cid"]
    state = later.root.state
    assert ([*state.speakers], [*state.listeners]) == (["agent_002"], ["agent_004"])


@pytest.mark.req("S0-28", "S0-31")
def test_loading_a_finished_session_writes_nothing(tmp_path: Path) -> None:
    one = full(tmp_path)
    one.session.close()
    before = one.log.read_bytes()
    resume(one.log, one.runtime.model).session.close()
    assert one.log.read_bytes() == before


@pytest.mark.req("S0-31", "S0-28")
def test_a_session_that_was_resumed_at_every_step_is_the_one_that_never_was(tmp_path: Path) -> None:
    logs = []
    for name in ("once", "resumed"):
        (tmp_path / name).mkdir()
        one = full(tmp_path / name)
        if name == "resumed":
            one = one.resume().resume()
            for agent_id in list(one.session.agents):
                if agent_id != one.root.agent_id:
                    unload_agent(one.session, agent_id)
        assert one.ask("And Dan.") == "Done too."
        assert one.root.subagents["Dan"].agent_id == "agent_006"
        logs.append([{**r, "sum": 0, "time": 0, "latency_s": 0} for r in read_lines(one.log)])
    assert logs[0] == logs[1]


@pytest.mark.req("S0-31")
def test_at_every_event_the_log_so_far_gives_the_live_state(tmp_path: Path) -> None:
    one = full(tmp_path)
    states: list[dict[str, Any]] = []
    one.session.add_listener(lambda _: states.append(full_state(one.session)))
    first = len(read_lines(one.log))
    one.ask("And Dan.")
    assert len(states) > 8
    lines = read_lines(one.log)[first:]
    for at, (line, live) in enumerate(zip(lines, states, strict=True)):
        if "more" not in line:  # listeners see the state after a group
            assert fold_log(cut_after(one.log, first + at + 1)).describe() == live


def test_a_session_that_another_holds_is_refused(tmp_path: Path) -> None:
    one = full(tmp_path)
    with pytest.raises(LogLocked):
        load_session(one.log, options=fast_options())


def test_a_root_that_cannot_be_made_releases_the_log(tmp_path: Path) -> None:
    log = tmp_path / "s.jsonl"
    with pytest.raises(LogWriteError):
        load_session(log, options=fast_options(disk=FailingDisk(fail_at=1, fault="ENOSPC")))
    load_session(log, options=fast_options())[1].close()


@pytest.mark.req("S0-28")
def test_agents_that_shared_the_roots_model_go_on_with_a_new_one(tmp_path: Path) -> None:
    one = full(tmp_path)
    new = ScriptModel(one.runtime.model.answers, name="new")  # type: ignore[union-attr]
    later = one.resume(new)
    assert {a.name: a.language_model for a in later.session.agents.values()} == {
        "main": "new",
        "Ann": "new",
        "Bob": "new",
        "Cid": "play",
        "Amy": "new",
    }
    later.ask("And Dan.")
    assert later.agent("Dan")._language_model == "new"
    assert full_state(later.resume(new).session) == full_state(later.session)


@pytest.mark.req("S0-28")
def test_without_a_model_the_one_of_the_log_is_asked_for_by_name(tmp_path: Path) -> None:
    one = full(tmp_path)
    asked: list[str] = []

    def models(name: str) -> Any:
        asked.append(name)
        return one.runtime.model

    one.session.close()
    later = Stage(
        *load_session(
            one.log,
            runtime=AgentRuntime(models=ModelSettings(resolver=models)),
            options=fast_options(),
        ),
        one.runtime,
    )
    assert later.ask("And Dan.") == "Done too."
    assert asked[0] == "play"


def test_a_model_that_nobody_knows_is_named(tmp_path: Path) -> None:
    one = full(tmp_path)
    one.session.close()
    root, _ = load_session(one.log, options=fast_options())
    with pytest.raises(ConfigError, match="play"):
        Stage(root, root.session, one.runtime).ask("And Dan.")


def test_the_system_prompt_of_an_existing_root_stays(tmp_path: Path) -> None:
    one = full(tmp_path)
    one.session.close()
    later = resume(one.log, one.runtime.model, system_prompt="You are another.", name="other")
    assert later.root.transcript[0]["content"] == "You are main."
    assert later.root.name == "main"
