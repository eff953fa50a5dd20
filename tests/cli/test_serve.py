"""`harken serve`, as a process of its own, and chats that commit to it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen

import pytest

from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.cli import kit
from tests.cli.kit import Cli, one_line, start
from tests.unit.formats.transcript_kit import Transcript, text_block


def serving(home: Path, *options: str) -> AbstractContextManager[tuple[Popen[str], str]]:
    """Run `harken serve` as a process; yield it, and its address."""
    return kit.serving("serve", "--home", home, *options)


def ended(process: Popen[str], how: signal.Signals) -> tuple[int, str, str]:
    process.send_signal(how)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@pytest.mark.req("D-07")
def test_it_serves_the_store_of_the_home_and_says_where_the_token_is(tmp_path: Path) -> None:
    home, batch = tmp_path / "home", batch_of("Hi")
    with serving(home, "--port", "0") as (process, address):
        file = home / "service.token"
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        store = RemoteStore(address, token=token)
        store.write(batch)
        store.close()
        code, out, err = ended(process, signal.SIGTERM)
    assert (code, out, err) == (0, "", "")
    kept = SqliteStore(home / "store.db")
    assert commit_in(batch) in kept.commits([commit_in(batch)])
    kept.close()
    with serving(home, "--port", "0"):
        assert file.read_text().strip() == token  # made once


def test_it_serves_the_configured_store_unless_that_is_a_service(tmp_path: Path) -> None:
    home, other, batch = tmp_path / "home", tmp_path / "other.db", batch_of("Hi")
    home.mkdir()
    for url, file in ((f"sqlite:{other}", other), ("http://127.0.0.1:9", home / "store.db")):
        (home / "config.toml").write_text(f"[store]\nurl = {json.dumps(url)}\n")
        with serving(home, "--port", "0") as (_, address):
            store = RemoteStore(address, token=(home / "service.token").read_text().strip())
            assert commit_in(batch) not in store.commits([commit_in(batch)])
            store.write(batch)
            store.close()
        kept = SqliteStore(file)
        assert commit_in(batch) in kept.commits([commit_in(batch)])
        kept.close()


def test_at_a_unix_socket_it_needs_no_token_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with serving(tmp_path / "home", "--socket", str(path)) as (process, address):
        assert address == f"unix:{path}"
        store = RemoteStore(socket=path)
        assert store.newest_commits() == []
        store.close()
        assert ended(process, signal.SIGINT)[::2] == (0, "")
    assert not path.exists()
    assert not (tmp_path / "home" / "service.token").exists()


def test_what_is_running_is_answered_before_it_stops(tmp_path: Path) -> None:
    """Signals come while many write: whoever is answered is kept, whoever is not is told."""
    with serving(tmp_path / "home", "--port", "0") as (process, address):
        token = (tmp_path / "home" / "service.token").read_text().strip()
        script = (
            "import sys\n"
            "from harken.errors import StoreError\n"
            "from harken.store.remote.store import RemoteStore\n"
            "from harken.testing.store import batch_of, commit_in\n"
            "store = RemoteStore(sys.argv[1], token=sys.argv[2], patience_s=0)\n"
            "for n in range(10**6):\n"
            "    batch = batch_of(f'{n}')\n"
            "    try:\n"
            "        store.write(batch)\n"
            "    except StoreError:\n"
            "        break\n"
            "    print(commit_in(batch), flush=True)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, address, token], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            first = [writer.stdout.readline().strip() for _ in range(5)]
            code, _, err = ended(process, signal.SIGTERM)
            written = [*first, *writer.communicate(timeout=20)[0].split()]
    assert (code, err) == (0, "")
    kept = SqliteStore(tmp_path / "home" / "store.db")
    assert set(written) <= set(kept.newest_commits(10**6))
    kept.close()


def test_it_stops_by_itself_when_nobody_asks(tmp_path: Path) -> None:
    before = time.monotonic()
    ran = start(tmp_path / "home", "serve", "--port", "0", "--idle-timeout", "0.3s")
    assert ran.returncode == 0
    assert time.monotonic() - before < 20
    said = ran.stdout.decode()
    assert f"token is in {tmp_path}/home/service.token; Ctrl-C ends it." in said
    token = (tmp_path / "home" / "service.token").read_text().strip()
    assert token not in said + ran.stderr.decode()


def test_what_cannot_be_served_is_said_on_one_line(cli: Cli, tmp_path: Path) -> None:
    assert "--open-to-network" in cli.refused("serve", "--host", "0.0.0.0")
    (tmp_path / "open").mkdir(mode=0o755)
    assert "chmod 700" in cli.refused("serve", "--socket", tmp_path / "open" / "s")
    cli.home.mkdir(mode=0o700, exist_ok=True)
    (cli.home / "service.token").touch(0o644)
    (cli.home / "service.token").chmod(0o644)
    assert "other users can read" in cli.refused("serve", "--port", "0")


def test_without_the_extra_it_names_it(tmp_path: Path) -> None:
    """In a Python that finds no FastAPI."""
    hides = tmp_path / "hidden" / "fastapi"
    hides.mkdir(parents=True)
    (hides / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'fastapi'\", name='fastapi')"
    )
    path = os.pathsep.join([str(hides.parent), *sys.path])
    ran = start(tmp_path / "home", "serve", PYTHONPATH=path)
    assert ran.returncode == 2
    assert "pip install 'harken[service]'" in one_line(ran.stderr.decode())


@pytest.mark.req("S2-22")
def test_a_chat_commits_to_a_service_and_another_begins_there(
    cli: Cli, script: str, tmp_path: Path
) -> None:
    far = tmp_path / "far"
    with serving(far, "--port", "0") as (_, address):
        cli.environ["HARKEN_STORE_TOKEN"] = (far / "service.token").read_text().strip()
        cli.ok("chat", "--model", script, "--store", address, "-p", "make Ann")
        kept = SqliteStore(far / "store.db")
        [tip] = kept.newest_commits(1)
        before = len(kept.newest_commits(100))
        cli.home.joinpath("config.toml").write_text(f'[store]\nurl = "{address}"\n')
        cli.ok("chat", "--model", script, "--from-commit", tip[:12], "-p", "hello")
        assert len(kept.newest_commits(100)) > before
        assert kept.chain(kept.newest_commits(1)[0])[1].id == tip
        kept.close()
    assert not (cli.home / "store.db").exists()


def test_a_token_is_asked_for_and_is_never_sent_elsewhere(cli: Cli, script: str) -> None:
    cli.home.mkdir(mode=0o700, exist_ok=True)
    for address in ("http://127.0.0.1:9", "https://harken.example"):
        said = cli.refused("chat", "--model", script, "--store", address, "-p", "hello")
        assert "HARKEN_STORE_TOKEN" in said


def test_a_project_does_not_say_where_conversations_go(cli: Cli, script: str) -> None:
    Path(".harken").mkdir()
    Path(".harken/config.toml").write_text('[store]\nurl = "https://a.example"\n')
    cli.ok("trust")
    said = cli.refused("chat", "--model", script, "-p", "hello")
    assert "only config.toml in your home folder may set it" in said


def test_what_is_imported_goes_into_the_store_that_is_configured_and_is_found_there(
    cli: Cli, tmp_path: Path
) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text_block("It is."))
    file = tmp_path / "a.jsonl"
    file.write_bytes(made.data)
    with serving(tmp_path / "there", "--socket", str(tmp_path / "s.sock")) as (_, address):
        cli.home.mkdir()
        (cli.home / "config.toml").write_text(f'[store]\nurl = "{address}"\n')
        (row,) = [json.loads(line) for line in cli.ok("import", file, "--json").out.splitlines()]
        assert cli.ok("cat", row["raw"]).out == made.data.decode()
        assert "0 new commits" in cli.ok("import", file).out
        assert f"claude:{made.session[:8]}" in cli.ok("sessions").out
        assert "It is." in cli.ok("view", made.session, "transcript", "main").out
        assert "cafe open" in cli.ok("search", "cafe").out
        assert cli.ok("stats", "--json").json["amplification"]["responses"] == 1
        made.user("Since when?")
        file.write_bytes(made.data)
        assert "Since when?" in cli.ok("watch", "--once", file).out
    assert not (cli.home / "store.db").exists()
    kept = SqliteStore(tmp_path / "there" / "store.db")
    assert kept.newest_commits(1)
    kept.close()
