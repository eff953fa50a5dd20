"""The store in a file: permissions, waiting and costs."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import CommitId, CommitNotes, Hash
from harken.core.messages import Message
from harken.errors import (
    HarkenError,
    InvalidStore,
    ObjectCorrupted,
    StoreError,
    StoreLocked,
    StoreVersionUnsupported,
    StoreWriteError,
)
from harken.store.base import ObjectKind, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

ROOT = Path(__file__).parents[4]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.mark.req("D-06")
def test_store_is_readable_by_its_owner_only(path: Path) -> None:
    store = SqliteStore(path)
    store.write(batch_of("Hi"))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["s.db"]


@pytest.mark.parametrize(
    ("version", "advice"), [(6, "upgrade Harken"), (3, "use another store"), (1, "was not changed")]
)
def test_other_format_is_refused_and_unchanged(path: Path, version: int, advice: str) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionUnsupported, match=advice) as refused:
        SqliteStore(path)
    assert (refused.value.found, refused.value.known) == (version, 5)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"{}\n" * 1000, b"x", b"SQLite format 3\0" + b"\xff" * 4080])
def test_file_of_another_kind_is_unchanged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_database_of_another_program_is_unchanged(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE pack (id INTEGER PRIMARY KEY)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InvalidStore, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_unusable_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreWriteError):
        SqliteStore(tmp_path / "no" / "s.db")
    with pytest.raises(StoreError):
        SqliteStore(tmp_path)


def test_closed_store_is_an_error(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.write(batch_of("Hi"))
    with pytest.raises(StoreError, match="closed"):
        store.objects([Hash("0" * 64)])


def test_readers_never_wait_and_writers_wait_a_limited_time(path: Path) -> None:
    store, first = SqliteStore(path, patience_s=0.05), batch_of("Hi")
    store.write(first)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM history")
    assert [stored.id for stored in store.chain(commit_in(first))] == [commit_in(first)]
    with pytest.raises(StoreLocked, match="try again"):
        store.write(batch_of("Ho"))
    connection.execute("ROLLBACK")
    connection.close()
    store.write(batch_of("Ho"))
    store.close()


@pytest.mark.req("S2-11")
def test_concurrent_creation_and_writes_of_processes_lose_nothing(path: Path) -> None:
    program = (
        "import sys\n"
        "from harken.store.sqlite.store import SqliteStore\n"
        "from harken.testing.store import batch_of\n"
        "store = SqliteStore(sys.argv[1])\n"
        "for at in range(20): store.write(batch_of(f'{sys.argv[2]} {at}', 'for all'))\n"
        "store.close()\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, path, str(n)], cwd=ROOT) for n in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    store = SqliteStore(path)
    assert len(store.names_with_prefix("ctx-", 100)) == 60
    assert fsck(store) == []
    store.close()


def test_damaged_object_is_named_and_healed_by_a_rewrite(path: Path) -> None:
    batch = batch_of("Hi", notes=CommitNotes(summary="kept"))
    child = batch_of("Ho", parent=commit_in(batch))
    store = SqliteStore(path)
    store.write(batch)
    store.write(child)
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE pack SET data = zeroblob(length(data)) WHERE id = 1")
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    for name in batch.objects:
        with pytest.raises(ObjectCorrupted, match=name):
            store.objects([name])
    with pytest.raises(ObjectCorrupted):
        store.chain(commit_in(child))
    store.write(batch)
    assert store.objects(batch.objects) == batch.objects
    assert [stored.notes.summary for stored in store.chain(commit_in(child))] == ["", "kept"]
    store.close()


def test_store_is_thread_safe(path: Path) -> None:
    store, batch, results = SqliteStore(path), batch_of("Hi"), list[object]()
    store.write(batch)
    thread = threading.Thread(target=lambda: results.append(store.chain(commit_in(batch))))
    thread.start()
    thread.join()
    assert results == [store.chain(commit_in(batch))]
    store.close()


def test_ended_threads_leave_no_open_file(path: Path) -> None:
    store, batch = SqliteStore(path), batch_of("Hi")
    store.write(batch)
    for _ in range(20):
        thread = threading.Thread(target=store.names_with_prefix, args=["ctx-"])
        thread.start()
        thread.join()
    assert len(store._database._open) <= 3
    store.close()


def test_store_is_unusable_in_a_forked_process(path: Path) -> None:
    program = (
        "import os, sys\n"
        "from harken.errors import StoreError\n"
        "from harken.store.sqlite.store import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    try: store.names_with_prefix('')\n"
        "    except StoreError as error: print(error, flush=True)\n"
        "    store.close()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(store.names_with_prefix(''))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "before a fork" in result.stdout
    assert result.stdout.endswith("[]\n")


def words(dice: Random, length: int = 500) -> str:
    text = (ROOT / "docs" / "explanation" / "agents-and-hooks.md").read_text(encoding="utf-8")
    vocabulary = text.split()
    return " ".join(dice.choice(vocabulary) for _ in range(length))[:length]


def steps(store: SqliteStore, count: int, *, same: str = "") -> list[CommitId]:
    dice, names = Random(1), list[CommitId]()
    for index in range(count):
        batch = batch_of(
            Message("user", same or words(dice)),
            Message("assistant", words(dice)),
            parent=names[-1] if names else None,
            second=index,
            principal="iree/reviewer",
        )
        store.write(batch)
        names.append(commit_in(batch))
    return names


@pytest.mark.req("D-05", "S2-01", "S2-64")
def test_step_costs_only_its_new_messages(path: Path) -> None:
    store = SqliteStore(path)
    steps(store, 300)
    store.close()
    assert path.stat().st_size < 300 * 1300  # of which 1,000 bytes are text


@pytest.mark.req("S2-64")
def test_twenty_checkpoints_of_a_hundred_turns_store_a_hundred_turns(tmp_path: Path) -> None:
    """Snapshots at each checkpoint would store 1,050 turns."""
    dice = Random(4)
    turns = [[Message("user", words(dice)), Message("assistant", words(dice))] for _ in range(100)]
    store, once = SqliteStore(tmp_path / "20.db"), SqliteStore(tmp_path / "1.db")
    parent: CommitId | None = None
    for number in range(20):
        new = [message for turn in turns[5 * number : 5 * number + 5] for message in turn]
        batch = batch_of(*new, parent=parent, second=number)
        store.write(batch)
        parent = commit_in(batch)
    assert parent is not None
    chain = store.chain(parent)
    entries = store.deltas(stored.commit.artifact for stored in chain)
    assert [len(entries[stored.commit.artifact]) for stored in chain] == [10] * 20
    once.write(batch_of(*(message for turn in turns for message in turn)))
    sizes = [sum(len(obj.body) for obj in each.iter_objects()) for each in (store, once)]
    assert sizes[0] < 1.2 * sizes[1]
    for each in (store, once):
        each.close()


@pytest.mark.req("S2-65")
def test_second_chain_adds_no_equal_prompt_or_tool_output(path: Path) -> None:
    store = SqliteStore(path)

    def write_chain(agent: str) -> None:
        """Write a prompt, and the output of a tool under an id of its own."""
        prompt = Message("system", "You review code. " * 200)
        output = Message("tool", "the output of a tool " * 200, tool_call_id=f"call-{agent}")
        first = batch_of(prompt, Message("user", f"I am {agent}."), principal=agent)
        store.write(first)
        store.write(batch_of(output, parent=commit_in(first), second=1, principal=agent))

    def list_contents() -> Counter[str]:
        kinds = (ObjectKind.PART, ObjectKind.MESSAGE)
        return Counter(obj.kind.name for obj in store.iter_objects() if obj.kind in kinds)

    write_chain("ann")
    before = list_contents()
    assert before == {"PART": 3, "MESSAGE": 3}
    write_chain("bob")
    assert list_contents() - before == {"PART": 1, "MESSAGE": 1}, "only what Bob said"
    store.close()


@pytest.mark.req("S2-65")
def test_equal_messages_are_stored_once(path: Path) -> None:
    store = SqliteStore(path)
    large = Random(2).randbytes(30_000).hex()
    steps(store, 50, same=large)
    store.close()
    assert path.stat().st_size < 200_000


@pytest.mark.req("S2-18")
def test_latest_commit_uses_an_index(path: Path) -> None:
    store = SqliteStore(path)
    with store.snapshot() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT id, name, pack, notes FROM history WHERE principal ="
            " (SELECT id FROM principal WHERE name = x'00') AND time_us <= 5"
            " ORDER BY time_us DESC, id DESC LIMIT 1"
        ).fetchall()
    text = " ".join(str(row) for row in plan)
    assert "history_time (principal=? AND time_us<?)" in text
    assert "TEMP B-TREE" not in text
    store.close()


def test_empty_batch_is_accepted(path: Path) -> None:
    store = SqliteStore(path)
    store.write(WriteBatch())
    assert store.names_with_prefix("") == []
    store.close()


def without_rights(program: str, *arguments: Path) -> str:
    """Run a program as an unprivileged user; skip the test if that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout


