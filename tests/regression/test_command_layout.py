"""The commands are in groups that can be guessed, and a wrong guess gets a suggestion.

`harken --help` listed 36 commands in one column; `sessions` and `session`, `export` and `ctx export`
were two places each, and "verify" had three meanings. `gc` was answered with that whole list again.
Now there are six headings, one place per command, and suggestions from the tree of commands.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from harken.cli.command_group import CommandGroup
from harken.cli.main import cli as root
from tests.cli.kit import Cli

EXPECTED_HEADINGS = ["Options", "Run", "Inspect", "Record", "Resume", "Store", "Configure"]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("HARKEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path / "home", capsys)


def test_help_groups_the_commands_under_six_headings(cli: Cli) -> None:
    lines = cli.ok("--help").out.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":") and line[0] != " "] == (
        EXPECTED_HEADINGS
    )
    listed = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
    assert {"chat", "sessions", "store", "verify", "cat", "export"} <= listed
    assert not {"session", "keep", "retain", "gc", "fsck", "purge", "bundle"} & listed
    assert not {"interactions", "context"} & listed
    for hidden in ("interactions", "context"):
        assert f"Usage: harken {hidden}" in cli.ok(hidden, "--help").out


def test_every_command_of_the_tree_can_be_loaded() -> None:
    paths = command_paths(root)
    assert {
        f"store {name}" for name in ("info", "retain", "gc", "fsck", "purge", "bundle")
    } <= paths
    assert {f"sessions {name}" for name in ("check", "repair", "compress", "decompress")} <= paths
    assert "store bundle create" in paths
    assert "ctx export" not in paths


def command_paths(group: click.Group, *above: str) -> set[str]:
    assert isinstance(group, CommandGroup), above  # Other groups suggest nothing.
    paths = set()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        paths.add(" ".join([*above, name]))
        if isinstance(command, click.Group):
            paths |= command_paths(command, *above, name)
    return paths


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gc", "No such command 'gc'; did you mean 'store gc'?"),
        ("ctx gc", "did you mean 'store gc'? Commands of 'ctx': branch, cat, "),
        ("session", "did you mean 'sessions'?"),
        ("chta", "did you mean 'chat'?"),
        ("ctx shwo", "No such command 'ctx shwo'; did you mean 'ctx show'?"),
        ("log", "did you mean 'ctx log'?"),
        ("view demo treee", "No such command 'view treee'; did you mean 'view tree'?"),
        ("chat --resum demo", "No such option '--resum'; did you mean '--resume'?"),
        ("export --graph", "No such option '--graph'; did you mean 'ctx log --graph'?"),
        (
            "--json sessions",
            "No such option '--json' in this position: put it after the subcommand",
        ),
        ("sessions --json check demo", "--json does not apply to 'check': options of a subcommand"),
        ("hooks --json show x", "--json does not apply to 'show'"),
        ("frobnicate", "No such command 'frobnicate'; see `harken --help`"),
    ],
)
def test_a_wrong_command_line_gets_a_suggestion(cli: Cli, line: str, message: str) -> None:
    assert message in cli.refused(*line.split())


def test_sessions_lists_and_has_subcommands(cli: Cli) -> None:
    cli.ok("demo")
    assert cli.ok("sessions", "--json").json[0]["session"] == "demo"
    assert cli.ok("sessions", "check", "demo").out.endswith("demo.jsonl: intact\n")
    assert cli.ok("store", "fsck").out.endswith(": intact\n")


def test_help_and_a_misspelled_command_import_no_command(tmp_path: Path) -> None:
    code = (
        "import sys; from harken.cli.main import run_cli; run_cli(sys.argv[1:]); "
        "print([name for name in ('msgspec', 'asyncio', 'sqlite3') if name in sys.modules])"
    )
    for arguments in (["--help"], ["gc"], ["store", "--help"]):
        command = [sys.executable, "-c", code, *arguments]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )
        assert ran.stdout.endswith("[]\n"), ran
