"""A branch is a copy of a log up to a point, with the same ids, that goes on by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import MessageId, Origin
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
    log_user_message,
    new_session,
    read_lines,
    session_options,
)
from tests.unit.session.branch_kit import ROOT, bodies, texts, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path)


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
