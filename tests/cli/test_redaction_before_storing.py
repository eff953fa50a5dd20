"""With `redact = "store"`, no credential is in anything that is stored, and the rest is exact."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harken import Hook, HookQuestion, register_agent_class
from harken.chat.hook_errors import FILE_NAME
from harken.core.messages import text_of
from harken.core.secrets.redaction import Credentials
from harken.core.verdict import Verdict
from harken.session.session import Session
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli
from tests.cli.test_proxy import body, kept, proxy
from tests.cli.test_run import Client
from tests.proxy_kit import run_provider
from tests.redaction_kit import (
    ANTHROPIC,
    AWS,
    CONFIG,
    CREDENTIALS,
    GITHUB,
    find_in_home,
    gzip,
    redact_before_storing,
)
from tests.regression.test_companion_files import SESSION
from tests.regression.test_compressed_rollouts import rollout
from tests.regression.test_native_bytes import transcript
from tests.unit.capture.live.client_lines import Stream, use, words
from tests.unit.formats.runtimes.opencode.test_reader import TALK, write_database
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

MARKED = "[redacted aws-key-id]"


@pytest.fixture(autouse=True)
def configured(cli: Cli) -> None:
    redact_before_storing(cli.home)


def chat_script(folder: Path, answer: str) -> str:
    path = folder / "script.yaml"
    rules = [
        {"pattern": "credential that is not stored", "answer": "I cannot."},
        {"pattern": "print", "calls": [{"bash": {"command": "cat secret.env"}}]},
        {"pattern": "read", "calls": [{"read": {"path": "secret.env"}}]},
        {"pattern": "write", "calls": [{"write": {"path": "out.txt", "content": f"AWS={AWS}\n"}}]},
        {"answer": answer},
    ]
    path.write_text(json.dumps({"rules": rules}))
    return f"scripted:{path}"


@pytest.mark.req("D-06", "D-03")
def test_a_chat_stores_no_credential_and_its_resume_is_what_was_stored(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.env").write_text(f"AWS={AWS}\n")
    options = ("--model", chat_script(tmp_path, f"It is {GITHUB}."), "--permission", "all")
    result = cli.ok("chat", *options, "-p", f"read with {ANTHROPIC}")
    assert result.out == f"It is {GITHUB}.\n", "the user sees the answer"
    kinds = "anthropic-key (1), aws-key-id (1), github-token (1)"
    assert f"credentials redacted, and not stored: {kinds}" in result.err
    assert find_in_home(cli.home) == set()
    [log] = cli.sessions()
    with Session.load(log) as session:
        texts = [text_of(message.content) for message in session.context("agent_001")]
    assert "read with [redacted anthropic-key]" in texts
    assert f"AWS={MARKED}" in texts[-2]
    assert texts[-1] == "It is [redacted github-token]."
    [first, *_] = cli.ok("ctx", "log", "--json").json
    shown = cli.ok("ctx", "cat", first["id"]).out
    assert MARKED in shown
    cli.ok("store", "fsck")


def test_a_tool_does_not_act_with_a_placeholder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that an agent reads and writes back would lose its credential."""
    monkeypatch.chdir(tmp_path)
    options = ("--model", chat_script(tmp_path, "Done."), "--permission", "all")
    result = cli.ok("chat", *options, "-p", "write it")
    assert result.out == "I cannot.\n"
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.req("D-06")
def test_the_long_output_of_a_command_is_not_in_the_home(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.env").write_text(f"AWS={AWS}\n" * 20_000)
    options = ("--model", chat_script(tmp_path, "Done."), "--permission", "all")
    cli.ok("chat", *options, "-p", "print it")
    assert find_in_home(cli.home) == set()
    assert not (cli.home / "outputs").exists()
    [log] = cli.sessions()
    assert MARKED.encode() in log.read_bytes()


@register_agent_class("test-hook-with-a-secret")
class HookWithSecret(Hook):
    """Fails with a credential in its error."""

    def judge(self, question: HookQuestion) -> Verdict:
        raise LookupError(f"no account for {GITHUB}")


@pytest.mark.req("D-06")
def test_the_traceback_of_a_hook_is_written_without_credentials(cli: Cli, tmp_path: Path) -> None:
    (cli.home / "hooks").mkdir()
    (cli.home / "hooks/guard.md").write_text("---\nuse: test-hook-with-a-secret\n---\n")
    (cli.home / "config.toml").write_text(CONFIG + '[hooks]\nuse = ["guard"]\n')
    cli("chat", "--model", chat_script(tmp_path, "Yes."), "-p", "Hello.")
    assert "no account for [redacted github-token]" in (cli.home / FILE_NAME).read_text()
    assert find_in_home(cli.home) == set()


@pytest.mark.req("D-06")
def test_a_run_of_a_client_stores_no_credential(tmp_path: Path) -> None:
    client = Client(tmp_path)
    redact_before_storing(client.home)
    stream = Stream()
    stream.init()
    stream.answer("msg_1", use("t1", command=f"AWS_ACCESS_KEY_ID={AWS} ls"))
    stream.result("t1", f'{{"env": {{"GITHUB_TOKEN": "{GITHUB}"}}}}')
    stream.answer("msg_2", words("Bye."))
    stream.end()
    client.script("claude", client.lines("lines", stream))
    code, _, err = client.run("--", "claude", "-p", f"Use {ANTHROPIC}.")
    assert code == 0
    assert b"credentials redacted, and not stored: anthropic-key (1), aws-key-id (1)" in err
    assert find_in_home(client.home) == set()
    assert client.said(client.commits()[-1].id)[0] == "user: Use [redacted anthropic-key]."


def import_file(cli: Cli, path: Path) -> dict[str, Any]:
    result = cli.ok("import", path, "--json")
    [row] = [json.loads(line) for line in result.out.splitlines()]
    assert "credentials redacted, and not stored: aws-key-id (1)" in result.err
    found: dict[str, Any] = row
    return found


def export(cli: Cli, row: dict[str, Any], folder: Path) -> bytes:
    result = cli.ok(
        "export", row["tips"][0]["ctx"], "--format", row["format"], "-o", folder / "out"
    )
    assert "without the credentials that were redacted before they were stored" in result.err
    assert "as they were imported" not in result.err
    return (folder / "out").read_bytes()


@pytest.mark.req("D-06", "D-04")
@pytest.mark.parametrize("times", [1, 60_000], ids=["small", "large"])
def test_an_import_stores_no_credential_and_gives_back_what_it_stored(
    cli: Cli, tmp_path: Path, times: int
) -> None:
    made = Transcript()
    made.user(f"The key is\n{AWS}.")
    for number in range(3):
        made.answer(text_block(f"{number} " + "So. " * 40 * times), tool_use_block(f"c{number}"))
        made.result(f"c{number}", "Yes.")
    made.answer(text_block("Done."))
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    row = import_file(cli, path)
    assert row["redacted"] == {"aws-key-id": 1}
    assert find_in_home(cli.home) == set()
    assert export(cli, row, tmp_path) == made.data.replace(AWS.encode(), MARKED.encode())
    again = cli.ok("import", path)
    assert "redacted" not in again.err
    cli.ok("store", "fsck")


def write_compressed(folder: Path, text: str) -> Path:
    path = folder / "rollout-2026-01-31T12-00-00-019f17a5-0000-7000-8000-000000000001.jsonl.zst"
    path.write_bytes(zstandard.compress(rollout(1, text, "Yes.")))
    return path


def write_opencode(folder: Path, text: str) -> Path:
    path = write_database(folder / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    with closing(sqlite3.connect(path)) as database, database:
        for table, column in (("session", "title"), ("part", "data")):
            rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
            for rowid, value in rows:
                new = value.replace("title of", text) if column == "title" else value
                query = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                database.execute(query, [new, rowid])
    return path


@pytest.mark.req("D-06")
@pytest.mark.parametrize("write", [write_compressed, write_opencode])
def test_a_file_that_is_no_text_is_stored_without_credentials(
    cli: Cli, tmp_path: Path, write: Callable[[Path, str], Path]
) -> None:
    path = write(tmp_path, f"my {AWS}")
    before = path.read_bytes()
    row = import_file(cli, path)
    data = export(cli, row, tmp_path)
    assert path.read_bytes() == before
    assert find_in_home(cli.home) == set()
    content = (
        zstandard.ZstdDecompressor().decompressobj().decompress(data)
        if write is (write_compressed)
        else data
    )
    assert MARKED.encode() in content
    assert AWS.encode() not in content


@pytest.mark.req("D-06")
def test_outputs_beside_a_transcript_are_stored_without_credentials(
    cli: Cli, tmp_path: Path
) -> None:
    made = Transcript(SESSION)
    made.user("Look at it.")
    made.answer(tool_use_block("toolu_1", command="env"))
    made.result("toolu_1", "see the file")
    made.answer(text_block("Done."))
    (tmp_path / f"{SESSION}.jsonl").write_bytes(made.data)
    outputs = tmp_path / SESSION / "tool-results"
    outputs.mkdir(parents=True)
    (outputs / "toolu_1.txt").write_text(f"AWS={AWS}\n" * 1000)
    cli.ok("import", tmp_path / f"{SESSION}.jsonl")
    assert find_in_home(cli.home) == set()
    [session] = cli.ok("sessions", "--json").json
    commits = cli.ok("ctx", "log", session["tips"][0]["ctx"], "--json").json
    with closing(SqliteStore(cli.home / "store.db")) as store:
        deltas = store.deltas([row["artifact"] for row in commits])
        sources = [entry.source for entries in deltas.values() for entry in entries]
        [output] = [source["output"] for source in sources if source and "output" in source]
        data = store.raw(output["artifact"])
    assert data == f"AWS={MARKED}\n".encode() * 1000
    assert output["bytes"] == len(data)


@pytest.mark.req("D-06")
def test_a_transcript_that_grows_is_followed_without_credentials(cli: Cli, tmp_path: Path) -> None:
    path, made = tmp_path / "a.jsonl", Transcript()
    for text in ("Hello.", f"Use {AWS}.", "Thanks."):
        made.user(text)
        made.answer(text_block("Yes."))
        path.write_bytes(made.data)
        cli.ok("watch", path, "--once")
        assert find_in_home(cli.home) == set()
    [session] = cli.ok("sessions", "--json").json
    row = {"tips": session["tips"], "format": "claude-code-v1"}
    assert export(cli, row, tmp_path) == made.data.replace(AWS.encode(), MARKED.encode())


def test_without_the_setting_an_import_is_byte_for_byte(cli: Cli, tmp_path: Path) -> None:
    (cli.home / "config.toml").write_text('redact = "export"\n')
    path = tmp_path / "a.jsonl"
    path.write_bytes(transcript().replace(b"Nobody.", AWS.encode()))
    result = cli.ok("import", path, "--json")
    assert "redacted" not in result.err + result.out
    tip = json.loads(result.out)["tips"][0]["ctx"]
    result = cli.ok("export", tip, "--format", "claude-code-v1", "-o", tmp_path / "out")
    assert "as they were imported" in result.err
    assert (tmp_path / "out").read_bytes() == path.read_bytes()
    assert find_in_home(cli.home) == {AWS}


@pytest.mark.req("D-06")
@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_proxy_stores_no_credential(tmp_path: Path, *, is_compressed: bool) -> None:
    home = tmp_path / "home"
    redact_before_storing(home)
    with run_provider() as url, proxy(home, url) as running:

        def send(*texts: str) -> None:
            data, headers = body(*texts), {}
            if is_compressed:
                data, headers = gzip(data), {"Content-Encoding": "gzip"}
            running.address.request("/v1/messages", data, headers=headers)

        send(f"Use {AWS}.")
        assert "aws-key-id (1)" in str(running.until("told"))
        first = running.until("session")
        answer = "The kettle is on the fire and whistles "
        send(f"Use {AWS}.", answer, f"And {ANTHROPIC}?")
        assert running.until("session")["session"] == first["session"], "the calls match"
        assert not any(text.encode() in data for data in kept(home) for text in CREDENTIALS)
        running.process.send_signal(2)
        running.process.communicate(timeout=60)
    assert find_in_home(home) == set()
    assert any(MARKED.encode() in data for data in kept(home / "sessions"))


@pytest.mark.req("D-06")
def test_a_checkpoint_stores_no_credential(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "messages.json"
    file.write_text(json.dumps([{"role": "user", "content": f"Use {AWS}."}]))
    result = cli.ok("ctx", "checkpoint", file, "--branch", "main", "--summary", f"about {GITHUB}")
    assert "credentials redacted, and not stored: aws-key-id (1), github-token (1)" in result.err
    cli.ok("ctx", "compact", "main", f"They used {ANTHROPIC}.")
    assert find_in_home(cli.home) == set()
    assert MARKED in cli.ok("ctx", "cat", "main").out


def test_another_value_is_refused(cli: Cli, tmp_path: Path) -> None:
    (cli.home / "config.toml").write_text('redact = "always"\n')
    refusal = cli.refused("import", tmp_path)
    assert "redact: must be one of export, store" in refusal


def test_a_file_of_credentials_is_counted_once_for_each(tmp_path: Path) -> None:
    pieces = [AWS[:7].encode(), AWS[7:].encode() + b" ", f"{GITHUB} {AWS}".encode()]
    credentials = Credentials()
    assert b"".join(credentials.replace_in_pieces(pieces)) == (
        f"{MARKED} [redacted github-token] {MARKED}".encode()
    )
    assert credentials.summary == "aws-key-id (1), github-token (1)"
