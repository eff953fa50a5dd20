"""Bundles: what goes in comes out on another machine, and nothing else does."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.context.bundle.create import BundleRequest, BundleResult, create_bundle
from harken.context.bundle.manifest import sanitize_log_name
from harken.context.bundle.open import BundleImportResult, import_bundle, open_bundle
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.history import get_commit
from harken.context.materialize import make_resolver, materialize
from harken.core.commits import CommitId, hash_raw
from harken.core.events import ContextLoaded
from harken.core.secrets.redaction import Credentials
from harken.errors import BundleError, NameNotFound
from harken.session.repair import verify
from harken.session.session import Session
from harken.store.base import Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.session_kit import (
    create_agent,
    hash_context,
    log_request,
    log_user_message,
    reload_session,
    session_options,
)
from tests.unit.context.kit import NOON, commit, texts

KEY = "sk-ant-" + "api03-" + "k1" * 20
OTHER = "ghp_" + "k" * 36


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    (tmp_path / "here" / "sessions").mkdir(parents=True)
    with closing(SqliteStore(tmp_path / "here" / "store.db")) as store:
        yield store


@pytest.fixture
def there(tmp_path: Path) -> Iterator[SqliteStore]:
    (tmp_path / "there" / "sessions").mkdir(parents=True)
    with closing(SqliteStore(tmp_path / "there" / "store.db")) as store:
        yield store


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.zip"


def sessions(store: SqliteStore) -> Path:
    return store.path.parent / "sessions"


def log(store: SqliteStore, name: str, *said: str, ctx: CommitId | None = None) -> Path:
    """Write the log of a session that began with a commit, and in which this was said."""
    path = sessions(store) / f"{name}.jsonl"
    session = Session(path, options=session_options(resolver=make_resolver(store)))
    agent = create_agent(session)
    if ctx is not None:
        known = materialize(store, ctx).messages
        loaded = ContextLoaded(
            agent_id=agent,
            ctx=ctx,
            stop="compaction",
            count=len(known),
            context_hash=hash_context(known),
        )
        session.append(loaded)
    for text in said:
        log_user_message(session, agent, text)
    log_request(session, agent)
    session.close()
    return path


def made(
    out: Path,
    store: Store,
    *tips: CommitId,
    logs: list[Path] | None = None,
    as_is: bool = False,
) -> BundleResult:
    wanted = BundleRequest(store=store, tips=tips, logs=logs or [], created_at=NOON, as_is=as_is)
    return create_bundle(out, wanted)


def opened(bundle: Path, store: SqliteStore) -> BundleImportResult:
    with open_bundle(bundle, store.path.parent) as found:
        return import_bundle(found, store, sessions(store))


def everything(store: SqliteStore) -> dict[str, bytes | tuple[str, ...]]:
    """Return the bytes of all logs, and the names of all commits."""
    found = {path.name: path.read_bytes() for path in sessions(store).iterdir()}
    return {**found, "commits": tuple(store.newest_commits(1000))}


def test_commits_and_logs_come_out_as_they_went_in(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    trunk = commit(source, None, "a", "b", labels=("good",))
    tip = commit(source, trunk, "c", summary="What C is.")
    other = commit(source, trunk, "d")
    unrelated = commit(source, None, "x")
    first = log(source, "first", "hello", ctx=other)
    bundled = made(out, source, tip, logs=[first])
    assert (bundled.manifest.commits, bundled.left_out, bundled.lacking) == (3, (), 0)
    assert set(bundled.manifest.tips) == {tip, other}
    taken = opened(out, there)
    assert taken.commits == 3
    assert [(one.path, one.is_new) for one in taken.logs] == [
        (sessions(there) / "first.jsonl", True)
    ]
    assert (sessions(there) / "first.jsonl").read_bytes() == first.read_bytes()
    assert there.chain(tip) == source.chain(tip)
    assert texts(there, tip, "root") == ["a", "b", "c"]
    assert there.commits([unrelated]) == {}
    assert fsck(there) == []


def test_a_session_goes_on_on_the_other_machine(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    tip = commit(source, None, "a", "b")
    made(out, source, logs=[log(source, "first", "hello", ctx=tip)])
    opened(out, there)
    path = sessions(there) / "first.jsonl"
    session = Session.load(path, options=session_options(resolver=make_resolver(there)))
    [agent] = session.agents
    assert [m.content for m in session.context(agent)] == ["a", "b", "hello"]
    log_request(session, session.agent(agent).id)
    reload_session(session).close()


def test_what_is_opened_twice_changes_nothing(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    tip = commit(source, None, "a")
    made(out, source, tip, logs=[log(source, "first", "hello", ctx=tip)])
    opened(out, there)
    before = everything(there)
    taken = opened(out, there)
    assert (taken.commits, [one.is_new for one in taken.logs]) == (0, [False])
    assert everything(there) == before
    assert everything(source) == everything(there)
    opened(out, source)
    assert everything(source) == before


def test_a_log_never_takes_the_place_of_another(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    mine = log(there, "first", "mine").read_bytes()
    log(there, "first-2", "mine, too")
    theirs = log(source, "first", "theirs")
    made(out, source, logs=[theirs])
    for is_new in (True, False):
        [kept] = opened(out, there).logs
        assert (kept.name, kept.path.name, kept.is_new) == ("first.jsonl", "first-3.jsonl", is_new)
    assert (sessions(there) / "first.jsonl").read_bytes() == mine
    assert kept.path.read_bytes() == theirs.read_bytes()


def test_a_log_is_not_taken_for_ones_own_that_was_written_last(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    mine = log(there, "mine", "x")
    made(out, source, logs=[log(source, "theirs", "y"), log(source, "latest", "z")])
    taken = opened(out, there)
    assert [one.path.name for one in taken.logs] == ["latest-2.jsonl", "theirs.jsonl"]
    assert all(one.path.stat().st_mtime < mine.stat().st_mtime for one in taken.logs)


def test_a_log_that_is_being_written_is_in_it_up_to_its_last_whole_line(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    path = sessions(source) / "live.jsonl"
    session = Session(path, options=session_options())
    log_user_message(session, create_agent(session), "said")
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"message_id":"msg_0')
    assert made(out, source, logs=[path]).left_out == ()
    session.close()
    opened(out, there)
    assert (sessions(there) / "live.jsonl").read_bytes() == whole


def test_a_damaged_log_is_left_out_and_told(source: SqliteStore, out: Path) -> None:
    whole, damaged = log(source, "whole", "a"), log(source, "damaged", "hello")
    damaged.write_bytes(damaged.read_bytes().replace(b"hello", b"jello"))
    empty = sessions(source) / "empty.jsonl"
    empty.touch()
    bundled = made(out, source, logs=[damaged, whole, empty, sessions(source) / "none.jsonl"])
    assert [one.path.name for one in bundled.left_out] == [
        "damaged.jsonl", "empty.jsonl", "none.jsonl"
    ]  # fmt: skip
    assert "its sum does not fit" in bundled.left_out[0].why
    assert [one.name for one in bundled.manifest.sessions] == ["sessions/whole.jsonl"]


def test_an_older_log_without_sums_may_be_in_it(
    source: SqliteStore, there: SqliteStore, out: Path
) -> None:
    dialects = Path(__file__).parents[2] / "fixtures" / "dialects"
    older = sorted(dialects.rglob("*.jsonl"))
    assert older
    assert made(out, source, logs=older).left_out == ()
    taken = opened(out, there)
    assert sorted(one.path.read_bytes() for one in taken.logs) == sorted(
        path.read_bytes() for path in older
    )


def test_names_of_logs_are_such_that_every_system_takes(source: SqliteStore, out: Path) -> None:
    folder = sessions(source)
    whole = log(source, "a", "x").read_bytes()
    names = ["a b", "ä", "A", ".hidden", "-rf", "x" * 200, "a:b", "a\\b", "\udcff", "鳥"]
    for name in names:
        (folder / f"{name}.jsonl").write_bytes(whole)
    bundled = made(out, source, logs=sorted(folder.iterdir()))
    stems = {
        one.name.removeprefix("sessions/").removesuffix(".jsonl")
        for one in bundled.manifest.sessions
    }
    assert len(stems) == len(names) + 1
    assert {"a b", "ä", "hidden", "rf", "x" * 100, "a_b", "a_b-2", "?", "鳥"} - stems <= {"?"}
    assert {"a", "A-2"} <= stems or {"A", "a-2"} <= stems
    with open_bundle(out, folder) as found:
        assert len(found.logs) == len(stems)
    assert sanitize_log_name("../../x.jsonl") == "sessions/_.._x.jsonl"
    assert sanitize_log_name(".jsonl") == "sessions/session.jsonl"


def test_commits_that_logs_name_and_nobody_has_are_told(source: SqliteStore, out: Path) -> None:
    path = log(source, "first", f"look at ctx-{'0' * 64}")
    assert made(out, source, logs=[path]).lacking == 1


def test_files_and_raw_bytes_are_in_it(source: SqliteStore, there: SqliteStore, out: Path) -> None:
    pieces = [Random(n).randbytes(50_000) for n in range(20)]
    refs = [hash_raw(piece) for piece in pieces]
    whole = hash_raw(b"".join(pieces))
    source.write(WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={whole: refs}))
    draft = CommitDraft(artifact=whole, format="x", message_count=1, token_count=0, created_at=NOON)
    made(out, source, checkpoint(source, draft))
    opened(out, there)
    assert there.raw(whole) == b"".join(pieces)


def test_an_empty_bundle_is_one(there: SqliteStore, out: Path) -> None:
    bundled = made(out, MemoryStore())
    assert (bundled.manifest.commits, bundled.manifest.sessions) == (0, ())
    assert opened(out, there) == BundleImportResult(0, ())


def test_it_is_for_its_owner_only_and_replaces_nothing(source: SqliteStore, out: Path) -> None:
    tip = commit(source, None, "a")
    made(out, source, tip)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    with pytest.raises(BundleError, match="is there already"):
        made(out, source, tip)
    assert out.read_bytes() == before
    link = out.with_name("link.zip")
    link.symlink_to("nowhere")
    with pytest.raises(BundleError, match="is there already"):
        made(link, source, tip)
    with pytest.raises(BundleError, match="cannot be written"):
        made(out.parent / "no" / "x.zip", source, tip)


def test_nothing_is_left_where_it_cannot_be_made(source: SqliteStore, out: Path) -> None:
    folder = out.parent
    before = sorted(folder.iterdir())
    with pytest.raises(NameNotFound):
        made(out, source, CommitId("ctx-" + "0" * 64))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    commit(source, None, "a")
    wanted = BundleRequest(store=source, tips=source.newest_commits(), created_at=NOON)
    for how in ({"on_copy": stop}, {"on_pack": stop}):
        with pytest.raises(KeyboardInterrupt):
            create_bundle(out, wanted, **how)
    assert sorted(folder.iterdir()) == before


def test_how_far_it_is_is_told(source: SqliteStore, there: SqliteStore, out: Path) -> None:
    told: list[tuple[str, int, int]] = []
    tip = commit(source, None, "a")
    wanted = BundleRequest(store=source, tips=[tip], created_at=NOON)
    create_bundle(
        out,
        wanted,
        on_copy=lambda *at: told.append(("copy", *at)),
        on_pack=lambda *at: told.append(("pack", *at)),
    )
    with open_bundle(out, there.path.parent, on_read=lambda *at: told.append(("read", *at))):
        pass
    size = zipfile.ZipFile(out).getinfo("store.db").file_size
    assert told == [("copy", 1, 1), ("pack", size, size), ("read", size, size)]


@pytest.mark.parametrize("as_is", [False, True])
def test_credentials_leave_only_where_that_is_wanted(
    source: SqliteStore, there: SqliteStore, out: Path, as_is: bool
) -> None:
    origin = CommitOrigin(principal="ann", template=f"for {OTHER}")
    tip = commit(source, None, f"the key is {KEY}", "thanks", origin=origin)
    source.update_notes(
        tip, get_commit(source, tip).notes.__class__(summary=f"told {KEY}", labels=("x",))
    )
    after = commit(source, tip, "more")
    raw = hash_raw(f"export K={OTHER}\n".encode())
    source.write(WriteBatch(raw={raw: f"export K={OTHER}\n".encode()}))
    draft = CommitDraft(
        artifact=raw, parent=after, format="x", message_count=1, token_count=0, created_at=NOON
    )
    last = checkpoint(source, draft)
    path = log(source, "first", f"again: {KEY}", ctx=after)
    before = path.read_bytes()
    bundled = made(out, source, last, logs=[path], as_is=as_is)
    assert bundled.credentials == {"anthropic-key": 1, "github-token": 1}
    assert (bundled.manifest.redaction is None) == as_is
    opened(out, there)
    kept = sessions(there) / "first.jsonl"
    told = [KEY, OTHER] if as_is else ["[redacted anthropic-key]", "[redacted github-token]"]
    assert texts(there, after) == [f"the key is {told[0]}", "thanks", "more"]
    assert get_commit(there, tip).notes.summary == f"told {told[0]}"
    assert get_commit(there, tip).commit.template == f"for {told[1]}"
    assert (kept.read_bytes() == before) == as_is
    assert verify(kept) == []
    assert fsck(there) == []
    inside = zipfile.ZipFile(out)
    for place in (there.raw(raw), kept.read_bytes(), *map(inside.read, inside.namelist())):
        assert as_is or not any(secret.encode() in place for secret in (KEY, OTHER))
    # the log still fits to the commits that it names
    session = Session.load(kept, options=session_options(resolver=make_resolver(there)))
    [agent] = session.agents
    assert [m.content for m in session.context(agent)][-1] == f"again: {told[0]}"
    log_request(session, session.agent(agent).id)
    session.close()
    # here everything is as it was
    assert path.read_bytes() == before
    assert texts(source, after)[0] == f"the key is {KEY}"


def test_who_has_the_original_keeps_it(source: SqliteStore, out: Path) -> None:
    tip = commit(source, None, f"the key is {KEY}")
    made(out, source, tip)
    assert opened(out, source).commits == 0
    assert texts(source, tip) == [f"the key is {KEY}"]
    assert source.tombstones() == {}


@pytest.mark.parametrize("size", [7, 100, 1010, 65_536, 10**6])
def test_credentials_are_found_across_the_pieces_of_a_file(size: int) -> None:
    text = b"x" * 999 + b" " + KEY.encode() + b" " + b"y" * 300_000 + OTHER.encode()
    found = Credentials()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    spans = [(1000, 1000 + len(KEY)), (len(text) - len(OTHER), len(text))]
    assert list(found.find_spans(pieces)) == spans
    assert found.kinds == {"anthropic-key": 1, "github-token": 1}
