"""What agents know of files: what their contexts hold, and nobody writes over anything else."""

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
from tests.unit.world.files.knowing import (
    call,
    call_message,
    edit,
    filing,
    read,
    results,
    world,
    write,
)


def known(one: Stage, agent: str = "main") -> dict[str, str]:
    return dict(one.runtime.world.file_states.find_known_hashes(one.agent(agent)))


def changed(one: Stage) -> dict[str, str | None]:
    return dict(one.runtime.world.file_states.find_changed(one.root))


def settled() -> None:
    """Wait until a file that changed now would have another time."""
    time.sleep(0.12)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files/a.txt"
    path.parent.mkdir()
    path.write_text("one\n")
    return path


@pytest.mark.req("S4-43")
def test_of_two_that_read_and_write_the_second_is_refused(tmp_path: Path, file: Path) -> None:
    one = filing(
        tmp_path,
        main=[
            call_message(read("a.txt", "c1")),
            call_message(
                call("task", "c2", name="b", instructions="You are b.", prompt="Change it.")
            ),
            call_message(write("a.txt", "mine\n", "c3")),
            call_message(read("a.txt", "c4")),
            call_message(write("a.txt", "both\n", "c5")),
            "Done.",
        ],
        b=[call_message(read("a.txt")), call_message(write("a.txt", "theirs\n")), "Changed."],
    )
    assert one.ask("Go.") == "Done."
    refused = one.result("c3")
    assert refused["is_error"]
    assert "a.txt was changed since you read it" in refused["content"]
    assert "read it again" in refused["content"]
    assert not one.result("c5").get("is_error")
    assert file.read_text() == "both\n"
    check_log(one.log)


@pytest.mark.req("S4-43")
def test_an_edit_is_refused_as_a_write_is(tmp_path: Path, file: Path) -> None:
    def meanwhile(request: Any) -> Message:
        file.write_text("one\nand two\n")
        return call_message(edit("a.txt", "one", "1"))

    one = filing(tmp_path, main=[call_message(read("a.txt")), meanwhile, "Done."])
    one.ask("Go.")
    assert "was changed since you read it" in results(one)[1]
    assert file.read_text() == "one\nand two\n"


@pytest.mark.req("S4-43")
def test_a_subagent_begins_with_nothing(tmp_path: Path, file: Path) -> None:
    one = filing(
        tmp_path,
        main=[
            call_message(read("a.txt")),
            call_message(call("task", "c2", name="b", instructions="You are b.", prompt="Write.")),
            "Done.",
        ],
        b=[call_message(write("a.txt", "x\n")), "Tried."],
    )
    one.ask("Go.")
    assert "you have not read it" in results(one, "b")[0]
    assert known(one, "b") == {}


@pytest.mark.req("S4-41")
def test_what_is_known_can_be_read_by_all(tmp_path: Path, file: Path) -> None:
    made = call_message(read("a.txt", "c1"), write("sub/b.txt", "two\n", "c2"))
    one = filing(tmp_path, main=[made, "Done."])
    one.ask("Go.")
    assert known(one) == {"a.txt": hash_of(b"one\n"), "sub/b.txt": hash_of(b"two\n")}


def test_a_write_in_the_same_message_was_made_without_what_is_read(
    tmp_path: Path, file: Path
) -> None:
    made = call_message(read("a.txt", "c1"), write("a.txt", "blind\n", "c2"))
    one = filing(tmp_path, main=[made, "Done."])
    one.ask("Go.")
    assert "call this after the result" in results(one)[1]
    assert file.read_text() == "one\n"


def test_own_changes_in_the_same_message_are_known(tmp_path: Path, file: Path) -> None:
    made = [
        call_message(read("a.txt")),
        call_message(edit("a.txt", "one", "1", "c1"), edit("a.txt", "1", "uno", "c2")),
        call_message(write("b.txt", "new\n", "c1"), edit("b.txt", "new", "newer", "c2")),
        call_message(write("b.txt", "last\n", "c1"), write("b.txt", "really\n", "c2")),
    ]
    one = filing(tmp_path, main=[*made, "Done."])
    one.ask("Go.")
    assert file.read_text() == "uno\n"
    assert (file.parent / "b.txt").read_text() == "really\n"
    assert known(one)["b.txt"] == hash_of(b"really\n")


def test_what_is_under_way_is_known_to_those_who_look(tmp_path: Path, file: Path) -> None:
    seen: list[dict[str, str]] = []

    @tool
    async def look(caller: ToolContext) -> str:
        """Look at what the caller knows."""
        seen.append(dict(caller.agent.runtime.world.file_states.find_known_hashes(caller.agent)))
        return "seen"

    made = call_message(read("a.txt", "c1"), write("b.txt", "b", "c2"), call("look", "c3"))
    one = filing(tmp_path, main=[made, "Done."])
    one.runtime.world.tools["look"] = look
    one.ask("Go.")
    assert seen == [{"a.txt": hash_of(b"one\n"), "b.txt": hash_of(b"b")}]