READ = (
    "import os, sys\n"
    "from harken.context.materialize import materialize\n"
    "from harken.errors import HarkenError\n"
    "from harken.store.sqlite.store import SqliteStore\n"
    "from harken.testing.store import batch_of\n"
    "os.setgid(65534); os.setuid(65534)\n"
    "store = SqliteStore(sys.argv[1])\n"
    "[tip] = store.newest_commits()\n"
    "print([m.content for m in materialize(store, tip).messages])\n"
    "try: store.write(batch_of('more'))\n"
    "except HarkenError as error: print(type(error).__name__)\n"
    "store.close()\n"
)


def test_read_only_store_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    store = SqliteStore(folder / "s.db")
    store.write(batch_of("Hi"))
    store.close()
    for path in (folder / "s.db", folder, *folder.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o555)
    folder.chmod(0o555)
    (folder / "s.db").chmod(0o444)
    assert without_rights(READ, folder / "s.db").split("\n")[:2] == ["['Hi']", "StoreWriteError"]
    assert [file.name for file in folder.iterdir()] == ["s.db"]


def test_database_of_another_program_keeps_its_wal(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE theirs (x)")
    files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    copy = path.parent / "copy"
    copy.mkdir()
    for name in ("s.db", "s.db-wal"):
        (copy / name).write_bytes(files[name])
    with pytest.raises(InvalidStore):
        SqliteStore(copy / "s.db")
    for name in ("s.db", "s.db-wal"):
        assert (copy / name).read_bytes() == files[name]
    connection.close()


def test_removed_or_replaced_store_acknowledges_nothing(path: Path) -> None:
    store, batch = SqliteStore(path), batch_of("Hi")
    store.write(batch)
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(StoreError, match="removed or replaced"):
        store.write(batch_of("Ho"))
    SqliteStore(path).close()
    with pytest.raises(StoreError, match="removed or replaced"):
        store.update_notes(commit_in(batch), CommitNotes())
    store.close()


def test_invalid_path_is_an_error() -> None:
    with pytest.raises(StoreError, match="not a valid path"):
        SqliteStore("a\0b")


def test_second_open_in_a_process_keeps_the_lock_of_the_first(path: Path) -> None:
    """Closing a file that SQLite has open releases its locks, so another process would take
    the WAL.
    """
    first = SqliteStore(path)
    first.write(batch_of("one"))
    SqliteStore(path).close()
    program = "import sys; from harken.store.sqlite.store import SqliteStore; SqliteStore(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", program, path], check=True, cwd=ROOT)
    first.write(batch_of("two"))
    second_store = SqliteStore(path)
    assert len(second_store.newest_commits()) == 2
    second_store.close()
    first.close()


