"""Bundles: selected content round-trips to another machine, and no other content does."""

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
from harken.store.copying.imported_files import FileCopyResult
from harken.store.copying.tickets import TicketCopyResult
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
def target(tmp_path: Path) -> Iterator[SqliteStore]:
    (tmp_path / "there" / "sessions").mkdir(parents=True)
    with closing(SqliteStore(tmp_path / "there" / "store.db")) as store:
        yield store


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.zip"


def sessions(store: SqliteStore) -> Path:
    return store.path.parent / "sessions"


def log(store: SqliteStore, name: str, *texts: str, ctx: CommitId | None = None) -> Path:
    """Write the log of a session that started from a commit, with these messages."""
    path = sessions(store) / f"{name}.jsonl"
    session = Session(path, options=session_options(resolver=make_resolver(store)))
    agent = create_agent(session)
    if ctx is not None:
        messages = materialize(store, ctx).messages
        loaded = ContextLoaded(
            agent_id=agent,
            ctx=ctx,
            stop="compaction",
            count=len(messages),
            context_hash=hash_context(messages),
        )
        session.append(loaded)
    for text in texts:
        log_user_message(session, agent, text)
    log_request(session, agent)
    session.close()
    return path


def write_bundle(
    out: Path,
    store: Store,
    *tips: CommitId,
    logs: list[Path] | None = None,
    as_is: bool = False,
) -> BundleResult:
    bundle_request = BundleRequest(
        store=store, tips=tips, logs=logs or [], created_at=NOON, as_is=as_is
    )
    return create_bundle(out, bundle_request)


def read_bundle(bundle: Path, store: SqliteStore) -> BundleImportResult:
    with open_bundle(bundle, store.path.parent) as open_file:
        return import_bundle(open_file, store, sessions(store))


def everything(store: SqliteStore) -> dict[str, bytes | tuple[str, ...]]:
    """Return the bytes of all logs and the names of all commits."""
    files_by_name = {path.name: path.read_bytes() for path in sessions(store).iterdir()}
    return {**files_by_name, "commits": tuple(store.newest_commits(1000))}


def test_commits_and_logs_round_trip(source: SqliteStore, target: SqliteStore, out: Path) -> None:
    trunk = commit(source, None, "a", "b", labels=("good",))
    tip = commit(source, trunk, "c", summary="What C is.")
    other_commit = commit(source, trunk, "d")
    unrelated = commit(source, None, "x")
    first = log(source, "first", "hello", ctx=other_commit)
    bundled = write_bundle(out, source, tip, logs=[first])
    assert (bundled.manifest.commits, bundled.left_out, bundled.lacking) == (3, (), 0)
    assert set(bundled.manifest.tips) == {tip, other_commit}
    result = read_bundle(out, target)
    assert result.commits == 3
    assert [(log_result.path, log_result.is_new) for log_result in result.logs] == [
        (sessions(target) / "first.jsonl", True)
    ]
    assert (sessions(target) / "first.jsonl").read_bytes() == first.read_bytes()
    assert target.chain(tip) == source.chain(tip)
    assert texts(target, tip, "root") == ["a", "b", "c"]
    assert target.commits([unrelated]) == {}
    assert fsck(target) == []


