"""Every kind of name means the same in every command that takes a session or a commit.

`harken sessions` printed names that other commands refused: `export` and `ctx show` took commits only,
`chat --resume` and `store bundle` logs only, labels were names nowhere. Each command had a resolver
of its own; now they all ask one, and an error lists at most ten similar names.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from harken.cli.main import run_cli
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import SCRIPT, Cli
from tests.unit.capture.session_samples import lines

CODEX, CLAUDE = "019f17a5-0000-7000-8000-000000000001", "5e551011-0000-4000-8000-000000000001"
LABEL = "tea-time"


@dataclass(frozen=True)
class Kit:
    folder: Path
    own: str
    ctx: str
    source: Path
    """The imported file of Claude Code, by the path that the catalogue has."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def names(self) -> dict[str, str]:
        """Return one name of each kind."""
        return {
            "label": LABEL,  # First: `ctx label` replaces it.
            "own prefix": self.own[:-1],  # Second: some commands make sessions called so.
            "own": self.own,
            "own file": str(self.home / "sessions" / f"{self.own}.jsonl"),
            "latest": "latest",
            "commit": self.ctx,
            "commit prefix": self.ctx[:16],
            "codex": f"codex:{CODEX}",
            "codex short": "codex:019f17a5",
            "codex native": CODEX[:8],
            "claude short": "claude:5e551011",
            "claude file": str(self.source),
        }


