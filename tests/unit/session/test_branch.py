"""A branch is a copy of a log up to a point, with the same ids, that goes on by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId, Origin
from harken.errors import (
    ConfigError,
    InvalidLog,
    LogCorrupted,
    LogError,
    LogNotFound,
    LogReadOnly,
    LogWriteError,
    NameNotFound,
)
from harken.session.branch import (
    branch,
    branch_with_edit,
    change_model,
    disarm_triggers,
    find_free_name,
    remove_hooks,
)
from harken.session.log.checksum import read_body
from harken.session.log.compress import compress_log
from harken.session.log.disk import RealDisk
from harken.session.log.origin import find_counted_origin
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.session.verify import verify
from tests.session_kit import (
    create_agent,
    log_tool_calls,
    log_user_message,
    new_session,
    read_lines,
    session_options,
)

ROOT = AgentId("agent_001")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a model call: `msg_002` asks, `msg_004` and its response are one group."""
    with new_session(tmp_path) as session:
        create_agent(session, name="main", language_model="m")
        log_user_message(session, ROOT, "Tea or coffee?")
        answer(session, "Coffee.")
        log_user_message(session, ROOT, "Why?")
        answer(session, "It is warm.")
    return session.path


def answer(session: Session, text: str) -> None:
    agent = session.agent(ROOT)
    count, hash_ = len(session.context(ROOT)), ""
    request = session.append(
        ev.LlmRequest(
            agent_id=ROOT, context=agent.segments(), count=count, context_hash=hash_, model="m"
        )
    )
    with session.group():
        entry = session.log_transcript_entry(ROOT, {"role": "assistant", "content": text})
        session.append(
            ev.LlmResponse(
                agent_id=ROOT, request=request, entry=entry, stop_reason="stop", cost_usd=0.5
            )
        )


def bodies(path: Path) -> list[bytes]:
    return [read_body(line) for line in path.read_bytes().splitlines(keepends=True)]


def texts(path: Path) -> list[str]:
    return [
        str(event.content) for event in iter_events(path) if isinstance(event, ev.TranscriptEntry)
    ]


def test_a_branch_at_the_end_has_all_events_and_an_origin(log: Path, tmp_path: Path) -> None:
    to = tmp_path / "b.jsonl"
    made = branch(log, to)
    assert bodies(to)[1:] == bodies(log)[1:]
    last = read_lines(log)[-1]
    assert made.origin == Origin("s", MessageId("msg_009"), last["sum"])
    first = json.loads(to.read_bytes().splitlines()[0])
    assert first["session_id"] == "b"
    assert first["origin"] == {"session": "s", "upto": "msg_009", "sum": last["sum"]}
    assert verify(to) == []
    assert oct(to.stat().st_mode)[-3:] == "600"


def test_a_branch_goes_on_with_the_next_ids(log: Path, tmp_path: Path) -> None:
    branch(log, tmp_path / "b.jsonl", "msg_002")
    before = log.read_bytes()
    with Session.load(tmp_path / "b.jsonl", options=session_options()) as session:
        assert log_user_message(session, ROOT, "And milk?") == "msg_003"
    assert texts(tmp_path / "b.jsonl") == ["Tea or coffee?", "And milk?"]
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    ("at", "before", "upto"),
    [
        ("msg_004", False, "msg_005"),
        ("msg_005", False, "msg_005"),
        ("msg_004", True, "msg_003"),
        ("msg_005", True, "msg_003"),
        ("msg_006", True, "msg_005"),
        ("msg_000", False, "msg_000"),
        ("msg_001", True, "msg_000"),
    ],
)
def test_a_point_in_a_group_is_moved_to_its_end_or_its_begin(
    log: Path, tmp_path: Path, at: str, before: bool, upto: str
) -> None:
    made = branch(log, tmp_path / "b.jsonl", at, before=before)
    assert made.origin.upto == upto == [*iter_events(made.path)][-1].message_id
    assert verify(made.path) == []


