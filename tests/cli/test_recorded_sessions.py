"""Recorded sessions of other runtimes by all their names, with and without an imported file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli
from tests.two_sources_kit import NAME, NATIVE, SUBAGENT, Exchange, TwoSources
from tests.unit.formats.transcript_kit import Transcript, text_block

LOG = "rec-claude-code-5e551011"
NAMES = (LOG, NAME, NATIVE, "claude:5e55", "5e551011")
SCRIPT = (
    Exchange("I look.", "Is the cafe open?", has_call=True),
    Exchange("It is open."),
    Exchange("He is asleep.", "Ask a waiter", agent=SUBAGENT),
)


class TwoSourcesHome:
    """A home with a recording, and perhaps the file of the same session."""

    def __init__(self, cli: Cli) -> None:
        self.home = cli.home
        self.store = SqliteStore(self.home / "store.db")
        self.sources = TwoSources(SCRIPT, self.home / "sessions", self.store)
        self.file = self.home.parent / f"{NATIVE}.jsonl"

    def record(self) -> None:
        self.sources.record(len(SCRIPT))
        self.sources.close()

    def import_files(self, **files: bytes) -> None:
        for name, data in (files or self.sources.files(len(SCRIPT))).items():
            path = self.home.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            with closing(Catalogue(self.home / "index.db")) as catalogue:
                list(Importer(self.store, catalogue).run(list(iter_files(path))))


@pytest.fixture
def desk(cli: Cli) -> TwoSourcesHome:
    (cli.home / "sessions").mkdir(parents=True, exist_ok=True)
    return TwoSourcesHome(cli)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_shown_by_each_name(cli: Cli, desk: TwoSourcesHome, name: str) -> None:
    desk.record()
    shown = cli.ok("view", name, "tree")
    assert shown.out == cli.ok("view", LOG, "tree").out
    assert shown.err == ""
    assert cli.ok("stats", name, "--json").json["session"]["session"] == NAME
    assert "It is open." in cli.ok("ctx", "cat", name).out


@pytest.mark.parametrize("name", NAMES)
def test_of_both_sources_the_recording_is_shown(cli: Cli, desk: TwoSourcesHome, name: str) -> None:
    desk.record()
    desk.import_files()
    shown = cli.ok("view", name, "raw")
    assert shown.out == cli.ok("view", LOG, "raw").out
    note = f"Recorded as {LOG}; `harken view {desk.file}` shows the imported file.\n"
    assert shown.err == ("" if name == LOG else note)
    assert "llm_request" in shown.out


def test_the_file_is_shown_by_its_path(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    desk.import_files()
    shown = cli.ok("view", str(desk.file), "raw")
    assert "Imported from claude" in shown.err
    assert shown.out != cli.ok("view", LOG, "raw").out


def test_a_recording_has_the_row_of_its_session(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    [row] = cli.ok("sessions", "--json").json
    assert (row["session"], row["runtime"], row["logs"]) == (NAME, "claude", [LOG])
    assert row["state"] == "recorded"
    assert row["cost_usd"] > 0
    assert cli.ok("sessions").out.startswith("claude:5e551011  ")
    assert cli.ok("sessions", "--runtime", "claude", "--json").json == [row]
    assert cli.ok("sessions", "--runtime", "harken", "--json").json == []


def test_both_sources_have_one_row(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    desk.import_files()
    cli.ok("stats")
    [row] = cli.ok("sessions", "--json").json
    assert (row["session"], row["logs"], row["title"]) == (NAME, [LOG], "Is the cafe open?")
    assert row["sources"][0] == str(desk.file)
    assert row["project"] == "/home/jill/cafe"
    assert row["outcome"] == "success"
    usage = cli.ok("stats", "--json").json["usage"]
    assert (usage["responses"], usage["cost_usd"]) == (3, pytest.approx(row["cost_usd"]))
    assert "recorded, imported" in cli.ok("sessions").out


def test_a_log_command_takes_the_names_of_the_session(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    desk.import_files()
    for name in NAMES:
        assert cli.ok("sessions", "check", name).code == 0
    forked = cli.ok("fork", NAME, "--name", "mine", "--json").json
    assert forked["origin"]["session"] == LOG
    names = [row["session"] for row in cli.ok("sessions", "--json").json]
    assert sorted(names) == [NAME, "mine"]


def test_the_commit_of_a_name_is_that_of_its_source(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    desk.import_files()
    recorded, imported = (cli.ok("ctx", "cat", name).out for name in (LOG, NAME))
    assert "Today is Monday." in recorded
    assert "Today is Monday." not in imported
    assert "It is open." in recorded
    assert "It is open." in imported
    assert cli.ok("ctx", "cat", str(desk.file)).out == imported


def test_a_renamed_recording_is_the_same_session(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    desk.import_files()
    cli.ok("sessions", "rename", NAME, "kettle")
    [row] = cli.ok("sessions", "--json").json
    assert (row["session"], row["logs"]) == (NAME, ["kettle"])
    for name in ("kettle", NAME, LOG):
        assert "llm_request" in cli.ok("view", name, "raw").out
    assert cli.ok("stats", "kettle", "--json").json["session"]["session"] == NAME


def test_a_prefix_of_two_sessions_is_ambiguous(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    other = Transcript(NATIVE[:-1] + "2")
    other.user("And the bar?")
    other.answer(text_block("Closed."))
    desk.import_files(**{"other.jsonl": other.data})
    error = cli.refused("view", "claude:5e55")
    assert f"ambiguous: {NAME}, claude:{other.session}" in error


def test_a_bundle_of_the_session_has_both_sources(
    cli: Cli, desk: TwoSourcesHome, tmp_path: Path
) -> None:
    desk.record()
    desk.import_files()
    bundle = str(tmp_path / "one.harken")
    cli.ok("store", "bundle", "create", NAME, "-o", bundle)
    opened = tmp_path / "opened"
    cli.ok("store", "bundle", "open", bundle, "--home", str(opened))
    [row] = cli.ok("sessions", "--json", "--home", str(opened)).json
    assert (row["session"], row["logs"], len(row["sources"])) == (NAME, [LOG], 2)
    assert cli.ok("stats", "--json", "--home", str(opened)).json["usage"]["responses"] == 3


def test_the_threads_of_the_session_are_listed_once(cli: Cli, desk: TwoSourcesHome) -> None:
    desk.record()
    before = cli.ok("interactions", "list", "--json").json
    desk.import_files()
    assert cli.ok("interactions", "list", "--json").json == before
