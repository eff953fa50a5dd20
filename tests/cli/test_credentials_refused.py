"""With `redact = "store"`, content that cannot be redacted is refused in one line, not stored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harken.context.bundle.open import import_bundle, open_bundle
from harken.core.commits import hash_raw
from harken.core.secrets.redaction import find_kind
from harken.errors import BundleError, CredentialInLog, CredentialRefused
from harken.service.log_routes import Logs
from harken.session.log.copy import LogFolder, verify_log
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.store.refusing_store import RefusingStore
from harken.store.remote.errors import RequestRefused
from harken.store.remote.refusing_store import RefusingRemoteStore
from tests.cli.kit import Cli
from tests.cli.test_redaction_before_storing import chat_script
from tests.redaction_kit import AWS, GITHUB, find_in_home, redact_before_storing
from tests.unit.formats.transcript_kit import Transcript, text_block

pytestmark = pytest.mark.req("D-06")


@pytest.fixture
def redacting(cli: Cli) -> Cli:
    redact_before_storing(cli.home)
    return cli


@contextmanager
def storing_everything(cli: Cli) -> Iterator[None]:
    """Turn the setting off in the block."""
    config = cli.home / "config.toml"
    config.unlink()
    yield
    redact_before_storing(cli.home)


def talk(cli: Cli, folder: Path, text: str) -> Path:
    cli.ok("chat", "--model", chat_script(folder, "Yes."), "-p", text)
    return cli.sessions()[-1]


def test_tickets_labels_and_branches_with_credentials_are_refused(
    redacting: Cli, tmp_path: Path
) -> None:
    talk(redacting, tmp_path, "Hello.")
    [tip] = redacting.ok("ctx", "log", "-n", "1", "--json").json
    for command in (
        ("ticket", "create", f"Use {AWS}"),
        ("ctx", "label", tip["id"], f"label-{AWS}"),
        ("ctx", "branch", f"branch-{AWS}", tip["id"]),
    ):
        refusal = redacting.refused(*command)
        assert "contains a credential (aws-key-id) and was not written" in refusal
        assert AWS not in refusal
    redacting.ok("ticket", "create", "Use the key")
    assert find_in_home(redacting.home) == set()


def test_a_name_with_a_credential_is_refused(redacting: Cli, tmp_path: Path) -> None:
    refusal = redacting.refused(
        "chat", "--model", chat_script(tmp_path, "Yes."), "--name", AWS, "-p", "Hello."
    )
    assert "(aws-key-id)" in refusal
    assert AWS not in refusal
    made = Transcript()
    made.user("Hello.")
    made.answer(text_block("Yes."))
    (tmp_path / "files" / AWS).mkdir(parents=True)
    (tmp_path / "files" / AWS / "a.jsonl").write_bytes(made.data)
    (tmp_path / "files" / "b.jsonl").write_bytes(made.data.replace(b"Hello.", b"Good day."))
    result = redacting("import", tmp_path / "files")
    assert "its name has a credential (aws-key-id), and names are stored; rename it" in (
        result.out + result.err
    )
    assert AWS not in result.out + result.err
    assert len(redacting.ok("sessions", "--json").json) == 1, "the other file is imported"
    assert find_in_home(redacting.home) == set()


def test_logs_with_credentials_are_not_copied(redacting: Cli, tmp_path: Path) -> None:
    with storing_everything(redacting):
        log = talk(redacting, tmp_path, f"Use {AWS}.")
        bundle = tmp_path / "all.zip"
        redacting.ok("store", "bundle", "create", "-o", bundle, "--no-redact")
        redacting.ok("store", "bundle", "create", "-o", tmp_path / "safe.zip")
        redacting.ok("interactions", "export", log.stem, tmp_path / "rows", "--no-redact")
        redacting.ok("interactions", "export", log.stem, tmp_path / "safe-rows")
    refusal = redacting.refused("fork", log.stem, "--name", "again")
    assert "contains a credential (aws-key-id) and was not written" in refusal
    moved = tmp_path / "moved.jsonl"
    shutil.copy(log, moved)
    other = tmp_path / "other"
    redact_before_storing(other)
    home = ("--home", str(other))
    result = redacting("import", moved, *home)
    assert result.code != 0
    assert "contains a credential (aws-key-id)" in result.err
    for refused in (
        ("store", "bundle", "open", bundle, *home),
        ("interactions", "import", tmp_path / "rows", *home),
    ):
        assert "contains a credential (aws-key-id)" in redacting.refused(*refused)
    assert find_in_home(other) == set()
    with (
        open_bundle(bundle, tmp_path) as opened,
        pytest.raises(BundleError, match="contains a credential"),
    ):
        import_bundle(opened, MemoryStore(), other / "sessions", refuses_credentials=True)
    redacting.ok("store", "bundle", "open", tmp_path / "safe.zip", *home)
    redacting.ok("interactions", "import", tmp_path / "safe-rows", *home)
    assert find_in_home(other) == set()


def test_a_service_refuses_a_log_with_a_credential(redacting: Cli, tmp_path: Path) -> None:
    with storing_everything(redacting):
        log = talk(redacting, tmp_path, f"Use {AWS}.")
    received = tmp_path / "received"
    received.mkdir()
    with pytest.raises(RequestRefused, match="a line has a credential .aws-key-id."):
        Logs(received, refuses_credentials=True).receive("a", 0, log.read_bytes())
    assert list(received.iterdir()) == []
    Logs(received).receive("a", 0, log.read_bytes())
    assert (received / "a.jsonl").read_bytes() == log.read_bytes()


def test_a_log_whose_name_is_a_credential_is_not_copied(redacting: Cli, tmp_path: Path) -> None:
    log = talk(redacting, tmp_path, "Hello.")
    copy = tmp_path / f"{GITHUB}.jsonl"
    shutil.copy(log, copy)
    received = tmp_path / "received"
    received.mkdir()
    with pytest.raises(CredentialInLog, match="its name contains a credential") as refusal:
        LogFolder(received, refuses_credentials=True).add(verify_log(copy))
    assert GITHUB not in str(refusal.value)
    logs = Logs(received, refuses_credentials=True)
    with pytest.raises(RequestRefused, match="the name has a credential .github-token."):
        logs.receive(GITHUB, 0, log.read_bytes())
    assert list(received.iterdir()) == []


def test_a_store_refuses_a_credential_in_any_object(tmp_path: Path) -> None:
    data = json.dumps({"key": AWS}).encode()
    batch = WriteBatch(raw={hash_raw(data): data})
    store = RefusingStore(tmp_path / "store.db")
    with pytest.raises(CredentialRefused):
        store.write(batch)
    with pytest.raises(CredentialRefused):
        RefusingRemoteStore("http://127.0.0.1:9").write(batch)
    store.close()
    assert AWS.encode() not in (tmp_path / "store.db").read_bytes()


def test_a_chunk_may_begin_and_end_inside_of_a_placeholder() -> None:
    assert find_kind(b'{"password": "[redac', is_chunk=True) == ""
    assert find_kind(b'{"password": "hunter2hunter2"', is_chunk=True) == "password"
    assert find_kind(AWS.encode(), is_chunk=True) == "aws-key-id"
    assert find_kind(b'{"a": "\\u0041' + AWS[1:].encode() + b'"}') == "aws-key-id"


def test_a_rerun_stores_no_credential(redacting: Cli, tmp_path: Path) -> None:
    log = talk(redacting, tmp_path, "Hello.")
    model = chat_script(tmp_path, f"It is {GITHUB}.")
    result = redacting.ok(
        "rerun", log.stem, "--at", "1", "--edit", f"#1=Use {AWS}", "--model", model
    )
    assert "aws-key-id (1)" in result.err
    assert find_in_home(redacting.home) == set()
    redacting.ok("store", "fsck")


def test_the_error_of_a_log_names_no_credential(tmp_path: Path) -> None:
    error = CredentialInLog(tmp_path / "a.jsonl", kind="aws-key-id")
    assert "\n" not in str(error)
    assert "harken store purge" in str(error)


def test_watch_names_a_file_that_it_does_not_import(redacting: Cli, tmp_path: Path) -> None:
    made = Transcript()
    made.user("Hello.")
    made.answer(text_block("Yes."))
    outputs = tmp_path / "files" / "a" / "tool-results"
    outputs.mkdir(parents=True)
    (tmp_path / "files" / "a.jsonl").write_bytes(made.data)
    (outputs / "b.txt").write_bytes(f"key {AWS}".encode("utf-16"))
    result = redacting.ok("watch", "--once", tmp_path / "files")
    assert result.out.endswith("Hello.: Yes.\n")
    [line] = result.err.splitlines()
    assert line.startswith("harken: not imported: ")
    assert line.endswith(
        "b.txt: it is text in UTF-16: its credentials cannot be removed, so it is not stored"
    )
    assert "so it is not stored" in redacting("import", tmp_path / "files").out