@pytest.mark.req("S2-18")
def test_listing_opens_no_packs(path: Path) -> None:
    store = SqliteStore(path)
    names = steps(store, 70)
    store.update_notes(names[3], CommitNotes(labels=("x",)))
    with store.snapshot() as connection:
        pass
    connection.execute("UPDATE pack SET data = zeroblob(10)")
    store.close()
    store = SqliteStore(path)
    assert store.newest_commits(100) == names[::-1]
    assert store.commits_by_label() == {"x": [names[3]]}
    assert store.latest_commit("iree/reviewer", "2100-01-01T00:00:00Z") == names[-1]
    assert store.children(names[0]) == [names[1]]
    assert store.names_with_prefix("ctx-", 100) == sorted(names)
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE history SET name = NULL",
        "UPDATE history SET notes = 3",
        "UPDATE history SET pack = 'x'",
        "UPDATE label SET name = x'ff'",
        "UPDATE label SET name = 'x'",
        "UPDATE pack SET data = NULL",
        "UPDATE pack SET data = 'x'",
        "UPDATE object SET pack = x'00'",
        "UPDATE artifact SET key = 'abcdef'",
    ],
)
def test_values_of_wrong_types_are_damage_and_no_crash(path: Path, damage: str) -> None:
    """STRICT applies to writes: a flipped bit may change the type of a stored value."""
    store = SqliteStore(path)
    names = steps(store, 3)
    store.update_notes(names[0], CommitNotes(labels=("x",)))
    objects = [stored.name for stored in store.iter_objects() if len(stored.name) == 64]
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema=ON")
    for word in ("STRICT, ", "STRICT", "NOT NULL"):
        connection.execute(
            f"UPDATE sqlite_schema SET sql = replace(sql, '{word}', '') WHERE type = 'table'"
        )
    connection.commit()
    connection.close()
    connection = sqlite3.connect(path)
    assert connection.execute(damage).rowcount > 0
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    questions: list[Callable[[], object]] = [
        store.newest_commits,
        store.commits_by_label,
        lambda: store.names_with_prefix("", 100),
        lambda: store.chain(names[-1]),
        lambda: store.commits(names),
        lambda: store.children(names[0]),
        lambda: store.objects(map(Hash, objects)),
        lambda: [*store.iter_objects()],
        lambda: store.write(batch_of("more")),
    ]
    for question in questions:
        with suppress(HarkenError):
            question()
    assert fsck(store)
    store.close()


def test_power_cut_during_creation_leaves_an_openable_store(path: Path) -> None:
    """A reader may not roll back an unfinished creation; a writer does."""
    unfinished = path.with_name("begun.db")
    connection = sqlite3.connect(unfinished, isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("PRAGMA user_version=7")
    connection.execute("PRAGMA cache_flush")
    for end in ("", "-journal"):
        path.with_name(path.name + end).write_bytes(
            unfinished.with_name(unfinished.name + end).read_bytes()
        )
    connection.close()
    store, batch = SqliteStore(path), batch_of("Hi")
    store.write(batch)
    assert store.objects(batch.objects) == batch.objects
    store.close()


def test_damaged_generation_is_an_error(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM state")
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="damaged"):
        store.newest_commits()
    assert [finding.place for finding in fsck(store)] == ["file"]
    store.close()
