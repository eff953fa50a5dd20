"""Keeping, collecting and checking, from the command line."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import CommitId, hash_raw
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.cli.kit import HARKEN, Cli
from tests.crash.collector import litter
from tests.forks import processes


@pytest.fixture
def talked(cli: Cli, script: str) -> Cli:
    """A home in which a chat was held, and in which something lies that nobody needs."""
    cli.ok("chat", "--model", script, "-p", "make Ann")
    store = SqliteStore(cli.home / "store.db")
    store.write(WriteBatch(raw={hash_raw(b"loose"): b"loose"}))
    store.close()
    return cli


def names(cli: Cli) -> list[str]:
    store = SqliteStore(cli.home / "store.db")
    found = store.names_with_prefix("", 1000)
    store.close()
    return [*found]


def test_a_dry_run_says_what_would_go_and_gc_takes_it(talked: Cli) -> None:
    before = names(talked)
    would = talked.ok("store", "gc", "--dry-run", "--grace", "0s", "--json").json
    assert (would["objects"], would["commits"], would["dry_run"]) == (1, [], True)
    assert names(talked) == before
    assert "1 object and 0 commits removed" in talked.ok("store", "gc", "--grace", "0s").out
    assert {*before} - {*names(talked)} == {hash_raw(b"loose")}
    assert talked.ok("store", "gc", "--grace", "0s").out.startswith(
        "0 objects and 0 commits removed"
    )
    talked.ok("store", "fsck")


def test_what_is_young_stays(talked: Cli) -> None:
    assert talked.ok("store", "gc").out.startswith("0 objects")


def test_what_a_log_mentions_stays(talked: Cli) -> None:
    """A session may start again from a commit whose time is over."""
    store = SqliteStore(talked.home / "store.db")
    mentioned, other = store.newest_commits(1)[0], batch_of("nobody mentions this")
    store.write(other)
    store.close()
    talked.ok("store", "retain", mentioned, commit_in(other), "--for", "0s")
    assert talked.ok("store", "gc", "--grace", "0s", "--json").json["commits"] == [commit_in(other)]
    talked.ok("store", "fsck")


def test_what_is_removed_is_found_no_more(talked: Cli) -> None:
    store, other = SqliteStore(talked.home / "store.db"), batch_of("nobody mentions marzipan")
    store.write(other)
    store.close()
    assert talked.ok("search", "marzipan", "--json").json["total"] == 1
    talked.ok("store", "retain", commit_in(other), "--for", "0s")
    talked.ok("store", "gc", "--grace", "0s")
    assert b"marzipan" not in b"".join(one.read_bytes() for one in talked.home.glob("facts.db*"))
    assert talked.ok("search", "marzipan", "--json").json["total"] == 0


def test_keeping_is_said_listed_and_taken_back(talked: Cli) -> None:
    loose, ctx = hash_raw(b"loose"), next(n for n in names(talked) if n.startswith("ctx-"))
    assert talked.ok("store", "retain").out == ""
    talked.ok("store", "retain", loose[:16], "--pin")
    talked.ok("store", "retain", ctx, "--for", "7d")
    rows = {row["name"]: row for row in talked.ok("store", "retain", "--json").json}
    assert rows[loose] == {"name": loose, "policy": "pin"}
    assert rows[ctx]["policy"] == "ephemeral"
    assert f"{loose[:16]}  pin" in talked.ok("store", "retain").out
    for options in (["--pin", "--default"], ["--replicate", "--pin"], ["--pin", "--for", "1s"]):
        assert "pass exactly one of" in talked.refused("store", "retain", loose[:16], *options)
    assert talked.ok("store", "gc", "--grace", "0s").out.startswith("0 objects")
    talked.ok("store", "retain", loose, ctx, "--default")
    assert talked.ok("store", "retain", "--json").json == []
    assert talked.ok("store", "gc", "--grace", "0s").out.startswith("1 object ")


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["art-ffffffffffff", "--pin"], "artifact 'art-ffffffffffff' not found"),
        (["ctx-ffffffffffff", "--pin"], "not found"),
        (["ctx-ffffffffffff"], "pass exactly one of --pin"),
        (["ctx-ffffffffffff", "--pin", "--for", "1d"], "pass exactly one of --pin"),
        (["--pin"], "no CTX or ART given"),
        (["ctx-ffffffffffff", "--for", "soon"], "is not a duration"),
        (["x", "--pin"], "session or commit"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_a_line(
    talked: Cli, arguments: list[str], because: str
) -> None:
    assert because in talked.refused("store", "retain", *arguments)


@pytest.mark.req("D-02")
def test_fsck_says_what_is_wrong_with_store_and_logs(talked: Cli) -> None:
    assert talked.ok("store", "fsck").out.endswith("intact\n")
    [log] = talked.sessions()
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"content":"', b'"content":"x', 1))
    ran = talked("store", "fsck", "--json")
    assert ran.code == 1
    assert [row["place"].startswith(f"{log}:") for row in ran.json] == [True]
    log.write_bytes(whole)
    (talked.home / "store.db").unlink()
    for end in ("-wal", "-shm"):
        (talked.home / f"store.db{end}").unlink(missing_ok=True)
    ran = talked("store", "fsck")
    assert ran.code == 1
    assert "which is not in the store" in ran.out
    assert len(ran.out.splitlines()) > 1


def test_ctrl_c_in_the_middle_leaves_everything_whole(tmp_path: Path) -> None:
    """Each try is stopped at another moment; the next goes on."""
    store = SqliteStore(tmp_path / "store.db")
    litter(store, 0, 1500)
    commits = store.newest_commits(10_000)
    command = [str(HARKEN), "store", "gc", "--grace", "0s", "--home", str(tmp_path)]
    begin = time.monotonic()
    processes.run([*command, "--dry-run"], check=True, capture_output=True)
    takes_s = time.monotonic() - begin
    stopped = 0
    for share in (0.6, 0.9, 1.2, 1.5):
        process = processes.start(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(takes_s * share)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        stopped += process.returncode == 130
        # -SIGINT: it had done all, and Python, which was ending, listens to no signal any more
        assert process.returncode in (0, 130, -signal.SIGINT), err
        assert b"Traceback" not in err
        assert fsck(store) == []
        assert store.newest_commits(10_000) == commits
    assert stopped, "no try was stopped in the middle"
    processes.run(command, check=True, capture_output=True)
    assert not store.collect([], now="2100-01-01T00:00:00Z", grace_s=0).objects
    store.close()


def test_a_backing_store_is_sent_what_is_new_and_what_is_too_much_goes(
    talked: Cli, script: str, tmp_path: Path
) -> None:
    (talked.home / "config.toml").write_text(
        f'[store]\nbacking = "{tmp_path / "behind.db"}"\nmost_mb = 0.001\n'
    )
    before = talked.ok("ctx", "cat", talked.ok("ctx", "log", "--json").json[0]["id"]).out
    moved = talked.ok("store", "gc", "--json").json["moved"]
    assert moved["commits"] > 1
    assert moved["evicted_objects"] > 1
    tip = talked.ok("ctx", "log", "--json").json[0]["id"]
    assert talked.ok("ctx", "cat", tip).out == before
    talked.ok("store", "fsck")
    talked.ok("chat", "--model", script, "-p", "hello", "--from-commit", tip)
    assert "1 commit sent" in talked.ok("store", "gc").out
    behind = SqliteStore(tmp_path / "behind.db")
    assert behind.commits([CommitId(tip)])
    assert fsck(behind) == []
    behind.close()


def test_names_that_differ_in_the_backing_store_are_reported(talked: Cli, tmp_path: Path) -> None:
    here = talked
    backing = tmp_path / "behind.db"
    commits = [row["id"] for row in here.ok("ctx", "log", "--json").json]
    here.ok("ctx", "branch", "main", commits[0])
    with closing(SqliteStore(backing)) as store:
        batch = batch_of("elsewhere")
        store.write(batch)
        store.move_branch("main", commit_in(batch), expected=None)
    (here.home / "config.toml").write_text(f'[store]\nbacking = "{backing}"\n')
    result = here("store", "gc", "--json")
    assert result.code == 1
    [head] = result.json["moved"]["different"]
    assert (head["kind"], head["name"], head["local"]) == ("branch", "main", commits[0])
    assert f"branch main is at {commits[0][:16]} here and at {commit_in(batch)[:16]}" in result.err
    assert len(result.err.splitlines()) == 1
    local, remote = commits[0][:16], commit_in(batch)[:16]
    here.ok("ctx", "branch", "mine", local)
    here.ok("ctx", "branch", "main", remote, "--from", local)
    assert here.ok("store", "gc").err == ""


@pytest.mark.parametrize(
    ("config", "because"),
    [
        ('url = "http://127.0.0.1:1"\nbacking = "x.db"', "store.backing"),
        ("most_mb = 5", "needs a backing store"),
        ('backing = "x.db"\nmost_mb = -1', "a number of megabytes"),
        ('backing = "store.db"', "cannot be its own backing store"),
    ],
)
def test_a_wrong_backing_store_is_refused_in_a_line(talked: Cli, config: str, because: str) -> None:
    (talked.home / "config.toml").write_text(f"[store]\n{config}\n")
    assert because in talked.refused("store", "gc")


def test_a_home_without_a_store_has_nothing_to_collect(cli: Cli) -> None:
    assert "store not found" in cli.refused("store", "gc")
    assert cli.ok("store", "fsck").out.endswith("intact\n")
