"""Commits made while calls of one message end one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.checkpointer import Checkpointer
from harken.agents.runtime import AgentRuntime
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.store.memory import MemoryStore
from tests.agent_kit import open_stage, script_model


@pytest.mark.parametrize("order", ["132", "312", "213", "321"])
@pytest.mark.parametrize("commits_after", [1, 2, 3])
def test_results_that_come_in_any_order_are_committed_once(
    tmp_path: Path, order: str, commits_after: int
) -> None:
    """A commit may be made when a later call has its result and an earlier one has none."""
    store = MemoryStore()
    checkpoints = Checkpointer(store=store)
    model = script_model(main=["Hello.", "-", "Done."])
    runtime = AgentRuntime(model=model, checkpoints=checkpoints)
    scene = open_stage(tmp_path, model, runtime=runtime)
    scene.ask("Hi.")
    session, root = scene.session, scene.root.agent_id
    made = [{"id": f"c{n}", "function": {"name": "look", "arguments": "{}"}} for n in (1, 2, 3)]
    session.log_transcript_entry(root, {"role": "user", "content": "Look."})
    session.log_transcript_entry(root, {"role": "assistant", "tool_calls": made})
    for count, number in enumerate(order, start=1):
        result = {"role": "tool", "tool_call_id": f"c{number}", "name": "look", "content": number}
        session.log_transcript_entry(root, result)
        if count == commits_after:
            checkpoints.commit_pending(session, root, "explicit")
    assert scene.ask() == "Done."
    checkpoints.commit_pending(session, root, "session_end")
    ctx = CommitId(scene.root.state.commit_id or "")
    committed = [(m.role, text_of(m.content)) for m in materialize(store, ctx).messages]
    assert committed == [(m.role, text_of(m.content)) for m in session.context(root)]
