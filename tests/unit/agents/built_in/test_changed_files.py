"""The hook that tells an agent which of the files that it knows were changed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from harken import AgentRuntime
from harken.agents.built_in.changed_files import ChangedFiles, changed_files_text
from harken.world.files.read_state import KnownFiles
from tests.agent_kit import Stage, call, call_message, check_log, script_model
from tests.unit.world.files.agent_file_kit import file_stage, file_world, read_call, write_call


def watched(tmp_path: Path, **parts: object) -> Stage:
    one = file_stage(tmp_path, **parts)  # type: ignore[arg-type]
    ChangedFiles(one.session, runtime=one.runtime).install(one.root)
    return one


def heard_of_changes(one: Stage, agent: str = "main") -> list[str]:
    return [text for text in one.user_messages(agent) if text.startswith("[hook changed-files]")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files/a.txt"
    path.parent.mkdir()
    path.write_text("one\n")
    return path


@pytest.mark.req("S4-42")
def test_a_change_is_told_once(tmp_path: Path, file: Path) -> None:
    one = watched(
        tmp_path, main=[call_message(read_call("a.txt")), "Read.", "I see.", "Yes.", "Again."]
    )
    one.ask("Read it.")
    assert heard_of_changes(one) == []
    file.write_text("two\n")
    one.ask("Go on.")
    said = "No longer what you last saw: a.txt. Read again what you still need."
    assert heard_of_changes(one) == [f"[hook changed-files]: {said}"]
    one.ask("And on.")
    assert len(heard_of_changes(one)) == 1
    file.write_text("three\n")
    one.ask("Once more.")
    assert len(heard_of_changes(one)) == 2
    check_log(one.log)


@pytest.mark.req("S4-42")
def test_a_change_during_a_turn_is_told_with_the_next_result(tmp_path: Path, file: Path) -> None:
    def meanwhile(request: object) -> object:
        file.unlink()
        return call_message(call("ls", "c2"))

    one = watched(tmp_path, main=[call_message(read_call("a.txt")), meanwhile, "Done."])
    one.ask("Go.")
    assert len(heard_of_changes(one)) == 1
    assert "a.txt (gone)" in heard_of_changes(one)[0]


def test_files_are_looked_at_once_a_question(tmp_path: Path, file: Path) -> None:
    class Counted(KnownFiles):
        looks = 0

        def find_changed(self, agent: object) -> Mapping[str, str | None]:
            self.looks += 1
            return super().find_changed(agent)

    one = watched(tmp_path, main=[call_message(read_call("a.txt")), "Read.", "I see."])
    known = Counted(file.parent)
    one.runtime.world._file_states = known
    one.ask("Read it.")
    file.write_text("two\n")
    before = known.looks
    one.ask("Go on.")
    assert len(heard_of_changes(one)) == 1
    assert known.looks == before + 1


@pytest.mark.req("S4-42")
def test_own_changes_are_not_told(tmp_path: Path, file: Path) -> None:
    made = [
        call_message(read_call("a.txt")),
        call_message(write_call("a.txt", "two\n", "c1"), write_call("b.txt", "x", "c2")),
    ]
    one = watched(tmp_path, main=[*made, "Done.", "Yes."])
    one.ask("Go.")
    one.ask("And?")
    assert heard_of_changes(one) == []


def test_changes_of_a_subagent_are_told_and_it_has_a_watch_of_its_own(
    tmp_path: Path, file: Path
) -> None:
    asks = call_message(
        call("task", "c2", name="b", instructions="You are b.", prompt="Change it.")
    )
    one = watched(
        tmp_path,
        main=[call_message(read_call("a.txt")), asks, "Done."],
        b=[
            call_message(read_call("a.txt")),
            call_message(write_call("a.txt", "two\n")),
            "Changed.",
        ],
    )
    one.ask("Go.")
    assert len(heard_of_changes(one)) == 1
    assert heard_of_changes(one, "b") == []
    assert len(one.session.agent(one.id_of("b")).hooks) == 1


def test_who_has_read_again_hears_no_more(tmp_path: Path, file: Path) -> None:
    one = watched(
        tmp_path,
        main=[call_message(read_call("a.txt")), "1", call_message(read_call("a.txt")), "2", "3"],
    )
    one.ask("Read it.")
    file.write_text("two\n")
    one.ask("Read it again.")
    one.ask("Anything new?")
    assert len(heard_of_changes(one)) == 1
    assert one.session.agent(one.id_of("changed-files")).saved_state is None


@pytest.mark.req("S4-42")
def test_a_resume_repeats_nothing_and_misses_nothing(tmp_path: Path, file: Path) -> None:
    script = script_model(
        main=[call_message(read_call("a.txt"), write_call("b.txt", "b\n", "c2")), "1", "2", "3"]
    )
    one = file_stage(tmp_path, script)
    ChangedFiles(one.session, runtime=one.runtime).install(one.root)
    one.ask("Read it.")
    file.write_text("two\n")
    one.ask("Go on.")
    one.runtime = AgentRuntime(model=script, world=file_world(file.parent))
    (file.parent / "b.txt").write_text("changed while nobody ran\n")
    again = one.resume()
    again.ask("Go on.")
    told = heard_of_changes(again)
    assert len(told) == 2
    assert "a.txt" in told[0]
    assert "b.txt" in told[1]
    assert "a.txt" not in told[1]


@pytest.mark.parametrize("saved", [3, {"reported": 3}, {}, ["x"]])
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, saved: object) -> None:
    one = watched(tmp_path)
    hook = one.agent("changed-files")
    assert isinstance(hook, ChangedFiles)
    hook.load_saved_state(saved)
    assert hook.dump_state() is None


def test_many_files_are_counted_and_odd_names_are_one_line() -> None:
    said = changed_files_text([(f"{n}.txt", "h") for n in range(30)])
    assert "19.txt, and 10 more." in said
    assert "\n" not in changed_files_text([("a\nb", None)])