def test_a_branch_of_a_branch_names_the_log_that_had_the_events_first(
    log: Path, tmp_path: Path
) -> None:
    branch(log, tmp_path / "b.jsonl", "msg_005")
    with Session.load(tmp_path / "b.jsonl", options=session_options()) as session:
        log_user_message(session, ROOT, "Mine.")
    made = branch(tmp_path / "b.jsonl", tmp_path / "c.jsonl", "msg_002")
    assert made.origin == Origin("s", MessageId("msg_002"), read_lines(log)[2]["sum"])
    assert bodies(made.path)[1:] == bodies(log)[1:3]
    later = branch(tmp_path / "b.jsonl", tmp_path / "d.jsonl")
    assert (later.origin.session, later.origin.upto) == ("b", "msg_006")
    log.unlink()
    made = branch(tmp_path / "b.jsonl", tmp_path / "e.jsonl", "msg_002")
    assert (made.origin.session, made.origin.upto) == ("b", "msg_002")


def test_unknown_members_of_the_first_line_are_kept(tmp_path: Path) -> None:
    from harken.core.canonical import to_json_line
    from harken.session.log.checksum import seal

    start = {"event_type": "session_started", "message_id": "msg_000", "session_id": "s", "x": 1}
    path = tmp_path / "s.jsonl"
    path.write_bytes(seal(b"", to_json_line(start))[0])
    made = branch(path, tmp_path / "b.jsonl")
    assert read_lines(made.path)[0]["x"] == 1


def test_a_compressed_log_is_branched(log: Path, tmp_path: Path) -> None:
    expected = bodies(log)[1:]
    compress_log(log)
    branch(log, tmp_path / "b.jsonl")
    assert bodies(tmp_path / "b.jsonl")[1:] == expected
    assert not log.exists()


