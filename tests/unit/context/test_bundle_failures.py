"""Bundles that cannot be written or imported: one line, and no file is left."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from harken.context.bundle.create import BundleRequest, create_bundle
from harken.context.bundle.open import import_bundle, open_bundle
from harken.core.commits import ArtifactRef, TicketId, encode_sequence, hash_raw
from harken.errors import BundleError
from harken.session.session import Session
from harken.store.base import Store, WriteBatch
from harken.store.memory import MemoryStore
from tests.session_kit import log_user_message, session_options
from tests.unit.context.kit import NOON, commit

KEY, OTHER = "ghp_" + "k" * 36, "ghp_" + "m" * 36
TICKET = TicketId("tkt-" + "1" * 64)


def write_log(folder: Path, *, agent_id: str = "agent_001", text: str = "hello") -> Path:
    folder.mkdir(exist_ok=True)
    with Session(folder / "s.jsonl", options=session_options()) as session:
        session.log_agent_created(agent_id, None)
        log_user_message(session, agent_id, text)
    return session.path


def write_bundle(out: Path, store: Store, *logs: Path, as_is: bool = False) -> Path:
    tip = commit(store, None, "Hi")
    create_bundle(
        out, BundleRequest(store=store, tips=[tip], logs=logs, created_at=NOON, as_is=as_is)
    )
    return out


@pytest.mark.parametrize("is_link", [False, True])
def test_existing_file_is_not_replaced(tmp_path: Path, is_link: bool) -> None:
    out = tmp_path / "out.zip"
    if is_link:
        out.symlink_to(tmp_path / "nowhere")
    else:
        out.write_bytes(b"mine")
    with pytest.raises(BundleError, match="exists"):
        write_bundle(out, MemoryStore())
    assert [*tmp_path.iterdir()] == [out]
    assert not is_link or not out.exists()


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot be written: No such file"):
        write_bundle(tmp_path / "none" / "out.zip", MemoryStore())


def test_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    out, store = tmp_path / "out.zip", MemoryStore()
    request = BundleRequest(store=store, tips=[commit(store, None, "Hi")], created_at=NOON)

    def write_file(_done: int, _total: int) -> None:
        out.write_bytes(b"mine")

    with pytest.raises(BundleError, match="exists"):
        create_bundle(out, request, on_pack=write_file)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zip"]
    assert out.read_bytes() == b"mine"


def test_log_that_would_be_invalid_without_a_credential_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs", agent_id=KEY)
    with pytest.raises(BundleError, match="part of an id or a name that other lines use"):
        write_bundle(tmp_path / "out.zip", MemoryStore(), log)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    write_bundle(tmp_path / "out.zip", MemoryStore(), log, as_is=True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_refused(tmp_path: Path, method: int) -> None:
    bundle = write_bundle(tmp_path / "out.zip", MemoryStore())
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(other, "w", method) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(BundleError, match="packed in an unknown way"), open_bundle(other, tmp_path):
        pass


def test_zip_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("store.db", b"")
    with pytest.raises(BundleError, match="it has no manifest"), open_bundle(path, tmp_path):
        pass
    assert [*tmp_path.iterdir()] == [path]


def test_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "out.zip", MemoryStore(), write_log(tmp_path / "logs"))
    with (
        open_bundle(bundle, tmp_path) as opened,
        pytest.raises(BundleError, match=r"s\.jsonl: cannot be imported"),
    ):
        import_bundle(opened, MemoryStore(), tmp_path / "no folder")


def test_tickets_are_imported_with_their_versions(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    versions: list[ArtifactRef] = []
    for text in (b"created", b"claimed"):
        members = [hash_raw(text), *versions[-1:]]
        version = encode_sequence(members)[0]
        source.write(WriteBatch(raw={members[0]: text}, sequences={version: members}))
        versions.append(version)
    source.move_head(TICKET, versions[-1], expected=None)
    out = tmp_path / "out.zip"
    request = BundleRequest(store=source, tickets=[TICKET], created_at=NOON)
    assert create_bundle(out, request).tickets == 1
    with open_bundle(out, tmp_path) as bundle:
        results = [import_bundle(bundle, target, tmp_path).tickets for _ in range(2)]
    assert [result.created for result in results] == [[TICKET], []]
    assert target.heads() == {TICKET: versions[-1]}
    assert target.sequences(versions).keys() == {*versions}


@pytest.mark.parametrize("as_is", [False, True])
def test_credentials_are_counted_in_both_ways(tmp_path: Path, as_is: bool) -> None:
    store, out = MemoryStore(), tmp_path / "out.zip"
    tip = commit(store, None, f"my key is {KEY}")
    logs = [write_log(tmp_path / "logs", text=f"and {OTHER}, and {KEY}")]
    result = create_bundle(
        out, BundleRequest(store=store, tips=[tip], logs=logs, created_at=NOON, as_is=as_is)
    )
    assert result.credentials == {"github-token": 2}
    with open_bundle(out, tmp_path) as bundle:
        assert (bundle.manifest.redaction is None) is as_is
        [log] = bundle.logs
        assert (KEY.encode() in log.path.read_bytes()) is as_is
        assert any(KEY.encode() in obj.body for obj in bundle.store.iter_objects()) is as_is