def test_it_is_the_same_after_a_resume(tmp_path: Path, file: Path) -> None:
    script = script_model(
        main=[call_message(read("a.txt")), "Read.", call_message(write("a.txt", "two\n")), "Done."]
    )
    one = filing(tmp_path, script)
    one.ask("Read it.")
    before = known(one)
    one.runtime = AgentRuntime(model=script, world=world(file.parent))
    again = one.resume()
    assert known(again) == before == {"a.txt": hash_of(b"one\n")}
    again.ask("Now write it.")
    assert file.read_text() == "two\n"


def test_a_file_that_was_changed_before_a_resume_is_not_overwritten(
    tmp_path: Path, file: Path
) -> None:
    script = script_model(
        main=[call_message(read("a.txt")), "Read.", call_message(write("a.txt", "two\n")), "Done."]
    )
    one = filing(tmp_path, script)
    one.ask("Read it.")
    file.write_text("theirs\n")
    again = one.resume()
    again.ask("Now write it.")
    assert "was changed since" in results(again)[1]
    assert file.read_text() == "theirs\n"


def test_what_a_compaction_drops_is_known_no_more(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Read."])
    one.ask("Read it.")
    assert known(one)
    context = one.session.context(one.root.agent_id)
    kept = [Segment(start=0, stop=2), Segment(start=len(context) - 1, stop=len(context))]
    one.session.append(
        TranscriptEdited(agent_id=one.root.agent_id, segments=kept, reason="compaction")
    )
    assert known(one) == {}
    one.session.append(  # as many messages as before: it is no matter of counting
        TranscriptEdited(agent_id=one.root.agent_id, segments=[Segment(start=0, stop=3)])
    )
    assert known(one) == {}


def test_a_fork_knows_what_its_context_holds(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Read."])
    one.ask("Read it.")
    fork = SmartAgent(one.session, init_prompt=one.root.transcript, runtime=one.runtime)
    log_birth(fork, one.root.state.birth, "fork", "subagent")
    assert known(one, "fork") == known(one) == {"a.txt": hash_of(b"one\n")}


def test_two_sessions_in_one_world_know_each_their_own(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Read."])
    one.ask("Read it.")
    (tmp_path / "other").mkdir()
    runtime = AgentRuntime(model=script_model(main=["Hi."]), world=one.runtime.world)
    other = filing(tmp_path / "other")
    other.root.runtime = runtime
    assert other.root.agent_id == one.root.agent_id
    assert dict(one.runtime.world.file_states.find_known_hashes(other.root)) == {}
    assert known(one)


def test_who_saw_a_part_may_edit_but_not_write_anew(tmp_path: Path, file: Path) -> None:
    file.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    made = [
        call_message(read("a.txt", offset=1, limit=4)),
        call_message(write("a.txt", "short\n")),
        call_message(edit("a.txt", "line 9", "LINE 9")),
        call_message(write("a.txt", "short\n")),
    ]
    one = filing(tmp_path, main=[*made, "Done."])
    one.ask("Go.")
    assert "only a part" in results(one)[1]
    assert results(one)[2] == "Edited a.txt: 1 replaced at line 9"
    assert "only a part" in results(one)[3]


def test_who_saw_all_parts_saw_all(tmp_path: Path, file: Path) -> None:
    file.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    made = [
        call_message(read("a.txt", "c1", offset=6), read("a.txt", "c2", limit=5)),
        call_message(write("a.txt", "short\n")),
    ]
    one = filing(tmp_path, main=[*made, "Done."])
    one.ask("Go.")
    assert file.read_text() == "short\n"


class Clerk(DumbAgent):
    """An agent that acts in code: its results are in no transcript."""

    async def answer(self, heard: str) -> str:
        said = []
        for action in (read("a.txt"), write("a.txt", "code\n"), edit("a.txt", "code", "done")):
            caller = ToolContext(self, self.state.birth)
            result = await self.runtime.world.call_tool(action.function, caller)
            said.append(text_of(result.content))
        return "\n".join(said)


register_agent_class("test-clerk")(Clerk)


def test_an_agent_that_acts_in_code_knows_what_it_read(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path)
    clerk = Clerk(one.session, runtime=one.runtime)
    log_birth(clerk, one.root.state.birth, "clerk", "subagent")
    said = asyncio.run(clerk.response("Go."))
    assert said.endswith("Edited a.txt: 1 replaced at line 1")
    assert file.read_text() == "done\n"


@pytest.mark.req("S4-42")
def test_changed_files_are_those_with_another_content(tmp_path: Path, file: Path) -> None:
    made = call_message(
        read("a.txt", "c1"), write("b.txt", "b\n", "c2"), write("c.txt", "c\n", "c3")
    )
    one = filing(tmp_path, main=[made, "Done."])
    one.ask("Go.")
    assert changed(one) == {}
    file.write_text("eno\n")
    (file.parent / "b.txt").unlink()
    os.utime(file.parent / "c.txt", ns=(1, 1))
    assert changed(one) == {"a.txt": hash_of(b"eno\n"), "b.txt": None}
    file.write_text("one\n")
    assert changed(one) == {"b.txt": None}


def test_a_change_of_the_same_size_and_time_is_seen(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    settled()
    assert changed(one) == {}
    before = file.stat()
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed(one) == {"a.txt": hash_of(b"two\n")}


def test_a_change_just_after_a_look_is_seen(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    for n in range(50):
        file.write_text(f"{n:03}\n")
        assert changed(one) == {"a.txt": hash_of(b"%03d\n" % n)}


def test_what_looks_the_same_is_not_read_again(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    settled()
    assert changed(one) == {}
    looks = one.runtime.world.file_states._checks
    [look] = looks.values()
    assert changed(one) == {}
    assert [*looks.values()] == [look]
    assert next(iter(looks.values())) is look


def test_a_file_that_grew_too_large_or_became_something_else_has_changed(
    tmp_path: Path, file: Path
) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    os.truncate(file, MAX_FILE_BYTES + 1)
    assert changed(one) == {"a.txt": ""}
    file.unlink()
    os.mkfifo(file)
    assert changed(one) == {"a.txt": None}


def test_a_world_without_a_folder_looks_at_nothing(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    file.unlink()
    assert LocalWorld().file_states.find_changed(one.root) == {}
    assert dict(LocalWorld().file_states.find_known_hashes(one.root)) == known(one)
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
def test_what_is_not_well_formed_says_nothing(meta: Any) -> None:
    assert list(iter_read_states(Message("tool", [TextPart("x", meta)]))) == []


@pytest.mark.parametrize("seen", [1, "x", [[1]], [["a", "b"]], [None], {}, [[1, float("inf")]]])
def test_lines_that_cannot_be_read_were_not_seen(seen: Any) -> None:
    meta = {"files": {"a": "h"}, "seen": {"a": seen}, "lines": {"a": 9}}
    [(_, found)] = iter_read_states(Message("tool", [TextPart("x", meta)]))
    assert found.seen == ()


def test_only_results_of_tools_say_what_is_known() -> None:
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
def test_windows_join_to_what_they_cover(spans: list[tuple[int, int]]) -> None:
    seen = FileReadState("h", (), 20)
    for span in spans:
        seen = FileReadState("h", (span,), 20).with_earlier(seen)
    covered = {n for first, last in spans for n in range(first, last + 1)}
    shown = {n for first, last in seen.seen or () for n in range(first, last + 1)}
    assert (seen.seen is None) == (covered == {*range(1, 21)})
    assert seen.seen is None or shown == covered


def test_what_is_known_of_a_part_survives_the_log() -> None:
    part = FileReadState("h", ((1, 4), (8, 9)), 20)
    [(path, again)] = iter_read_states(Message("tool", [TextPart("x", meta_of("a", part))]))
    assert (path, again) == ("a", part)


def test_another_content_begins_anew() -> None:
    assert FileReadState("new", ((1, 2),), 9).with_earlier(FileReadState("old")) == FileReadState(
        "new", ((1, 2),), 9
    )
    assert FileReadState("same", ((1, 2),), 9).with_earlier(FileReadState("same")) == FileReadState(
        "same"
    )


def test_a_long_context_is_read_once(tmp_path: Path, file: Path) -> None:
    one = filing(tmp_path, main=[call_message(read("a.txt")), "Done."])
    one.ask("Go.")
    files = one.runtime.world.file_states
    state = files._update_agent_files(one.root)
    position = state.position
    assert position == len(one.session.context(one.root.agent_id))
    one.root.harken("More.")
    assert files._update_agent_files(one.root) is state
    assert state.position == position + 1


def test_a_caller_that_is_nobody_knows_nothing(tmp_path: Path, file: Path) -> None:
    writing = world(file.parent).tools["write"]
    arguments = {"path": "new.txt", "content": "x"}
    assert isinstance(asyncio.run(writing.run(arguments)), list)
    assert (file.parent / "new.txt").read_text() == "x"
