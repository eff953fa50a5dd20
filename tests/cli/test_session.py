"""`harken session verify` and `repair`: what they say, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Cli

DIALECTS = Path(__file__).parents[1] / "fixtures" / "dialects"


def damage(log: Path) -> bytes:
    """Change one letter in the fourth line; return the line as it is then."""
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"cafe", b"cave")
    log.write_bytes(b"".join(lines))
    return lines[3]


def test_a_whole_log_is_whole(demo: Cli) -> None:
    log = demo.sessions()[0]
    assert demo.ok("session", "verify", "demo").out == f"{log}: whole\n"
    assert demo.ok("session", "verify", log).out == f"{log}: whole\n"
    assert demo.ok("session", "verify", "demo", "--json").json == []


def test_damage_is_exit_code_1_with_file_line_and_byte(demo: Cli) -> None:
    log = demo.sessions()[0]
    before = log.read_bytes()
    damage(log)
    ran = demo("session", "verify", "demo")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"harken session repair {log} --out NEW.jsonl` saves what is whole" in ran.err
    byte = before.index(before.splitlines()[3])
    assert ran.out.startswith(f"{log}:4 (byte {byte}): damaged: ")
    data = demo("session", "verify", "demo", "--json")
    assert data.code == 1
    assert [(row["line"], row["kind"]) for row in data.json] == [(4, "damaged")]


def test_a_torn_log_is_resumed_as_verify_says(demo: Cli) -> None:
    log = demo.sessions()[0]
    log.write_bytes(log.read_bytes()[:-30])
    ran = demo("session", "verify", "demo")
    assert ran.code == 1
    assert f"harken chat --resume {log}` sets the half line aside" in ran.err
    assert "set aside in" in demo.ok("chat", "--resume", log, "-p", "go on").err
    assert demo.ok("session", "verify", "demo").err == ""


def test_a_log_that_is_torn_and_damaged_is_to_be_repaired(demo: Cli) -> None:
    log = demo.sessions()[0]
    damage(log)
    log.write_bytes(log.read_bytes()[:-30])
    assert "session repair" in demo("session", "verify", "demo", "--json").err


def test_repair_writes_a_new_log_that_is_whole_and_can_be_resumed(demo: Cli) -> None:
    log = demo.sessions()[0]
    line = damage(log)
    damaged = log.read_bytes()
    ran = demo.ok("session", "repair", "demo", "--out", "new.jsonl")
    assert ran.out.startswith("new.jsonl: 54 events kept, 1 lost\n  line 4 (byte ")
    assert "new.jsonl.lost" in ran.out
    assert log.read_bytes() == damaged
    assert Path("new.jsonl.lost").read_bytes() == line
    demo.ok("session", "verify", "new.jsonl")
    assert "Jill's story" in demo.ok("chat", "--resume", "new.jsonl", "-p", "go on").out


def test_repair_as_json_says_the_same(demo: Cli) -> None:
    damage(demo.sessions()[0])
    data = demo.ok("session", "repair", "demo", "--out", "new.jsonl", "--json").json
    assert (data["out"], data["lost_file"]) == ("new.jsonl", "new.jsonl.lost")
    assert data["kept"] == 54
    assert [row["line"] for row in data["lost"]] == [4]


@pytest.mark.parametrize("name", ["s0", "s1", "fragment"])
def test_an_older_log_is_viewed_verified_and_written_as_a_current_one(cli: Cli, name: str) -> None:
    old = DIALECTS / f"{name}.jsonl"
    viewed = cli.ok("view", old, "tree", "--json")
    assert "An older log" in viewed.err
    verified = cli("session", "verify", old)
    assert verified.code == 1
    assert "unverified" in verified.out
    assert "An older log, readable as it is" in verified.err
    cli.ok("session", "repair", old, "--out", "new.jsonl")
    cli.ok("session", "verify", "new.jsonl")
    again = cli.ok("view", "new.jsonl", "tree", "--json")
    assert again.err == ""
    assert [row["name"] for row in again.json] == [row["name"] for row in viewed.json]


def test_repair_refuses_to_write_over_anything(demo: Cli) -> None:
    log = demo.sessions()[0]
    before = log.read_bytes()
    Path("there").write_text("mine")
    assert "is there already" in demo.refused("session", "repair", "demo", "--out", "there")
    assert "is there already" in demo.refused("session", "repair", "demo", "--out", log)
    assert (Path("there").read_text(), log.read_bytes()) == ("mine", before)


def test_repair_needs_a_place_for_the_new_log(demo: Cli) -> None:
    assert "Missing option '--out'" in demo.refused("session", "repair", "demo")
    assert "its folder does not exist" in demo.refused(
        "session", "repair", "demo", "--out", "no/such/folder.jsonl"
    )
