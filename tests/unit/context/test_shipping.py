"""Logs and commits are pushed to a service: once, complete and without credentials."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.materialize import make_resolver, materialize
from harken.context.shipping.log_stream import BATCH_BYTES
from harken.context.shipping.outbox import ShipState, open_outbox
from harken.context.shipping.shipper import Shipper
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.ids import AgentId
from harken.core.messages import Message, extend_context_hash
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, InvalidLog, LogCorrupted, LogError, StoreUnavailable
from harken.session.log.checksum import BODY, seal
from harken.session.log.compress import compress_log
from harken.session.session import Session
from harken.session.verify import verify
from harken.store.base import Store
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from tests.service_kit import TOKEN, serve_store
from tests.session_kit import create_agent, log_user_message, session_options

KEY = "AKIAQ7WZX5T2MN3BVC4D"
WHEN = "2026-01-01T10:00:00.000000Z"


class Ends:
    """A home with a store and logs, and a service with its own."""

    def __init__(self, folder: Path, url: str, remote_store: Store) -> None:
        self.url, self.there = url, remote_store
        self.logs, self.logs_there = folder / "here", folder / "there"
        self.outbox = folder / "outbox"
        self.logs.mkdir()
        self.store = MemoryStore()

    def session(self, name: str = "s") -> Session:
        return Session(
            self.logs / f"{name}.jsonl", options=session_options(resolver=make_resolver(self.store))
        )

    def reopen(self, name: str = "s") -> Session:
        path = self.logs / f"{name}.jsonl"
        return Session.load(path, options=session_options(resolver=make_resolver(self.store)))

    @contextmanager
    def shipper(self, *, redacts: bool = True) -> Iterator[Shipper]:
        with (
            closing(RemoteStore(self.url, token=TOKEN, patience_s=0)) as far,
            open_outbox(self.outbox, self.url) as outbox,
        ):
            yield Shipper(self.store, far, outbox, Credentials() if redacts else None)

    def ship(self, name: str = "s", *, redacts: bool = True) -> tuple[int, int]:
        """Push a log with a new shipper. Return the number of lines and of commits."""
        with self.shipper(redacts=redacts) as shipper:
            result = shipper.ship(self.logs / f"{name}.jsonl")
            return result.lines, result.commits

    def here_bytes(self, name: str = "s") -> bytes:
        return (self.logs / f"{name}.jsonl").read_bytes()

    def there_bytes(self, name: str = "s") -> bytes:
        path = self.logs_there / f"{name}.jsonl"
        assert verify(path) == []
        return path.read_bytes()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    (tmp_path / "there").mkdir()
    store = SqliteStore(tmp_path / "there.db")
    with closing(store), serve_store(store, sessions=tmp_path / "there") as url:
        yield Ends(tmp_path, url, store)


def committed(ends: Ends, session: Session, agent: AgentId, text: str) -> CommitId:
    """Commit a text and log the commit."""
    message = Message("user", text)
    name = checkpoint(ends.store, CommitDraft(messages=[message], summary=text, created_at=WHEN))
    session.append(ev.ContextCommitted(agent_id=agent, ctx=name))
    return name


@pytest.mark.req("S3-34")
def test_log_without_credentials_arrives_byte_for_byte(ends: Ends) -> None:
    with closing(ends.session()) as session:
        agent = create_agent(session)
        for n in range(20):
            log_user_message(session, agent, f"text {n} é")
        name = committed(ends, session, agent, "what was said")
    assert ends.ship() == (len(ends.here_bytes().splitlines()), 1)
    assert ends.there_bytes() == ends.here_bytes()
    assert materialize(ends.there, name) == materialize(ends.store, name)
    assert ends.ship() == (0, 0)


@pytest.mark.req("S3-34")
def test_grown_log_is_pushed_from_its_last_offset(ends: Ends) -> None:
    with ends.shipper() as shipper, closing(ends.session()) as session:
        agent = create_agent(session)
        for n in range(10):
            log_user_message(session, agent, f"text {n} {KEY}" if n % 3 else f"text {n}")
            committed(ends, session, agent, f"commit {n}")
            result = shipper.ship(session.path)
            assert (result.lines, result.commits) == (2 if n else 4, 1)
    grown = ends.there_bytes()
    (ends.outbox / next(ends.outbox.iterdir()).name / "s.json").unlink()
    assert ends.ship() == (0, 0)
    assert ends.there_bytes() == grown


@pytest.mark.req("S3-34")
def test_long_log_is_pushed_in_chunks_and_resumed(ends: Ends) -> None:
    with closing(ends.session()) as session:
        agent = create_agent(session)
        for n in range(30):
            log_user_message(session, agent, f"{n} {KEY} " + "long " * 10_000)
    assert len(ends.here_bytes()) > 2 * BATCH_BYTES
    ends.ship()
    full_log = ends.there_bytes()
    lines = full_log.splitlines(keepends=True)
    for remaining in (1, 13, 29):
        (ends.logs_there / "s.jsonl").write_bytes(
            b"".join(lines[:remaining]) + lines[remaining][:9]
        )
        assert ends.ship() == (len(lines) - remaining, 0)
        assert ends.there_bytes() == full_log


@pytest.mark.req("S3-34", "D-06")
def test_credentials_are_redacted_and_the_pushed_log_verifies(ends: Ends) -> None:
    with closing(ends.session("first")) as session:
        agent = create_agent(session)
        log_user_message(session, agent, f"use {KEY}")
        name = committed(ends, session, agent, f"use {KEY} there")
    with closing(ends.session("second")) as session:
        agent = session.allocate_agent_id()
        loaded = materialize(ends.store, name).messages
        reported = ""
        for message in loaded:
            reported = extend_context_hash(reported, message)
        session.log_agent_created(agent, None)
        session.append(
            ev.ContextLoaded(agent_id=agent, ctx=name, count=len(loaded), context_hash=reported)
        )
        log_user_message(session, agent, "go on")
    with ends.shipper() as shipper:
        for ctx_name in ("second", "first", "second"):
            shipper.ship(ends.logs / f"{ctx_name}.jsonl")
        assert shipper.credentials is not None
        assert shipper.credentials.kinds == {"aws-key-id": 1}
    for ctx_name in ("first", "second"):
        assert KEY.encode() not in ends.there_bytes(ctx_name)
        path = ends.logs_there / f"{ctx_name}.jsonl"
        Session.load(path, options=session_options(resolver=make_resolver(ends.there))).close()
    assert fsck(ends.there) == []
    assert KEY not in repr(materialize(ends.there, name).messages)
    assert KEY not in ends.there.commits([name])[name].notes.summary
    assert KEY in repr(materialize(ends.store, name).messages)
    before = ends.there_bytes("second")
    (ends.logs_there / "second.jsonl").unlink()
    ends.ship("second")
    assert ends.there_bytes("second") == before


def test_push_without_redaction_is_exact(ends: Ends) -> None:
    with closing(ends.session()) as session:
        agent = create_agent(session)
        log_user_message(session, agent, f"use {KEY}")
        name = committed(ends, session, agent, f"use {KEY} there")
    ends.ship(redacts=False)
    assert ends.there_bytes() == ends.here_bytes()
    assert KEY in repr(materialize(ends.there, name).messages)
    with pytest.raises(LogError, match="has a longer log|other"):
        ends.ship()


def test_partial_line_waits_and_compressed_log_is_pushed_as_lines(ends: Ends) -> None:
    with closing(ends.session()) as session:
        log_user_message(session, create_agent(session), "one")
        log_user_message(session, "agent_001", "two")
    full_log, path = ends.here_bytes(), ends.logs / "s.jsonl"
    path.write_bytes(full_log[:-5])
    ends.ship()
    assert ends.there_bytes() == b"".join(full_log.splitlines(keepends=True)[:-1])
    path.write_bytes(full_log)
    compress_log(path)
    ends.ship()
    assert ends.there_bytes() == full_log
    assert not path.exists()


def test_an_unfinished_group_waits(ends: Ends) -> None:
    with closing(ends.session()) as session:
        agent = create_agent(session)
        with session.group():
            for text in ("one", "two", "three"):
                log_user_message(session, agent, text)
    full_log, path = ends.here_bytes(), ends.logs / "s.jsonl"
    lines = full_log.splitlines(keepends=True)
    for count in (3, 4):
        path.write_bytes(b"".join(lines[:count]))
        ends.ship()
        assert ends.there_bytes() == b"".join(lines[:2])
    path.write_bytes(full_log)
    ends.ship()
    assert ends.there_bytes() == full_log


def test_different_remote_log_is_refused_and_kept(ends: Ends) -> None:
    with closing(ends.session()) as session:
        log_user_message(session, create_agent(session), "one")
    ends.ship()
    remote_data = ends.there_bytes()
    path = ends.logs / "s.jsonl"
    path.unlink()
    with closing(ends.session()) as session:
        log_user_message(session, create_agent(session), "another")
        log_user_message(session, "agent_001", "and more " * 30)
    with pytest.raises(LogError, match="other"):
        ends.ship()
    with closing(Session.load(ends.logs_there / "s.jsonl", options=session_options())) as session:
        log_user_message(session, "agent_001", "gone on with there " * 100)
    with pytest.raises(LogError, match="has a longer log"):
        ends.ship()
    assert ends.there_bytes().startswith(remote_data)


@pytest.mark.parametrize("text", ["two", "a longer text than before", ""])
@pytest.mark.parametrize("has_state", [True, False])
def test_log_of_the_same_name_with_other_content_is_refused(
    ends: Ends, text: str, has_state: bool
) -> None:
    """The other log is as long as the one at the service, longer, or shorter."""
    with closing(ends.session()) as session:
        log_user_message(session, create_agent(session), "one")
    ends.ship()
    data = ends.there_bytes()
    if not has_state:
        shutil.rmtree(ends.outbox)
    (ends.logs / "s.jsonl").unlink()
    with closing(ends.session()) as session:
        agent = create_agent(session)
        if text:
            log_user_message(session, agent, text)
    for _ in range(2):
        with pytest.raises(LogError, match="other log|other lines|longer log"):
            ends.ship()
        assert ends.there_bytes() == data


def test_damaged_log_is_pushed_up_to_the_damage(ends: Ends) -> None:
    with closing(ends.session()) as session:
        agent = create_agent(session)
        for n in range(5):
            log_user_message(session, agent, f"text {n}")
    lines = ends.here_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"text", b"TEXT")
    path = ends.logs / "s.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(LogCorrupted, match="line 5"):
        ends.ship()
    assert ends.there_bytes() == b"".join(lines[:4])
    path.write_bytes(lines[4])
    with pytest.raises(LogCorrupted, match="line 1"):
        ends.ship()
    path.write_bytes(b'{"type":"x"}\n')
    with pytest.raises(InvalidLog, match="older dialects"):
        ends.ship()
    path.unlink()
    with pytest.raises(InvalidLog):
        ends.ship()
    with pytest.raises(InvalidLog, match="letters"):
        ends.ship("ä b")


def test_log_rewritten_while_followed_is_refused(ends: Ends) -> None:
    with ends.shipper() as shipper:
        with closing(ends.session()) as session:
            log_user_message(session, create_agent(session), "one")
        shipper.ship(session.path)
        session.path.unlink()
        with closing(ends.session()) as session:
            log_user_message(session, create_agent(session), "another one " * 100)
        with pytest.raises(InvalidLog, match="was replaced"):
            shipper.ship(session.path)
        with pytest.raises(LogError, match="other"):
            shipper.ship(session.path)


def test_missing_commits_are_reported_and_pushed_later(ends: Ends) -> None:
    local_store = ends.store
    with closing(ends.session()) as session:
        name = committed(ends, session, create_agent(session), "one")
    ends.store = MemoryStore()
    with ends.shipper() as shipper:
        assert shipper.ship(session.path).lacking == {name}
        assert shipper.ship(session.path).lacking == set()
        shipper.store = local_store
        assert shipper.ship(session.path).commits == 1
        assert shipper.ship(session.path).commits == 0
    assert name in ends.there.commits([name])


def test_log_with_a_structural_credential_needs_no_redact(ends: Ends) -> None:
    with closing(ends.session()) as session:
        log_user_message(session, create_agent(session), "one")
    last, path = b"", ends.logs / "s.jsonl"
    sealed: list[bytes] = []
    for line in ends.here_bytes().splitlines(keepends=True):
        new, last = seal(last, line.replace(b"agent_001", KEY.encode())[BODY] + b"}")
        sealed.append(new)
    path.write_bytes(b"".join(sealed))
    with pytest.raises(InvalidLog, match="--no-redact") as refused:
        ends.ship()
    assert KEY not in str(refused.value)
    assert not (ends.logs_there / "s.jsonl").exists()
    ends.ship(redacts=False)
    assert (ends.logs_there / "s.jsonl").read_bytes() == ends.here_bytes()


def test_push_to_a_service_is_exclusive_to_one_process(ends: Ends) -> None:
    with (
        open_outbox(ends.outbox, ends.url),
        pytest.raises(ConfigError, match="is already shipping to"),
        open_outbox(ends.outbox, ends.url),
    ):
        pass
    with open_outbox(ends.outbox, "unix:/run/s"), open_outbox(ends.outbox, "https://" + "x" * 300):
        pass
    (ends.outbox.parent / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="cannot be created"),
        open_outbox(ends.outbox.parent / "file", ends.url),
    ):
        pass


def test_stale_outbox_is_removed_and_invalid_state_ignored(
    ends: Ends,
) -> None:
    with open_outbox(ends.outbox, ends.url) as outbox:
        outbox.write_state("s", ShipState(lines=3, last_sum="0" * 16))
        assert outbox.read_state("s").lines == 3
        folder = next(ends.outbox.iterdir())
        (folder / ".staging-1").mkdir()
        for text in ("", "{", "[]", '{"lines":"x"}', "[" * 100_000):
            (folder / "s.json").write_text(text)
            assert outbox.read_state("s") == ShipState()
    with open_outbox(ends.outbox, ends.url):
        assert not (folder / ".staging-1").exists()
    assert folder.stat().st_mode & 0o077 == 0


def test_unreachable_service_is_reported(tmp_path: Path) -> None:
    far = RemoteStore("http://127.0.0.1:9", token=TOKEN, patience_s=0)
    with closing(far), open_outbox(tmp_path / "outbox", far.address) as outbox:
        shipper = Shipper(MemoryStore(), far, outbox, Credentials())
        with pytest.raises(StoreUnavailable):
            shipper.check()
