"""The commits of subagents: those with a transcript from the start, and those that end."""

from pathlib import Path

import pytest

from harken import (
    SmartAgent,
)
from harken.agents.agent import log_birth
from harken.store.memory import MemoryStore
from tests.agent_kit import (
    call,
    call_message,
    run,
    script_model,
)
from tests.unit.agents.test_checkpointer import begin, chain, context, kept, shape


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


@pytest.mark.req("S2-22", "S2-24")
def test_an_agent_that_was_given_a_transcript_begins_its_chain_with_all_of_it(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one"], heir=["-", "two"]), store)
    scene.ask("first")
    given = scene.root.transcript[1:]
    heir = SmartAgent(scene.session, "You inherit.", given, runtime=scene.runtime)
    log_birth(heir, scene.root.state.birth, "heir", "subagent")
    run(heir.response("second"))
    commits = chain(store, scene, "heir")
    assert shape(commits[-2:]) == [("snapshot", "spawn", 3), ("delta", "turn_boundary", 2)]
    assert kept(store, scene, "heir") == kept(store, scene, "heir", "root")
    assert kept(store, scene, "heir") == context(scene, "heir")


@pytest.mark.req("S2-28")
def test_who_is_terminated_is_committed_first(tmp_path: Path, store: MemoryStore) -> None:
    task = call("task", name="helper", prompt="do it")
    model = script_model(
        main=[call_message(task), call_message(call("terminate", "c2", name="helper")), "done"],
        helper=["ok"],
    )
    scene = begin(tmp_path, model, store, turns_per_commit=None)
    scene.ask("go")
    assert shape(chain(store, scene, "helper")[-1:]) == [("delta", "session_end", 1)]