def test_a_log_that_is_being_written_is_branched(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        with session.group():
            log_user_message(session, ROOT, "not written yet")
            made = branch(session.path, tmp_path / "b.jsonl")
    assert texts(made.path) == []


def test_a_torn_line_and_a_missing_newline_are_no_obstacle(log: Path, tmp_path: Path) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    branch(log, tmp_path / "newline.jsonl")
    assert bodies(tmp_path / "newline.jsonl")[1:] == [
        read_body(line) for line in whole.splitlines(keepends=True)[1:]
    ]
    log.write_bytes(whole[:-40])
    made = branch(log, tmp_path / "torn.jsonl")
    assert made.origin.upto == "msg_007"  # an incomplete group does not count


def test_an_unknown_message_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(NameNotFound, match="msg_099.*msg_000 to msg_009"):
        branch(log, tmp_path / "b.jsonl", "msg_099")
    with pytest.raises(ConfigError, match="msg_000 is the first event"):
        branch(log, tmp_path / "b.jsonl", "msg_000", before=True)
    assert sorted(tmp_path.iterdir()) == [log]


def test_an_existing_session_is_not_replaced(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.jsonl"
    target.write_bytes(b"mine")
    with pytest.raises(LogWriteError, match="exists"):
        branch(log, target)
    assert target.read_bytes() == b"mine"
    branch(log, tmp_path / "packed.jsonl")
    compress_log(tmp_path / "packed.jsonl")
    with pytest.raises(LogWriteError, match="exists"):
        branch(log, tmp_path / "packed.jsonl")
    with pytest.raises(ConfigError, match=r"ends in \.jsonl"):
        branch(log, tmp_path / "b.txt")
    with pytest.raises(LogNotFound):
        branch(tmp_path / "none.jsonl", tmp_path / "c.jsonl")


def test_a_log_without_checksums_is_repaired_first(tmp_path: Path) -> None:
    log = tmp_path / "old.jsonl"
    log.write_text('{"event_type":"session_started","message_id":"msg_000","session_id":"old"}\n')
    with pytest.raises(LogReadOnly, match="repair"):
        branch(log, tmp_path / "b.jsonl")


def test_damage_before_the_point_is_reported_and_nothing_is_left(log: Path, tmp_path: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"Coffee", b"coffee"))
    with pytest.raises(LogCorrupted, match="checksum"):
        branch(log, tmp_path / "b.jsonl")
    assert sorted(tmp_path.iterdir()) == [log]
    branch(log, tmp_path / "b.jsonl", "msg_002")  # the damage comes later


def test_a_change_that_fails_leaves_nothing(log: Path, tmp_path: Path) -> None:
    def change(session: Session) -> None:
        log_user_message(session, ROOT, "half")
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        branch(log, tmp_path / "b.jsonl", change=change, options=session_options())
    assert sorted(tmp_path.iterdir()) == [log]


class FullDisk(RealDisk):
    """A disk that refuses the given operation, counted from 0."""

    def __init__(self, failing: int) -> None:
        self.operations = 0
        self._failing = failing

    def _count(self) -> None:
        self.operations += 1
        if self.operations > self._failing:
            raise OSError(28, "No space left on device")

    def write(self, fd: int, data: bytes) -> int:
        self._count()
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._count()
        super().sync(fd)


def test_a_disk_that_fails_at_any_operation_leaves_nothing(log: Path, tmp_path: Path) -> None:
    def change(session: Session) -> None:
        log_user_message(session, ROOT, "changed")

    for failing in range(20):
        disk = FullDisk(failing)
        options = session_options(disk=disk, durability="always")
        try:
            branch(log, tmp_path / "b.jsonl", change=change, options=options)
        except LogError:
            assert sorted(tmp_path.iterdir()) == [log]
        else:
            assert texts(tmp_path / "b.jsonl")[-1] == "changed"
            break
    assert failing >= 4


def test_files_of_a_killed_process_are_removed(log: Path, tmp_path: Path) -> None:
    stale = tmp_path / ".b.jsonl.999999999.partial"
    stale.write_bytes(b"half")
    branch(log, tmp_path / "b.jsonl")
    assert not stale.exists()


def test_a_log_that_changes_meanwhile_is_refused(log: Path, tmp_path: Path) -> None:
    with Session.load(log, options=session_options()) as session:
        log_user_message(session, ROOT, "long " * 400_000)  # more than one batch
        log_user_message(session, ROOT, "last " * 40_000)

    class Changing(RealDisk):
        """Another process purges the log while the branch is written."""

        def write(self, fd: int, data: bytes) -> int:
            log.write_bytes(log.read_bytes().replace(b"last", b"new!"))
            return super().write(fd, data)

    with pytest.raises(InvalidLog, match="was changed"):
        branch(log, tmp_path / "b.jsonl", options=session_options(disk=Changing()))
    assert sorted(tmp_path.iterdir()) == [log]


def test_an_edited_input_takes_the_place_of_the_old_one(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(log, tmp_path / "b.jsonl", "msg_006", "How?", options=session_options())
    assert made.origin.upto == "msg_005"
    assert texts(made.path) == ["Tea or coffee?", "Coffee.", "How?"]
    assert bodies(made.path)[1:6] == bodies(log)[1:6]
    assert [*iter_events(made.path)][-1].message_id == "msg_006"


def test_an_edited_answer_ends_its_request(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(log, tmp_path / "b.jsonl", "msg_004", "Tea.", options=session_options())
    entry, response = [*iter_events(made.path)][-2:]
    assert isinstance(entry, ev.TranscriptEntry)
    assert isinstance(response, ev.LlmResponse)
    assert entry.content == "Tea."
    assert (response.entry, response.stop_reason, response.cost_usd) == ("msg_004", "edited", None)
    assert json.loads(made.path.read_bytes().splitlines()[-2])["more"] is True
    with Session.load(made.path, options=session_options()) as session:
        assert session.state.requests == {}


def test_an_answer_that_was_logged_before_its_response_ends_its_request(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, language_model="m")
        agent = session.agent(ROOT)
        request = session.append(
            ev.LlmRequest(
                agent_id=ROOT, context=agent.segments(), count=0, context_hash="", model="m"
            )
        )
        entry = session.log_transcript_entry(ROOT, {"role": "assistant", "content": "a"})
        session.append(ev.LlmResponse(agent_id=ROOT, request=request, entry=entry))
    made = branch_with_edit(
        session.path, tmp_path / "b.jsonl", entry, "b", options=session_options()
    )
    last = [*iter_events(made.path)][-1]
    assert isinstance(last, ev.LlmResponse)
    assert (last.stop_reason, last.entry) == ("edited", entry)


def test_an_edit_of_another_event_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="msg_003 is an event of type llm_request, not a message"):
        branch_with_edit(log, tmp_path / "b.jsonl", "msg_003", "x")
    assert sorted(tmp_path.iterdir()) == [log]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A log with two hooks, of which one watches a subagent, and two models."""
    with new_session(tmp_path) as session:
        create_agent(session, name="main", language_model="m")
        birth = session.agent(ROOT).birth
        session.append(
            ev.TriggerArmed(agent_id=ROOT, name="t", trigger={"kind": "time"}, cause=birth)
        )
        create_agent(session, name="tone", cause=birth, relation="hook")
        sub = create_agent(
            session, name="Ann", cause=birth, relation="subagent", language_model="other"
        )
        create_agent(session, name="tone", cause=session.agent(sub).birth, relation="hook")
        create_agent(session, name="Bob", cause=birth, relation="subagent", language_model="m")
    return session.path


def test_hooks_are_removed_by_name(scene: Path, tmp_path: Path) -> None:
    def change(session: Session) -> None:
        remove_hooks(session, ["tone"])

    made = branch(scene, tmp_path / "b.jsonl", change=change, options=session_options())
    with Session.load(made.path, options=session_options()) as session:
        hooks = [agent for agent in session.agents.values() if agent.name == "tone"]
        assert [hook.place for hook in hooks] == ["gone", "gone"]
        with pytest.raises(NameNotFound, match="tone"):
            remove_hooks(session, ["tone"])


def test_agents_that_share_the_model_get_the_other_one(scene: Path, tmp_path: Path) -> None:
    made = branch(
        scene,
        tmp_path / "b.jsonl",
        change=lambda session: change_model(session, "new"),
        options=session_options(),
    )
    with Session.load(made.path, options=session_options()) as session:
        models = {agent.name: agent.language_model for agent in session.agents.values()}
    assert (models["main"], models["Bob"], models["Ann"]) == ("new", "new", "other")
    assert models["tone"] is None


def test_triggers_are_disarmed(scene: Path, tmp_path: Path) -> None:
    disarmed: list[str] = []
    made = branch(
        scene,
        tmp_path / "b.jsonl",
        change=lambda session: disarmed.extend(disarm_triggers(session)),
        options=session_options(),
    )
    assert disarmed == ["t"]
    with Session.load(made.path, options=session_options()) as session:
        assert session.agent(ROOT).triggers == {}


def test_an_answer_to_a_call_that_has_another_result_is_not_edited(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        main = create_agent(session, name="main")
        calling = log_tool_calls(session, main, "c1")
        asked = session.append(
            ev.TranscriptEntry(agent_id=USER, role="user", content="Which color?", cause=calling)
        )
        reply = session.append(
            ev.TranscriptEntry(agent_id=USER, role="assistant", content="Red.", cause=asked)
        )
    with pytest.raises(ConfigError, match="edit the result of the call"):
        branch_with_edit(
            session.path, tmp_path / "b.jsonl", reply, "Blue.", options=session_options()
        )
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("name", ["../../a/b", "..", "", "a\\b", "a\0b"])
def test_an_origin_that_names_no_session_is_not_looked_for(tmp_path: Path, name: str) -> None:
    start = ev.SessionStarted(session_id="s", origin=Origin(name, MessageId("msg_001"), "0" * 16))
    assert find_counted_origin(tmp_path / "s.jsonl", start) is None


def test_only_agents_with_the_previous_model_get_the_other_one(scene: Path, tmp_path: Path) -> None:
    made = branch(
        scene,
        tmp_path / "b.jsonl",
        change=lambda session: change_model(session, "new", previous="other"),
        options=session_options(),
    )
    with Session.load(made.path, options=session_options()) as session:
        models = {agent.name: agent.language_model for agent in session.agents.values()}
    assert (models["main"], models["Ann"]) == ("m", "new")
    assert models["Bob"] == "m"


def ask_user(session: Session, answer: str) -> tuple[str, MessageId]:
    """Log a call whose result is the answer of the user. Return the call, and the answer's id."""
    calling = log_tool_calls(session, ROOT, "c1")
    asked = session.append(
        ev.TranscriptEntry(agent_id=USER, role="user", content="Which color?", cause=calling)
    )
    reply = session.append(
        ev.TranscriptEntry(agent_id=USER, role="assistant", content=answer, cause=asked)
    )
    return calling, reply


def log_result(session: Session, text: str, substance: MessageId | None) -> None:
    session.append(
        ev.TranscriptEntry(
            agent_id=ROOT,
            role="tool",
            tool_call_id="c1",
            name="look",
            content=text,
            substance=substance,
        )
    )


def test_an_edited_answer_to_a_call_gets_its_result(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        _, reply = ask_user(session, "Red.")
        log_result(session, "Red.", reply)
        log_user_message(session, ROOT, "later")
    changed: list[bool] = []
    made = branch_with_edit(
        session.path,
        tmp_path / "b.jsonl",
        reply,
        "Blue.",
        change=lambda session: changed.append(not session.agent(ROOT).open_calls),
        options=session_options(),
    )
    assert texts(made.path)[-2:] == ["Blue.", "Blue."]
    result = [*iter_events(made.path)][-1]
    assert isinstance(result, ev.TranscriptEntry)
    assert (result.role, result.tool_call_id, result.substance) == ("tool", "c1", reply)
    assert changed == [True], "the change is appended after the edited group"
    assert verify(made.path) == []


@pytest.mark.parametrize("has_substance", [True, False])
def test_an_answer_whose_result_has_another_text_is_not_edited(
    tmp_path: Path, has_substance: bool
) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        _, reply = ask_user(session, "Red.")
        log_result(session, "The user said: Red.", reply if has_substance else None)
        session.append(
            ev.TranscriptEntry(agent_id=ROOT, role="user", content="Red.", substance=reply)
        )
    with pytest.raises(ConfigError, match="edit the result of the call"):
        branch_with_edit(session.path, tmp_path / "b.jsonl", reply, "Blue.")


def test_an_edited_answer_in_a_discussion_is_its_last_event(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session, name="main")
        ann = create_agent(session, cause="msg_001", name="Ann")
        calling = log_tool_calls(session, ROOT, "c1")
        opened = session.append(
            ev.DiscussionOpened(agent_id=ROOT, speakers=[USER, ann], cause=calling)
        )
        asked = session.append(
            ev.TranscriptEntry(agent_id=USER, role="user", content="Tea?", cause=calling)
        )
        with session.group():
            reply = session.append(
                ev.TranscriptEntry(agent_id=USER, role="assistant", content="Yes.", cause=asked)
            )
            log_user_message(session, ann, "[user]: Yes.")
            session.append(
                ev.DiscussionSpoken(
                    agent_id=ROOT, discussion=opened, speaker=USER, by=USER, said=reply
                )
            )
    made = branch_with_edit(
        session.path, tmp_path / "b.jsonl", reply, "No.", options=session_options()
    )
    assert texts(made.path)[-2:] == ["Tea?", "No."]
    assert not [e for e in iter_events(made.path) if isinstance(e, ev.DiscussionSpoken)]


def test_an_edited_branch_may_be_changed_and_described(log: Path, tmp_path: Path) -> None:
    made = branch_with_edit(
        log,
        tmp_path / "b.jsonl",
        "msg_006",
        "How?",
        change=lambda session: change_model(session, "new"),
        changes=["with another model"],
        options=session_options(),
    )
    assert made.origin.changes == ("edited msg_006", "with another model")
    with Session.load(made.path, options=session_options()) as session:
        assert session.agent(ROOT).language_model == "new"


@pytest.mark.parametrize(
    ("session", "existing", "name"),
    [
        ("tea", [], "tea-fork"),
        ("tea", ["tea-fork"], "tea-fork2"),
        ("tea", ["tea-fork", "tea-fork2"], "tea-fork3"),
        ("tea", ["tea-fork-a"], "tea-fork2"),
        ("tea", ["tea-forks"], "tea-fork"),
        ("tea-fork", ["tea-fork"], "tea-fork2"),
        ("tea-fork7", ["tea-fork7"], "tea-fork"),
        ("a b/c", [], "a_b_c-fork"),
        ("._.", [], "session-fork"),
        ("x" * 70, [], "x" * 70 + "-fork"),
        ("x" * 71, [], "x" * 70 + "-fork"),
    ],
)
def test_a_free_name_is_no_beginning_of_another_one(
    tmp_path: Path, session: str, existing: list[str], name: str
) -> None:
    for number, stem in enumerate(existing):
        (tmp_path / f"{stem}.jsonl{'.zst' if number % 2 else ''}").touch()
    assert find_free_name(tmp_path, session, "fork") == name