LOG_KINDS = {"own", "own prefix", "own file", "latest"}
SESSION_KINDS = {"codex", "codex short", "codex native", "claude short", "claude file", *LOG_KINDS}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """A home with a session of Harken, one of Codex and one of Claude Code."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "script.yaml").write_text(f"{SCRIPT}  - answer: Well.\n")
    (folder / "codex.jsonl").write_bytes(b"\n".join(lines("codex-v1", session=CODEX)) + b"\n")
    (folder / "claude.jsonl").write_bytes(
        b"\n".join(lines("claude-code-v1", session=CLAUDE)) + b"\n"
    )
    home = folder / "home"
    before = Path.cwd()
    os.chdir(folder)
    try:
        for arguments in (
            ["import", "codex.jsonl", "claude.jsonl"],
            ["chat", "--model", "scripted:script.yaml", "-p", "hello"],
        ):
            assert run_cli([*arguments, "--home", str(home)], {}) == 0
        [log] = (home / "sessions").glob("*.jsonl")
        with closing(SqliteStore(home / "store.db")) as store:
            [ctx, *_] = store.newest_commits(1)
        assert run_cli(["ctx", "label", ctx, LABEL, "--home", str(home)], {}) == 0
    finally:
        os.chdir(before)
    log.rename(log.with_name("tea.jsonl"))
    return Kit(folder, "tea", ctx, folder / "claude.jsonl")


@pytest.fixture
def kit(made: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    """A copy of that home: some commands write into it."""
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("HARKEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Kit(tmp_path, made.own, made.ctx, made.source)


@pytest.fixture
def cli(kit: Kit, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(kit.home, capsys)


ALL = (
    "view NAME tree",
    "export NAME",
    "resume NAME --client harken --print",
    "chat --resume NAME --model scripted:script.yaml -p hello",
    "chat --from-commit NAME --model scripted:script.yaml -p hello",
    "replay NAME --at 1 --json",
    "rerun NAME --at 1 --model scripted:script.yaml",
    "compare NAME NAME",
    "interactions show NAME",
    "ctx show NAME",
    "ctx cat NAME",
    "ctx log NAME",
    "ctx diff NAME NAME",
    "ctx fork NAME",
    "ctx label NAME other",
    "ctx summarize NAME text",
    "store retain NAME --pin",
    "store bundle create NAME -o OUT",
)
OF_SESSIONS = ("stats NAME",)
OF_LOGS = ("sessions check NAME", "sessions compress NAME", "sessions repair NAME --out OUT")


def words(line: str, name: str, index: int) -> list[str]:
    return [word.replace("NAME", name).replace("OUT", f"out{index}") for word in line.split()]


@pytest.mark.parametrize("line", [*ALL, *OF_SESSIONS, *OF_LOGS])
def test_every_kind_of_name_is_taken(cli: Cli, kit: Kit, line: str) -> None:
    for index, (kind, name) in enumerate(kit.names().items()):
        is_taken = (
            line in ALL
            or (line in OF_SESSIONS and kind in SESSION_KINDS)
            or (line in OF_LOGS and kind in LOG_KINDS)
        )
        ran = cli(*words(line, name, index))
        if is_taken:
            assert ran.code == 0, (kind, ran)
        else:
            assert ran.code == 2, (kind, ran)
            assert "a commit" in ran.err or "imported" in ran.err or "not a session" in ran.err
        assert "Traceback" not in ran.err


def test_an_unknown_name_is_answered_with_at_most_ten_similar_ones(cli: Cli, kit: Kit) -> None:
    log = kit.home / "sessions" / f"{kit.own}.jsonl"
    for number in range(30):
        shutil.copy(log, log.with_name(f"cafe-{number:02}.jsonl"))
    for command in (["view", "coffe-07", "tree"], ["ctx", "show", "coffe-07"]):
        text = cli.refused(*command)
        assert text.startswith(
            "session or commit 'coffe-07' not found; existing sessions or commits: cafe-07, "
        )
        assert text.count("cafe-") == 10
    assert "existing sessions or commits: tea" in cli.refused("export", "tae")
    assert "existing sessions or commits: codex:019f17a5" in cli.refused(
        "chat", "--resume", "codex:019f17a6"
    )
    assert f"existing sessions or commits: {LABEL}" in cli.refused(
        "resume", "tea-tme", "--client", "harken"
    )


def test_an_ambiguous_name_is_answered_with_its_candidates(cli: Cli, kit: Kit) -> None:
    log = kit.home / "sessions" / f"{kit.own}.jsonl"
    for number in range(30):
        shutil.copy(log, log.with_name(f"cafe-{number:02}.jsonl"))
    text = cli.refused("export", "caf")
    assert text.startswith("session 'caf' is ambiguous: cafe-00, cafe-01, ")
    assert "cafe-09, 20 more; use a longer name" in text
    cli.ok("ctx", "label", "codex:019f17a5", LABEL)
    text = cli.refused("view", LABEL, "tree")
    assert text.startswith(f"label {LABEL!r} is ambiguous: ctx-")


def test_a_session_with_the_name_of_a_label_stays_reachable(cli: Cli, kit: Kit) -> None:
    cli.ok("ctx", "label", "codex:019f17a5", kit.own)
    assert kit.ctx in cli.ok("ctx", "show", kit.own, "--json").out


def test_latest_is_the_first_session_of_the_list(cli: Cli, kit: Kit) -> None:
    log = kit.home / "sessions" / f"{kit.own}.jsonl"
    for seconds, runtime in ((2e9, "harken"), (0, "claude")):
        os.utime(log, (seconds, seconds))
        first = cli.ok("sessions", "--json").json[0]
        shown = cli.ok("resume", "latest", "--client", "harken", "--print").out
        last = first["tips"][0]["ctx"][:16] if "tips" in first else kit.ctx[:16]
        assert last in shown, runtime


def test_the_names_that_sessions_and_search_print_can_be_pasted_back(cli: Cli) -> None:
    listed = [line.split()[0] for line in cli.ok("sessions").out.splitlines()]
    assert len(listed) == 3
    out = cli.ok("search", "tea", "OR", "hello", "OR", "there").out
    hits = [line.split() for line in out.splitlines() if line.startswith("ctx-")]
    assert hits
    for ctx, session, *_ in hits:
        cli.ok("view", session, "tree")  # Of the renamed log it is the id that is in the log.
        cli.ok("view", ctx, "tree")
    for name in listed:
        cli.ok("export", name)


def test_the_name_of_a_session_after_sessions_is_not_taken_for_a_command(
    cli: Cli, kit: Kit
) -> None:
    log = kit.home / "sessions" / f"{kit.own}.jsonl"
    shutil.copy(log, log.with_name("check.jsonl"))
    assert "check.jsonl: intact" in cli.ok("sessions", "check", "check").out
    text = cli.refused("sessions", kit.own)
    assert text.startswith(f"'{kit.own}' is a session, not a command: `harken view {kit.own}` ")


def test_a_damaged_store_does_not_hide_sessions(cli: Cli, kit: Kit) -> None:
    (kit.home / "store.db").write_bytes(b"no store at all" * 1000)
    cli.ok("view", kit.own[:-1], "tree")
    cli.ok("sessions", "check", kit.own[:-1])
    assert "store.db" in cli.refused("view", LABEL, "tree")
