"""Read state: the files that a context contains. Agents overwrite only contents that they read."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken import (
    AgentRuntime,
    DumbAgent,
    LocalWorld,
    SmartAgent,
    register_agent_class,
    tool,
)
from harken.agents.agent import log_birth
from harken.core.events import Segment, TranscriptEdited
from harken.core.messages import Message, TextPart, text_of
from harken.world.files.read_state import FileReadState, KnownFiles, iter_read_states, meta_of
from harken.world.files.regular_file import MAX_FILE_BYTES, hash_of
from harken.world.tool import ToolContext
from tests.agent_kit import Stage, check_log, script_model
from tests.unit.world.files.agent_file_kit import (
    call,
    call_message,
    edit_call,
    file_stage,
    file_world,
    read_call,
    tool_results,
    write_call,
)


def read_state(stage: Stage, agent: str = "main") -> dict[str, str]:
    return dict(stage.runtime.world.file_states.find_known_hashes(stage.agent(agent)))


def changed_files(stage: Stage) -> dict[str, str | None]:
    return dict(stage.runtime.world.file_states.find_changed(stage.root))


def wait_for_next_mtime() -> None:
    """Wait until a change of a file would have another modification time."""
    time.sleep(0.12)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files/a.txt"
    path.parent.mkdir()
    path.write_text("one\n")
    return path


@pytest.mark.req("S4-43")
def test_second_writer_after_two_reads_is_rejected(tmp_path: Path, file: Path) -> None:
    stage = file_stage(
        tmp_path,
        main=[
            call_message(read_call("a.txt", "c1")),
            call_message(
                call("task", "c2", name="b", instructions="You are b.", prompt="Change it.")
            ),
            call_message(write_call("a.txt", "mine\n", "c3")),
            call_message(read_call("a.txt", "c4")),
            call_message(write_call("a.txt", "both\n", "c5")),
            "Done.",
        ],
        b=[
            call_message(read_call("a.txt")),
            call_message(write_call("a.txt", "theirs\n")),
            "Changed.",
        ],
    )
    assert stage.ask("Go.") == "Done."
    refused = stage.result("c3")
    assert refused["is_error"]
    assert "a.txt was changed since you read it" in refused["content"]
    assert "read it again" in refused["content"]
    assert not stage.result("c5").get("is_error")
    assert file.read_text() == "both\n"
    check_log(stage.log)


@pytest.mark.req("S4-43")
def test_edit_is_rejected_like_a_write(tmp_path: Path, file: Path) -> None:
    def meanwhile(request: Any) -> Message:
        file.write_text("one\nand two\n")
        return call_message(edit_call("a.txt", "one", "1"))

    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), meanwhile, "Done."])
    stage.ask("Go.")
    assert "was changed since you read it" in tool_results(stage)[1]
    assert file.read_text() == "one\nand two\n"


@pytest.mark.req("S4-43")
def test_subagent_starts_without_read_state(tmp_path: Path, file: Path) -> None:
    stage = file_stage(
        tmp_path,
        main=[
            call_message(read_call("a.txt")),
            call_message(call("task", "c2", name="b", instructions="You are b.", prompt="Write.")),
            "Done.",
        ],
        b=[call_message(write_call("a.txt", "x\n")), "Tried."],
    )
    stage.ask("Go.")
    assert "you have not read it" in tool_results(stage, "b")[0]
    assert read_state(stage, "b") == {}


@pytest.mark.req("S4-41")
def test_read_state_is_visible_to_other_agents(tmp_path: Path, file: Path) -> None:
    tool_calls = call_message(read_call("a.txt", "c1"), write_call("sub/b.txt", "two\n", "c2"))
    stage = file_stage(tmp_path, main=[tool_calls, "Done."])
    stage.ask("Go.")
    assert read_state(stage) == {"a.txt": hash_of(b"one\n"), "sub/b.txt": hash_of(b"two\n")}


def test_write_in_the_message_of_the_read_is_rejected(tmp_path: Path, file: Path) -> None:
    tool_calls = call_message(read_call("a.txt", "c1"), write_call("a.txt", "blind\n", "c2"))
    stage = file_stage(tmp_path, main=[tool_calls, "Done."])
    stage.ask("Go.")
    assert "call this after the result" in tool_results(stage)[1]
    assert file.read_text() == "one\n"


def test_own_changes_in_the_same_message_are_known(tmp_path: Path, file: Path) -> None:
    tool_calls = [
        call_message(read_call("a.txt")),
        call_message(edit_call("a.txt", "one", "1", "c1"), edit_call("a.txt", "1", "uno", "c2")),
        call_message(write_call("b.txt", "new\n", "c1"), edit_call("b.txt", "new", "newer", "c2")),
        call_message(write_call("b.txt", "last\n", "c1"), write_call("b.txt", "really\n", "c2")),
    ]
    stage = file_stage(tmp_path, main=[*tool_calls, "Done."])
    stage.ask("Go.")
    assert file.read_text() == "uno\n"
    assert (file.parent / "b.txt").read_text() == "really\n"
    assert read_state(stage)["b.txt"] == hash_of(b"really\n")


def test_pending_reads_are_visible_in_the_read_state(tmp_path: Path, file: Path) -> None:
    observed: list[dict[str, str]] = []

    @tool
    async def list_read_files(caller: ToolContext) -> str:
        """List the read state of the caller."""
        observed.append(
            dict(caller.agent.runtime.world.file_states.find_known_hashes(caller.agent))
        )
        return "seen"

    tool_calls = call_message(
        read_call("a.txt", "c1"), write_call("b.txt", "b", "c2"), call("look", "c3")
    )
    stage = file_stage(tmp_path, main=[tool_calls, "Done."])
    stage.runtime.world.tools["look"] = list_read_files
    stage.ask("Go.")
    assert observed == [{"a.txt": hash_of(b"one\n"), "b.txt": hash_of(b"b")}]


def test_read_state_is_the_same_after_a_resume(tmp_path: Path, file: Path) -> None:
    script = script_model(
        main=[
            call_message(read_call("a.txt")),
            "Read.",
            call_message(write_call("a.txt", "two\n")),
            "Done.",
        ]
    )
    stage = file_stage(tmp_path, script)
    stage.ask("Read it.")
    before = read_state(stage)
    stage.runtime = AgentRuntime(model=script, world=file_world(file.parent))
    resumed = stage.resume()
    assert read_state(resumed) == before == {"a.txt": hash_of(b"one\n")}
    resumed.ask("Now write it.")
    assert file.read_text() == "two\n"


def test_file_changed_before_a_resume_is_not_overwritten(tmp_path: Path, file: Path) -> None:
    script = script_model(
        main=[
            call_message(read_call("a.txt")),
            "Read.",
            call_message(write_call("a.txt", "two\n")),
            "Done.",
        ]
    )
    stage = file_stage(tmp_path, script)
    stage.ask("Read it.")
    file.write_text("theirs\n")
    resumed = stage.resume()
    resumed.ask("Now write it.")
    assert "was changed since" in tool_results(resumed)[1]
    assert file.read_text() == "theirs\n"


def test_read_state_forgets_messages_dropped_by_a_compaction(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Read."])
    stage.ask("Read it.")
    assert read_state(stage)
    context = stage.session.context(stage.root.agent_id)
    retained = [Segment(start=0, stop=2), Segment(start=len(context) - 1, stop=len(context))]
    stage.session.append(
        TranscriptEdited(agent_id=stage.root.agent_id, segments=retained, reason="compaction")
    )
    assert read_state(stage) == {}
    stage.session.append(  # The number of messages stays the same.
        TranscriptEdited(agent_id=stage.root.agent_id, segments=[Segment(start=0, stop=3)])
    )
    assert read_state(stage) == {}


def test_fork_has_the_read_state_of_its_context(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Read."])
    stage.ask("Read it.")
    fork = SmartAgent(stage.session, init_prompt=stage.root.transcript, runtime=stage.runtime)
    log_birth(fork, stage.root.state.birth, "fork", "subagent")
    assert read_state(stage, "fork") == read_state(stage) == {"a.txt": hash_of(b"one\n")}


def test_two_sessions_in_one_world_have_separate_read_states(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Read."])
    stage.ask("Read it.")
    (tmp_path / "other").mkdir()
    runtime = AgentRuntime(model=script_model(main=["Hi."]), world=stage.runtime.world)
    second = file_stage(tmp_path / "other")
    second.root.runtime = runtime
    assert second.root.agent_id == stage.root.agent_id
    assert dict(stage.runtime.world.file_states.find_known_hashes(second.root)) == {}
    assert read_state(stage)


def test_partial_read_permits_an_edit_but_no_write(tmp_path: Path, file: Path) -> None:
    file.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    tool_calls = [
        call_message(read_call("a.txt", offset=1, limit=4)),
        call_message(write_call("a.txt", "short\n")),
        call_message(edit_call("a.txt", "line 9", "LINE 9")),
        call_message(write_call("a.txt", "short\n")),
    ]
    stage = file_stage(tmp_path, main=[*tool_calls, "Done."])
    stage.ask("Go.")
    assert "only a part" in tool_results(stage)[1]
    assert tool_results(stage)[2] == "Edited a.txt: 1 replaced at line 9"
    assert "only a part" in tool_results(stage)[3]


def test_reads_of_all_parts_permit_a_write(tmp_path: Path, file: Path) -> None:
    file.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    tool_calls = [
        call_message(read_call("a.txt", "c1", offset=6), read_call("a.txt", "c2", limit=5)),
        call_message(write_call("a.txt", "short\n")),
    ]
    stage = file_stage(tmp_path, main=[*tool_calls, "Done."])
    stage.ask("Go.")
    assert file.read_text() == "short\n"


class CodeAgent(DumbAgent):
    """An agent that acts in code. Its results are in no transcript."""

    async def answer(self, question: str) -> str:
        texts = []
        for action in (
            read_call("a.txt"),
            write_call("a.txt", "code\n"),
            edit_call("a.txt", "code", "done"),
        ):
            caller = ToolContext(self, self.state.birth)
            result = await self.runtime.world.call_tool(action.function, caller)
            texts.append(text_of(result.content))
        return "\n".join(texts)


register_agent_class("test-clerk")(CodeAgent)


def test_agent_that_acts_in_code_has_read_state(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path)
    clerk = CodeAgent(stage.session, runtime=stage.runtime)
    log_birth(clerk, stage.root.state.birth, "clerk", "subagent")
    answer = asyncio.run(clerk.response("Go."))
    assert answer.endswith("Edited a.txt: 1 replaced at line 1")
    assert file.read_text() == "done\n"


@pytest.mark.req("S4-42")
def test_changed_files_have_other_contents(tmp_path: Path, file: Path) -> None:
    tool_calls = call_message(
        read_call("a.txt", "c1"), write_call("b.txt", "b\n", "c2"), write_call("c.txt", "c\n", "c3")
    )
    stage = file_stage(tmp_path, main=[tool_calls, "Done."])
    stage.ask("Go.")
    assert changed_files(stage) == {}
    file.write_text("eno\n")
    (file.parent / "b.txt").unlink()
    os.utime(file.parent / "c.txt", ns=(1, 1))
    assert changed_files(stage) == {"a.txt": hash_of(b"eno\n"), "b.txt": None}
    file.write_text("one\n")
    assert changed_files(stage) == {"b.txt": None}


def test_change_with_the_same_size_and_time_is_detected(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    wait_for_next_mtime()
    assert changed_files(stage) == {}
    before = file.stat()
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed_files(stage) == {"a.txt": hash_of(b"two\n")}


def test_change_just_after_a_scan_is_detected(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    for n in range(50):
        file.write_text(f"{n:03}\n")
        assert changed_files(stage) == {"a.txt": hash_of(b"%03d\n" % n)}


def test_unchanged_metadata_avoids_a_second_read(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    wait_for_next_mtime()
    assert changed_files(stage) == {}
    looks = stage.runtime.world.file_states._checks
    [list_read_files] = looks.values()
    assert changed_files(stage) == {}
    assert [*looks.values()] == [list_read_files]
    assert next(iter(looks.values())) is list_read_files


def test_file_that_grew_too_large_or_changed_its_type_is_changed(
    tmp_path: Path, file: Path
) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    os.truncate(file, MAX_FILE_BYTES + 1)
    assert changed_files(stage) == {"a.txt": ""}
    file.unlink()
    os.mkfifo(file)
    assert changed_files(stage) == {"a.txt": None}


def test_world_without_a_folder_scans_nothing(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    file.unlink()
    assert LocalWorld().file_states.find_changed(stage.root) == {}
    assert dict(LocalWorld().file_states.find_known_hashes(stage.root)) == read_state(stage)
    assert isinstance(LocalWorld().file_states, KnownFiles)


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"files": 3},
        {"files": {"a": 3}},
        {"files": ["a"]},
        {"files": {"a": None}, "seen": 1},
    ],
)
def test_malformed_meta_is_ignored(meta: Any) -> None:
    assert list(iter_read_states(Message("tool", [TextPart("x", meta)]))) == []


@pytest.mark.parametrize(
    "shown_part", [1, "x", [[1]], [["a", "b"]], [None], {}, [[1, float("inf")]]]
)
def test_undecodable_lines_are_not_read(shown_part: Any) -> None:
    meta = {"files": {"a": "h"}, "seen": {"a": shown_part}, "lines": {"a": 9}}
    [(_, result)] = iter_read_states(Message("tool", [TextPart("x", meta)]))
    assert result.seen == ()


def test_only_tool_results_create_read_state() -> None:
    part = TextPart("x", {"files": {"a": "h"}})
    assert list(iter_read_states(Message("user", [part]))) == []
    assert list(iter_read_states(Message("assistant", [part]))) == []
    assert list(iter_read_states(Message("tool", [part]))) == [("a", FileReadState("h"))]


@given(
    spans=st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 9)).map(lambda s: (s[0], min(20, sum(s)))),
        max_size=8,
    )
)
def test_adjacent_windows_are_merged(spans: list[tuple[int, int]]) -> None:
    state = FileReadState("h", (), 20)
    for span in spans:
        state = FileReadState("h", (span,), 20).with_earlier(state)
    covered = {n for first, last in spans for n in range(first, last + 1)}
    output = {n for first, last in state.seen or () for n in range(first, last + 1)}
    assert (state.seen is None) == (covered == {*range(1, 21)})
    assert state.seen is None or output == covered


def test_partial_read_state_survives_the_log() -> None:
    part = FileReadState("h", ((1, 4), (8, 9)), 20)
    [(path, repeated)] = iter_read_states(Message("tool", [TextPart("x", meta_of("a", part))]))
    assert (path, repeated) == ("a", part)


def test_other_content_resets_the_read_state() -> None:
    assert FileReadState("new", ((1, 2),), 9).with_earlier(FileReadState("old")) == FileReadState(
        "new", ((1, 2),), 9
    )
    assert FileReadState("same", ((1, 2),), 9).with_earlier(FileReadState("same")) == FileReadState(
        "same"
    )


def test_long_context_is_read_once(tmp_path: Path, file: Path) -> None:
    stage = file_stage(tmp_path, main=[call_message(read_call("a.txt")), "Done."])
    stage.ask("Go.")
    files = stage.runtime.world.file_states
    state = files._update_agent_files(stage.root)
    position = state.position
    assert position == len(stage.session.context(stage.root.agent_id))
    stage.root.harken("More.")
    assert files._update_agent_files(stage.root) is state
    assert state.position == position + 1


def test_caller_without_agent_has_no_read_state(tmp_path: Path, file: Path) -> None:
    writing = file_world(file.parent).tools["write"]
    arguments = {"path": "new.txt", "content": "x"}
    assert isinstance(asyncio.run(writing.run(arguments)), list)
    assert (file.parent / "new.txt").read_text() == "x"
