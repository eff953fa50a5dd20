"""`harken sessions check` and `repair`: what they say, and their exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harken.config.home import Home
from harken.session.session import Session
from tests.cli.kit import Cli, one_line

DIALECTS = Path(__file__).parents[1] / "fixtures" / "dialects"


def damage(log: Path) -> bytes:
    """Change one letter in the fourth line; return the line as it is then."""
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"cafe", b"cave")
    log.write_bytes(b"".join(lines))
    return lines[3]


def test_a_whole_log_is_whole(demo: Cli) -> None:
    log = demo.sessions()[0]
    assert demo.ok("sessions", "check", "demo").out == f"{log}: intact\n"
    assert demo.ok("sessions", "check", log).out == f"{log}: intact\n"
    assert demo.ok("sessions", "check", "demo", "--json").json == []


def test_damage_is_exit_code_1_with_file_line_and_byte(demo: Cli) -> None:
    log = demo.sessions()[0]
    before = log.read_bytes()
    damage(log)
    ran = demo("sessions", "check", "demo")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"harken sessions repair {log} --out NEW.jsonl` writes the intact events" in ran.err
    byte = before.index(before.splitlines()[3])
    assert ran.out.startswith(f"{log}:4 (byte {byte}): damaged: ")
    data = demo("sessions", "check", "demo", "--json")
    assert data.code == 1
    assert [(row["line"], row["kind"]) for row in data.json] == [(4, "damaged")]


def test_a_torn_log_is_resumed_as_verify_says(demo: Cli) -> None:
    log = demo.sessions()[0]
    log.write_bytes(log.read_bytes()[:-30])
    ran = demo("sessions", "check", "demo")
    assert ran.code == 1
    assert f"harken chat --resume {log}` moves the incomplete line aside" in ran.err
    assert "moved to" in demo.ok("chat", "--resume", log, "-p", "go on").err
    assert demo.ok("sessions", "check", "demo").err == ""


def test_a_log_that_is_torn_and_damaged_is_to_be_repaired(demo: Cli) -> None:
    log = demo.sessions()[0]
    damage(log)
    log.write_bytes(log.read_bytes()[:-30])
    assert "sessions repair" in demo("sessions", "check", "demo", "--json").err


def test_repair_writes_a_new_log_that_is_whole_and_can_be_resumed(demo: Cli) -> None:
    log = demo.sessions()[0]
    line = damage(log)
    damaged = log.read_bytes()
    ran = demo.ok("sessions", "repair", "demo", "--out", "new.jsonl")
    assert ran.out.startswith("new.jsonl: 59 events kept, 1 lost\n  line 4 (byte ")
    assert "new.jsonl.lost" in ran.out
    assert log.read_bytes() == damaged
    assert Path("new.jsonl.lost").read_bytes() == line
    demo.ok("sessions", "check", "new.jsonl")
    assert "Jill's story" in demo.ok("chat", "--resume", "new.jsonl", "-p", "go on").out


def test_repair_as_json_says_the_same(demo: Cli) -> None:
    damage(demo.sessions()[0])
    data = demo.ok("sessions", "repair", "demo", "--out", "new.jsonl", "--json").json
    assert (data["path"], data["lost_file"]) == ("new.jsonl", "new.jsonl.lost")
    assert data["kept_events"] == 59
    assert [row["line"] for row in data["lost"]] == [4]


@pytest.mark.parametrize("name", ["s0", "s1", "fragment"])
def test_an_older_log_is_viewed_verified_and_written_as_a_current_one(cli: Cli, name: str) -> None:
    old = DIALECTS / f"{name}.jsonl"
    viewed = cli.ok("view", old, "tree", "--json")
    assert "An older log" in viewed.err
    verified = cli("sessions", "check", old)
    assert verified.code == 1
    assert "unverified" in verified.out
    assert "An older log format, readable as it is" in verified.err
    cli.ok("sessions", "repair", old, "--out", "new.jsonl")
    cli.ok("sessions", "check", "new.jsonl")
    again = cli.ok("view", "new.jsonl", "tree", "--json")
    assert again.err == ""
    assert [row["name"] for row in again.json] == [row["name"] for row in viewed.json]


def test_repair_refuses_to_write_over_anything(demo: Cli) -> None:
    log = demo.sessions()[0]
    before = log.read_bytes()
    Path("there").write_text("mine")
    assert "exists; choose another name" in demo.refused(
        "sessions", "repair", "demo", "--out", "there"
    )
    assert "exists; choose another name" in demo.refused("sessions", "repair", "demo", "--out", log)
    assert (Path("there").read_text(), log.read_bytes()) == ("mine", before)


def test_repair_needs_a_place_for_the_new_log(demo: Cli) -> None:
    assert "Missing option '--out'" in demo.refused("sessions", "repair", "demo")
    assert "its folder does not exist" in demo.refused(
        "sessions", "repair", "demo", "--out", "no/such/folder.jsonl"
    )


def packed(cli: Cli) -> list[Path]:
    return sorted((cli.home / "sessions").glob("*.jsonl.zst"))


@pytest.mark.req("S3-31")
def test_a_packed_session_is_listed_viewed_searched_bundled_replayed_and_resumed(demo: Cli) -> None:
    name = demo.sessions()[0].stem
    facts = demo.ok("search", "Jill").out
    views = {what: demo.ok("view", name, what).out for what in ("tree", "raw", "timeline")}
    before = demo.sessions()[0].stat().st_size
    said = demo.ok("sessions", "compress", name).out
    assert said.startswith(f"{name}: {before / 1024:.1f} KB, now ")
    assert (demo.sessions(), len(packed(demo))) == ([], 1)
    [row] = demo.ok("sessions", "--json").json
    assert (row["session"], row["state"]) == (name, "compressed")
    assert row["size_bytes"] == packed(demo)[0].stat().st_size
    assert demo.ok("search", "Jill").out == facts
    (demo.home / "facts.db").unlink()
    assert demo.ok("search", "Jill").out == facts
    for what, shown in views.items():
        assert demo.ok("view", name, what).out == shown
        assert demo.ok("view", "latest", what).out == shown
        assert demo.ok("view", packed(demo)[0], what).out == shown
    assert demo.ok("sessions", "check", name).out.endswith(": intact\n")
    assert demo.ok("store", "fsck").out.endswith(": intact\n")
    demo.ok("store", "bundle", "create", "-o", "b.harken", name)
    demo.ok("store", "bundle", "open", "b.harken")
    assert demo.sessions() == [], "exists already, packed"
    assert demo("chat", "--model", f"replay:{name}", "-p", "hello").code == 1
    demo.ok("chat", "--resume", name, "-p", "go on")
    assert (len(demo.sessions()), packed(demo)) == (2, [])


@pytest.mark.req("S3-31")
def test_old_logs_are_packed_together_and_unpacked_again(demo: Cli) -> None:
    demo.ok("demo")
    old, new = demo.sessions()
    os.utime(old, (1_700_000_000, 1_700_000_000))
    assert demo.ok("sessions", "compress", "--older-than", "30d", "--dry-run").out.startswith(
        old.stem
    )
    assert demo.sessions() == [old, new]
    [row] = demo.ok("sessions", "compress", "--older-than", "30d", "--json").json
    assert (row["session"], row["path"]) == (old.stem, f"{old}.zst")
    assert row["after_bytes"] < row["before_bytes"]
    assert demo.sessions() == [new]
    nothing = demo.ok("sessions", "compress", "--older-than", "30d")
    assert (nothing.out, nothing.err) == ("", "No uncompressed log is that old.\n")
    assert [row["session"] for row in demo.ok("sessions", "--json").json] == [new.stem, old.stem]
    demo.ok("sessions", "decompress", old.stem)
    assert demo.sessions() == [old, new]


def test_one_that_cannot_be_packed_is_said_and_the_others_are_packed(demo: Cli) -> None:
    demo.ok("demo")
    one, other = demo.sessions()
    with Session.load(one):
        ran = demo("sessions", "compress", one.stem, other.stem)
    assert (ran.code, len(packed(demo))) == (1, 1)
    assert "locked by" in one_line(ran.err)
    assert "name sessions, or use --older-than" in demo.refused("sessions", "compress")
    assert "30 days" in demo.refused("sessions", "compress", "--older-than", "30 days")


@pytest.mark.req("S3-31")
def test_a_damaged_pack_is_one_line_wherever_it_is_met(demo: Cli) -> None:
    name = demo.sessions()[0].stem
    demo.ok("sessions", "compress", name)
    [pack] = packed(demo)
    pack.write_bytes(pack.read_bytes()[:-200])
    assert "is damaged" in demo.refused("view", name, "tree")
    assert "is damaged" in demo.refused("chat", "--resume", name, "-p", "x")
    assert "is damaged" in demo.ok("sessions", "--json").json[0].get("error", "is damaged")
    ran = demo("store", "fsck")
    assert (ran.code, "is damaged" in ran.out) == (1, True)
    assert packed(demo) == [pack]


def test_a_new_session_never_takes_the_name_of_a_packed_one(demo: Cli) -> None:
    log = demo.sessions()[0]
    demo.ok("sessions", "compress", log.stem)
    made = Home(str(demo.home)).create_log(log.stem)
    assert made.name == f"{log.stem}-2.jsonl"
