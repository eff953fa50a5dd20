"""A store that takes no commits stops no agent: the log is the truth, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime
from harken.agents.checkpointer import Checkpointer, Tell
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.load import load_session
from harken.agents.runtime import Observers
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.errors import StoreError
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    fast_options,
    open_stage,
    script_model,
)


class FullStore(MemoryStore):
    """A store that takes nothing while it is full."""

    full = True

    def write(self, batch: WriteBatch) -> None:
        if self.full:
            raise StoreError("the store", "is full")
        super().write(batch)


@pytest.mark.req("D-01", "S2-28")
def test_a_store_that_refuses_is_told_of_once_stops_nobody_and_loses_nothing(
    tmp_path: Path,
) -> None:
    store, told = FullStore(), list[str]()
    task = call("task", name="helper", prompt="do it")
    end = call("terminate", "c2", name="helper")
    model = script_model(
        main=["one", call_message(task), call_message(end), "two", "three"], helper=["did it"]
    )
    scene = begin(tmp_path, model, store, told.append)
    assert scene.ask("first") == "one"
    assert scene.ask("second") == "two"
    assert scene.result("c1")["content"] == "did it"
    assert scene.result("c2")["content"] == "Terminated subagent: helper"
    assert told == ["commits are not being kept: the store: is full (the log has everything)"]
    with pytest.raises(StoreError, match="is full"):
        checkpoint_agent(scene.root)
    store.full = False
    assert scene.ask("third") == "three"
    assert told[1:] == ["commits are being kept again"]
    assert kept(store, scene) == context(scene)


def test_what_nobody_listens_to_is_a_warning_of_the_standard_library(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(tmp_path, script_model(main=["one"]), FullStore()).ask("first")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "commits are not being kept" in caplog.text


def test_a_session_that_a_full_store_did_not_take_is_committed_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    store, told = FullStore(), list[str]()
    scene = begin(tmp_path, script_model(main=["one"]), store, told.append)
    scene.ask("first")
    still = resume(scene)
    assert still.root.state.commit_id is None
    store.full = False
    again = resume(still)
    assert kept(store, again) == context(again)
    assert [line.partition(":")[0] for line in told] == [
        "commits are not being kept",
        "commits are being kept again",
    ]


def begin(
    folder: Path, model: ScriptModel, store: MemoryStore, on_notice: Tell | None = None
) -> Stage:
    checkpoints = Checkpointer(store=store)
    runtime = AgentRuntime(
        model=model, checkpoints=checkpoints, observers=Observers(on_notice=on_notice)
    )
    return open_stage(folder, model, runtime=runtime)


def resume(scene: Stage) -> Stage:
    scene.session.close()
    root, session = load_session(scene.log, runtime=scene.runtime, options=fast_options())
    return Stage(root, session, scene.runtime)


def context(scene: Stage) -> list[str]:
    return texts(scene.session.context(scene.root.agent_id))


def kept(store: MemoryStore, scene: Stage) -> list[str]:
    """What the last commit of the root stands for."""
    return texts(materialize(store, CommitId(str(scene.root.state.commit_id))).messages)


def texts(messages: Any) -> list[str]:
    return [text_of(message.content) for message in messages]
