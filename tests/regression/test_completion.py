"""Verbs, options, and the names of sessions and commits are completed in bash, zsh and fish.

There was no completion, so names such as `codex:019f17a5-...` had to be copied by hand. Now a line in
the shell's start-up file switches it on. No command is imported for it, a hostile name is quoted or
left out, and whatever fails prints nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pexpect
import pytest

from harken.capture.files.imported_sessions import list_imported_sessions
from harken.cli.commands.completion import SCRIPTS, Line, complete_line, parse_line, quoted
from harken.cli.completion_names import commit_names, imported_names, label_names
from harken.cli.main import run_cli
from harken.config.home import Home
from harken.index.catalogue import Catalogue
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, SCRIPT
from tests.unit.capture.session_samples import lines

CODEX = "019f17a5-0000-7000-8000-000000000001"
HOSTILE = (
    "$(touch harm)",
    "a b;touch harm",
    "`touch harm`",
    "it's",
    'say "tea"',
    "*",
    "-rf",
    "x\ny",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a session of Harken, one of Codex, and a label."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "script.yaml").write_text(SCRIPT)
    (folder / "codex.jsonl").write_bytes(b"\n".join(lines("codex-v1", session=CODEX)) + b"\n")
    home = Home(str(folder / "home"))
    given = ["--home", str(home.folder)]
    assert run_cli(["import", str(folder / "codex.jsonl"), *given], {}) == 0
    script = f"scripted:{folder / 'script.yaml'}"
    assert run_cli(["chat", "--model", script, "-p", "hello", *given], {}) == 0
    [log] = home.list_logs()
    log.rename(log.with_name("tea.jsonl"))
    with closing(SqliteStore(home.store_file)) as store:
        [ctx, *_] = store.newest_commits(1)
    assert run_cli(["ctx", "label", ctx, "cafe", *given], {}) == 0
    return home


def complete(home: Home, line: str, shell: str = "zsh") -> list[str]:
    words = line.split(" ")
    words.insert(1, f"--home {home.folder}")
    answers = complete_line({"_HARKEN_COMPLETE": shell, "_HARKEN_LINE": " ".join(words)})
    return [answer.removeprefix("plain ") for answer in answers]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("harken st", ["stats", "store"]),
        ("harken store g", ["gc"]),
        ("harken sessions ch", ["check"]),
        ("harken store bundle c", ["create"]),
        ("harken view tea tr", ["transcript", "tree"]),
        ("harken chat --resu", ["--resume"]),
        ("harken chat --permission ", ["ask", "edits", "all", "plan"]),
        ("harken chat --permission=e", ["--permission=edits"]),
        ("harken view t", ["tea"]),
        ("harken view ", ["latest", "tea", f"codex:{CODEX}"]),
        ("harken chat --resume cod", [f"codex:{CODEX}"]),
        ("harken export caf", ["cafe"]),
        ("harken sessions check ", ["latest", "tea"]),
        ("harken import ", ["file "]),
        ("harken inter", []),
    ],
)
def test_a_word_is_completed(home: Home, line: str, expected: list[str]) -> None:
    assert complete(home, line) == expected


def test_commits_are_completed_newest_first(home: Home) -> None:
    [first, *_] = complete(home, "harken ctx show ctx-")
    with closing(SqliteStore(home.store_file)) as store:
        newest = store.newest_commits(1)[0]
        assert first == newest[: len("ctx-") + 12]
    assert commit_names(home, newest[:20]) == [newest[:20]]
    assert complete(home, f"harken export {first[:10]}")[0] == first


def test_the_names_are_those_that_commands_know(home: Home) -> None:
    with closing(Catalogue(home.index_file)) as catalogue:
        assert imported_names(home) == [one.name for one in list_imported_sessions(catalogue)]
    with closing(SqliteStore(home.store_file)) as store:
        assert label_names(home) == [*store.commits_by_label()]


def test_a_home_that_is_missing_or_damaged_completes_nothing(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    assert complete(home, "harken view ") == ["latest"]
    home.index_file.write_bytes(b"no database")
    home.store_file.write_bytes(b"no database")
    assert complete(home, "harken export ") == ["latest"]
    command = [str(HARKEN), "view", "x"]
    environment = {**os.environ, "_HARKEN_COMPLETE": "bash", "_HARKEN_LINE": "harken 'view \udcff"}
    ran = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("line", "words", "incomplete", "quote"),
    [
        ("harken view 'my se", ["view"], "my se", "'"),
        ('harken view "my se', ["view"], "my se", '"'),
        (r"harken view my\ se", ["view"], "my se", ""),
        ("A=1 B=2 harken view demo ", ["view", "demo"], "", ""),
        ("harken", [], "", ""),
        ("", [], "", ""),
    ],
)
def test_a_line_is_split_as_a_shell_does(
    line: str, words: list[str], incomplete: str, quote: str
) -> None:
    assert parse_line(line) == Line(words, incomplete, quote)


def test_a_name_is_quoted_for_the_place_where_it_is_inserted() -> None:
    assert quoted("it's", Line([], "", "'")) is None
    assert quoted("a!b", Line([], "", '"')) is None
    assert quoted('$x"', Line([], "", '"')) == r"\$x\""
    assert quoted("codex:01", Line([], "codex:", '"')) == "codex:01"


def hostile_home(folder: Path) -> Path:
    sessions = folder / "home" / "sessions"
    sessions.mkdir(parents=True)
    for name in HOSTILE:
        (sessions / f"evil {name.replace('/', '_')}.jsonl").touch()
    (sessions / "tea.jsonl").touch()
    with closing(sqlite3.connect(folder / "home" / "index.db")) as database:
        database.execute("CREATE TABLE source (path BLOB, record BLOB)")
        record = f'{{"format":"f","runtime":"codex","tips":[1],"session":"{CODEX}"}}'
        database.execute("INSERT INTO source VALUES (?, ?)", [b"/a", record.encode()])
        database.commit()
    return folder / "home"


def shell(name: str, folder: Path) -> pexpect.spawn[str]:
    """Start an interactive shell with completion switched on, as a user's start-up file does."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    home = hostile_home(folder)
    options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    environment = {
        "PATH": f"{HARKEN.parent}{os.pathsep}{os.environ['PATH']}",
        "HARKEN_HOME": str(home),
        "HOME": str(folder),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    child = pexpect.spawn(
        path,
        options,
        cwd=folder,
        env=environment,
        encoding="utf-8",
        dimensions=(40, 200),
        timeout=60,
    )
    switch_on = {
        "bash": 'eval "$(harken completion bash)"',
        "zsh": 'eval "$(harken completion zsh)"',
        "fish": "harken completion fish | source",
    }[name]
    child.sendline(switch_on)
    child.sendline("echo rea''dy")
    child.expect("ready\r?\n")
    return child


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_a_shell_completes_names_and_runs_none_of_them(name: str, tmp_path: Path) -> None:
    child = shell(name, tmp_path)
    try:
        for keys, expected in (
            ("harken sto", "harken store "),
            ("harken chat --resume codex:019f", f"codex:{CODEX} "),
            ("harken view 'evil a", "'evil a b;touch harm'"),
            ('harken view "evil a', '"evil a b;touch harm"'),
        ):
            child.send(f"{keys}\t")
            child.expect_exact(expected)
            child.send("\x15")  # Clears the line.
        for keys, expected in (
            (r"harken view evil\ a", r"evil\ a\ b\;touch\ harm "),
            (r"harken view evil\ \$", r"evil\ \$\(touch\ harm\) "),
        ):
            child.send(f"{keys}\t")
            child.expect_exact(expected)
            child.send("tree\r")
            child.expect_exact("is empty: it has no event")
    finally:
        child.close(force=True)
    assert not (tmp_path / "harm").exists()


def test_names_of_500_sessions_take_less_than_a_third_of_a_second(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    for number in range(250):
        (home / "sessions" / f"tea-{number}.jsonl").write_text("{}\n")
    with closing(sqlite3.connect(home / "index.db")) as database:
        database.execute("CREATE TABLE source (path BLOB, record BLOB)")
        for number in range(250):
            record = f'{{"format":"f","runtime":"codex","tips":[1],"session":"{number:08}"}}'
            database.execute("INSERT INTO source VALUES (?, ?)", [b"/a", record.encode()])
        database.commit()
    environment = {**os.environ, "_HARKEN_COMPLETE": "bash", "_HARKEN_LINE": "harken view "}
    environment["HARKEN_HOME"] = str(home)
    imports = subprocess.run(
        [sys.executable, "-X", "importtime", str(HARKEN)],
        capture_output=True, text=True, env=environment, timeout=60, check=True,
    )  # fmt: skip
    assert imports.stdout.count("\n") == 501
    # The time itself depends on the load: what must not be imported does not.
    for module in (
        "harken.cli.commands.view.command",
        "harken.agents",
        "harken.store.sqlite.store",
        "msgspec",
    ):
        assert f" {module}\n" not in imports.stderr
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(HARKEN)], capture_output=True, env=environment, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("CPU s:", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
