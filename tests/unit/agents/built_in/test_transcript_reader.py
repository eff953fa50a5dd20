"""Messages that hooks are asked about are found in the transcript, in whatever order they came."""

from __future__ import annotations

from pathlib import Path

from harken.agents.built_in.transcript_reader import entry_at
from tests.agent_kit import open_stage, script_model


def test_a_result_is_found_though_a_later_call_ended_first(tmp_path: Path) -> None:
    stage = open_stage(tmp_path, script_model(main=[]))
    session, root = stage.session, stage.root.agent_id
    made = [{"id": f"c{n}", "function": {"name": "look", "arguments": "{}"}} for n in (1, 2)]
    session.log_transcript_entry(root, {"role": "user", "content": "Look."})
    session.log_transcript_entry(root, {"role": "assistant", "tool_calls": made})
    second, first = [
        session.log_transcript_entry(
            root, {"role": "tool", "tool_call_id": id_, "name": "look", "content": id_}
        )
        for id_ in ("c2", "c1")
    ]
    for message in (first, second):
        entry = entry_at(stage.root, message)
        assert entry is not None
        assert entry.message_id == message
    assert entry_at(stage.root, "msg_999") is None