def test_session_resumes_on_another_machine(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    tip = commit(source, None, "a", "b")
    write_bundle(out, source, logs=[log(source, "first", "hello", ctx=tip)])
    read_bundle(out, target)
    path = sessions(target) / "first.jsonl"
    session = Session.load(path, options=session_options(resolver=make_resolver(target)))
    [agent] = session.agents
    assert [m.content for m in session.context(agent)] == ["a", "b", "hello"]
    log_request(session, session.agent(agent).id)
    reload_session(session).close()


def test_unpacking_twice_changes_nothing(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    tip = commit(source, None, "a")
    write_bundle(out, source, tip, logs=[log(source, "first", "hello", ctx=tip)])
    read_bundle(out, target)
    before = everything(target)
    result = read_bundle(out, target)
    assert (result.commits, [log_result.is_new for log_result in result.logs]) == (0, [False])
    assert everything(target) == before
    assert everything(source) == everything(target)
    read_bundle(out, source)
    assert everything(source) == before


def test_log_never_replaces_a_different_one(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    mine = log(target, "first", "mine").read_bytes()
    log(target, "first-2", "mine, too")
    their_log = log(source, "first", "theirs")
    write_bundle(out, source, logs=[their_log])
    for is_new in (True, False):
        [kept_log] = read_bundle(out, target).logs
        assert (kept_log.name, kept_log.path.name, kept_log.is_new) == (
            "first.jsonl",
            "first-3.jsonl",
            is_new,
        )
    assert (sessions(target) / "first.jsonl").read_bytes() == mine
    assert kept_log.path.read_bytes() == their_log.read_bytes()


def test_unpacked_log_is_not_the_latest_local_session(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    mine = log(target, "mine", "x")
    write_bundle(out, source, logs=[log(source, "theirs", "y"), log(source, "latest", "z")])
    result = read_bundle(out, target)
    assert [log_result.path.name for log_result in result.logs] == [
        "latest-2.jsonl",
        "theirs.jsonl",
    ]
    assert all(log_result.path.stat().st_mtime < mine.stat().st_mtime for log_result in result.logs)


def test_locked_log_is_bundled_up_to_its_last_complete_line(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    path = sessions(source) / "live.jsonl"
    session = Session(path, options=session_options())
    log_user_message(session, create_agent(session), "said")
    full_log = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"message_id":"msg_0')
    assert write_bundle(out, source, logs=[path]).left_out == ()
    session.close()
    read_bundle(out, target)
    assert (sessions(target) / "live.jsonl").read_bytes() == full_log


def test_damaged_log_is_left_out_and_reported(source: SqliteStore, out: Path) -> None:
    full_log, damaged = log(source, "whole", "a"), log(source, "damaged", "hello")
    damaged.write_bytes(damaged.read_bytes().replace(b"hello", b"jello"))
    empty = sessions(source) / "empty.jsonl"
    empty.touch()
    bundled = write_bundle(
        out, source, logs=[damaged, full_log, empty, sessions(source) / "none.jsonl"]
    )
    assert [omitted.path.name for omitted in bundled.left_out] == [
        "damaged.jsonl", "empty.jsonl", "none.jsonl"
    ]  # fmt: skip
    assert "checksum mismatch" in bundled.left_out[0].why
    assert [session_info.name for session_info in bundled.manifest.sessions] == [
        "sessions/whole.jsonl"
    ]


def test_older_unsealed_log_may_be_bundled(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    dialects = Path(__file__).parents[2] / "fixtures" / "dialects"
    older = sorted(dialects.rglob("*.jsonl"))
    assert older
    assert write_bundle(out, source, logs=older).left_out == ()
    result = read_bundle(out, target)
    assert sorted(log_result.path.read_bytes() for log_result in result.logs) == sorted(
        path.read_bytes() for path in older
    )


def test_log_names_are_portable(source: SqliteStore, out: Path) -> None:
    folder = sessions(source)
    full_log = log(source, "a", "x").read_bytes()
    names = ["a b", "ä", "A", ".hidden", "-rf", "x" * 200, "a:b", "a\\b", "\udcff", "鳥"]
    for name in names:
        (folder / f"{name}.jsonl").write_bytes(full_log)
    bundled = write_bundle(out, source, logs=sorted(folder.iterdir()))
    stems = {
        session_info.name.removeprefix("sessions/").removesuffix(".jsonl")
        for session_info in bundled.manifest.sessions
    }
    assert len(stems) == len(names) + 1
    assert {"a b", "ä", "hidden", "rf", "x" * 100, "a_b", "a_b-2", "?", "鳥"} - stems <= {"?"}
    assert {"a", "A-2"} <= stems or {"A", "a-2"} <= stems
    with open_bundle(out, folder) as bundle:
        assert len(bundle.logs) == len(stems)
    assert sanitize_log_name("../../x.jsonl") == "sessions/_.._x.jsonl"
    assert sanitize_log_name(".jsonl") == "sessions/session.jsonl"


def test_missing_commits_named_by_logs_are_reported(source: SqliteStore, out: Path) -> None:
    path = log(source, "first", f"look at ctx-{'0' * 64}")
    assert write_bundle(out, source, logs=[path]).lacking == 1


def test_files_and_raw_bytes_are_bundled(
    source: SqliteStore, target: SqliteStore, out: Path
) -> None:
    pieces = [Random(n).randbytes(50_000) for n in range(20)]
    refs = [hash_raw(piece) for piece in pieces]
    file_name = hash_raw(b"".join(pieces))
    source.write(WriteBatch(raw=dict(zip(refs, pieces, strict=True)), files={file_name: refs}))
    draft = CommitDraft(
        artifact=file_name, format="x", message_count=1, token_count=0, created_at=NOON
    )
    write_bundle(out, source, checkpoint(source, draft))
    read_bundle(out, target)
    assert target.raw(file_name) == b"".join(pieces)


def test_empty_bundle_is_valid(target: SqliteStore, out: Path) -> None:
    bundled = write_bundle(out, MemoryStore())
    assert (bundled.manifest.commits, bundled.manifest.sessions) == (0, ())
    assert read_bundle(out, target) == BundleImportResult(
        0, (), TicketCopyResult(), FileCopyResult()
    )


def test_bundle_is_private_and_replaces_no_file(source: SqliteStore, out: Path) -> None:
    tip = commit(source, None, "a")
    write_bundle(out, source, tip)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    with pytest.raises(BundleError, match="exists; choose another name"):
        write_bundle(out, source, tip)
    assert out.read_bytes() == before
    link = out.with_name("link.zip")
    link.symlink_to("nowhere")
    with pytest.raises(BundleError, match="exists; choose another name"):
        write_bundle(link, source, tip)
    with pytest.raises(BundleError, match="cannot be written"):
        write_bundle(out.parent / "no" / "x.zip", source, tip)


def test_failed_bundle_leaves_no_file(source: SqliteStore, out: Path) -> None:
    folder = out.parent
    before = sorted(folder.iterdir())
    with pytest.raises(NameNotFound):
        write_bundle(out, source, CommitId("ctx-" + "0" * 64))

    def stop(bytes_done: int, total: int) -> None:
        raise KeyboardInterrupt

    commit(source, None, "a")
    bundle_request = BundleRequest(store=source, tips=source.newest_commits(), created_at=NOON)
    for how in ({"on_copy": stop}, {"on_pack": stop}):
        with pytest.raises(KeyboardInterrupt):
            create_bundle(out, bundle_request, **how)
    assert sorted(folder.iterdir()) == before


def test_progress_is_reported(source: SqliteStore, target: SqliteStore, out: Path) -> None:
    progress: list[tuple[str, int, int]] = []
    tip = commit(source, None, "a")
    bundle_request = BundleRequest(store=source, tips=[tip], created_at=NOON)
    create_bundle(
        out,
        bundle_request,
        on_copy=lambda *amounts: progress.append(("copy", *amounts)),
        on_pack=lambda *amounts: progress.append(("pack", *amounts)),
    )
    with open_bundle(
        out, target.path.parent, on_read=lambda *amounts: progress.append(("read", *amounts))
    ):
        pass
    size = zipfile.ZipFile(out).getinfo("store.db").file_size
    assert progress == [("copy", 1, 1), ("pack", size, size), ("read", size, size)]


@pytest.mark.req("D-06")
@pytest.mark.parametrize("as_is", [False, True])
def test_credentials_are_bundled_only_on_request(
    source: SqliteStore, target: SqliteStore, out: Path, as_is: bool
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
    bundled = write_bundle(out, source, last, logs=[path], as_is=as_is)
    assert bundled.credentials == {"anthropic-key": 1, "github-token": 1}
    assert (bundled.manifest.redaction is None) == as_is
    read_bundle(out, target)
    kept_path = sessions(target) / "first.jsonl"
    expected_texts = (
        [KEY, OTHER] if as_is else ["[redacted anthropic-key]", "[redacted github-token]"]
    )
    assert texts(target, after) == [f"the key is {expected_texts[0]}", "thanks", "more"]
    assert get_commit(target, tip).notes.summary == f"told {expected_texts[0]}"
    assert get_commit(target, tip).commit.template == f"for {expected_texts[1]}"
    assert (kept_path.read_bytes() == before) == as_is
    assert verify(kept_path) == []
    assert fsck(target) == []
    inside = zipfile.ZipFile(out)
    for place in (target.raw(raw), kept_path.read_bytes(), *map(inside.read, inside.namelist())):
        assert as_is or not any(secret.encode() in place for secret in (KEY, OTHER))
    # the log still matches the commits that it names
    session = Session.load(kept_path, options=session_options(resolver=make_resolver(target)))
    [agent] = session.agents
    assert [m.content for m in session.context(agent)][-1] == f"again: {expected_texts[0]}"
    log_request(session, session.agent(agent).id)
    session.close()
    # the source is unchanged
    assert path.read_bytes() == before
    assert texts(source, after)[0] == f"the key is {KEY}"


def test_receiver_with_the_original_keeps_it(source: SqliteStore, out: Path) -> None:
    tip = commit(source, None, f"the key is {KEY}")
    write_bundle(out, source, tip)
    assert read_bundle(out, source).commits == 0
    assert texts(source, tip) == [f"the key is {KEY}"]
    assert source.tombstones() == {}


@pytest.mark.parametrize("size", [7, 100, 1010, 65_536, 10**6])
def test_credentials_are_redacted_across_chunks(size: int) -> None:
    text = b"x" * 999 + b" " + KEY.encode() + b" " + b"y" * 300_000 + OTHER.encode()
    credentials = Credentials()
    pieces = [text[index : index + size] for index in range(0, len(text), size)]
    spans = [(1000, 1000 + len(KEY)), (len(text) - len(OTHER), len(text))]
    assert list(credentials.find_spans(pieces)) == spans
    assert credentials.kinds == {"anthropic-key": 1, "github-token": 1}
