"""`harken push`, to a service that is a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harken.session.verify import verify
from tests.cli.kit import HARKEN, Cli, one_line
from tests.cli.test_serve import serving
from tests.forks import processes

KEY = "AKIAQ7WZX5T2MN3BVC4D"


def lived_in(cli: Cli) -> Path:
    """Let a session with a credential be there; return its log."""
    prompt = f"Let Jack and Jill meet. Use {KEY} in a cafe."
    cli.ok("chat", "--home", cli.home, "--model", "scripted:demo", "-p", prompt)
    return next((cli.home / "sessions").glob("*.jsonl"))


@pytest.mark.req("S3-34", "D-06")
def test_sessions_go_there_once_without_credentials(cli: Cli, tmp_path: Path) -> None:
    log, there, socket = lived_in(cli), tmp_path / "there", tmp_path / "run" / "s"
    home = ("--home", cli.home)
    with serving(there, "--socket", str(socket)) as (_, url):
        first = cli.ok("push", log.stem, url, *home)
        assert "1 session pushed, 1 with new content" in first.out
        assert "credentials redacted: aws-key-id (1)" in first.err
        assert KEY not in first.out + first.err
        again = cli.ok("push", "--all", url, *home, "--json")
        assert (again.out, again.err) == ("", "")
        exact = cli("push", "--all", url, *home, "--no-redact")
        assert (exact.code, exact.err.startswith("skipped: ")) == (1, True)
    arrived = there / "sessions" / log.name
    assert verify(arrived) == []
    assert KEY not in arrived.read_text()
    assert len(arrived.read_text().splitlines()) == len(log.read_text().splitlines())
    assert cli("store", "fsck", "--home", there).code == 0
    with serving(there, "--socket", str(socket)) as (_, url):
        assert "0 with new content" in cli.ok("push", "--all", url, *home).out
    text = log.read_text()
    log.write_text(text[: len(text) // 2])
    (there / "sessions" / log.name).unlink()
    with serving(there, "--socket", str(socket)) as (_, url):
        row = json.loads(cli.ok("push", log.stem, url, *home, "--json").out)
        assert (row["session"], row["lacking"]) == (log.stem, [])


@pytest.mark.req("S3-34")
def test_watching_goes_on_when_the_service_was_away(cli: Cli, tmp_path: Path) -> None:
    there, socket = tmp_path / "there", tmp_path / "run" / "s"
    cli.ok("demo", "--home", cli.home)
    url = f"unix:{socket}"
    command = [str(HARKEN), "push", "--all", url, "--watch", "--home", str(cli.home)]
    with processes.start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watcher:
        assert watcher.stderr is not None
        assert "cannot be reached" in watcher.stderr.readline()
        with serving(there, "--socket", str(socket)):
            while not list((there / "sessions").glob("*.jsonl")):
                assert watcher.poll() is None
                time.sleep(0.1)
        watcher.send_signal(signal.SIGINT)
        out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert "The service is available again." in out
    assert "Traceback" not in err


def test_what_cannot_be_done_is_one_line(cli: Cli, tmp_path: Path) -> None:
    lived_in(cli)
    home = ("--home", cli.home)
    cli.environ["HARKEN_STORE_TOKEN"] = "x" * 43
    with serving(tmp_path / "there", "--port", "0") as (_, url):
        for arguments, said in [
            (("latest", url), "rejects this token"),
            (("latest", url, "--watch"), "rejects this token"),
            (("latest", "http://127.0.0.1:9"), "cannot be reached"),
            (("latest", "nowhere"), "not the address"),
            (("nobody", url), "session or commit"),
            ((url,), "no sessions given"),
            (("--all", "latest", url), "no sessions given"),
        ]:
            ran = cli("push", *arguments, *home)
            assert (ran.code, ran.out) == (2, "")
            assert said in one_line(ran.err)
