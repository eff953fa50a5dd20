"""`harken ticket`: every verb, with JSON, in any width, with contexts and without."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

from harken.config.home import Home
from harken.context.socket_client import VARIABLE
from harken.context.socket_server import ContextSocketServer
from harken.core.commits import TicketId
from harken.core.ids import AgentId
from harken.store.copying.tickets import copy_tickets
from harken.store.sqlite.store import SqliteStore
from harken.testing.store_kit import batch_of, commit_in
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes

VERBS = ["create", "update", "close", "reopen", "defer", "note", "list", "show", "ready", "claim"]


@pytest.fixture(autouse=True)
def principal(cli: Cli) -> None:
    cli.environ["HARKEN_PRINCIPAL"] = "ann"


def create(cli: Cli, title: str, *options: str) -> str:
    id_: str = cli.ok("ticket", "create", title, "--json", *options).json["id"]
    return id_


@pytest.mark.req("S2-42")
def test_a_ticket_goes_through_every_verb(cli: Cli, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"a photograph")
    epic = create(cli, "The tea house", "--type", "epic", "-p", "4")
    options = ["-p", "1", "--type", "bug", "--label", "tea", "--parent", epic[:12]]
    id_ = create(cli, "Repair the kettle", *options, "--body", "It leaks.", "--attach", str(photo))
    short = cli.ok("ticket", "create", "Buy a seal").out.strip()
    assert len(short) == 16
    cli.ok(
        "ticket", "update", id_, "--blocked-by", short, "--reviewer", "rita", "--title", "Mend it"
    )
    assert [row["id"] for row in cli.ok("ticket", "ready", "--json").json] == [
        cli.ok("ticket", "show", short, "--json").json["id"],
        epic,
    ]
    assert "is blocked by" in cli.refused("ticket", "claim", id_)
    assert cli.ok("ticket", "close", short, "--reason", "bought").out == f"{short}  closed\n"
    claimed = cli.ok("ticket", "claim", "--json").json
    assert (claimed["id"], claimed["assignee"], claimed["status"]) == (id_, "ann", "in_progress")
    assert "in progress already, by ann" in cli.refused("ticket", "claim", id_)
    cli.ok("ticket", "note", id_, "The seal fits.")
    cli.ok("ticket", "update", id_, "--status", "review", "--review", "rita=approved")
    cli.ok("ticket", "close", id_)
    cli.ok("ticket", "reopen", id_, "--reason", "it leaks again")
    cli.ok("ticket", "defer", id_, "--until", "2w")
    row = cli.ok("ticket", "show", id_[:10], "--json").json
    assert (row["title"], row["status"], row["priority"], row["type"]) == (
        *("Mend it", "deferred"),
        *(1, "bug"),
    )
    assert (row["labels"], row["parent"], row["reviewers"]) == (
        *(["tea"], epic),
        {"rita": "approved"},
    )
    assert row["deferred_until"] > row["created_at"]
    assert row["is_ready"] is False
    assert [change["action"] for change in row["history"]] == [
        *("create", "update", "claim", "note", "update", "close", "reopen", "defer")
    ]
    assert cli.ok("cat", row["attachments"][0]).out == "a photograph"
    assert cli.ok("ticket", "show", epic, "--json").json["children"] == [id_]


def test_the_page_of_a_ticket_shows_fields_notes_and_history(cli: Cli) -> None:
    epic = create(cli, "The tea house", "--type", "epic")
    id_ = create(cli, "Repair the kettle", "--parent", epic, "--body", "It leaks.\n\nSince noon.")
    cli.ok("ticket", "note", id_, "Two lines\nof a note")
    cli.ok("ticket", "update", id_, "-p", "0", "--label", "tea", "--label", "urgent")
    page = cli.ok("ticket", "show", id_).out
    lines = page.splitlines()
    assert lines[0] == f"{id_[:16]}  Repair the kettle"
    assert f"parent      {epic[:16]}  [open] The tea house" in lines
    assert "It leaks." in lines
    assert "      Two lines" in lines
    assert "priority 2 -> 0, labels +tea +urgent" in page
    assert max(map(len, lines)) <= 120
    for number in range(30):
        cli.ok("ticket", "note", id_, f"note {number}")
    assert "13 earlier changes: --full" in cli.ok("ticket", "show", id_).out
    assert id_ in cli.ok("ticket", "show", id_, "--full").out


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_list_fits_the_width_of_the_terminal(
    cli: Cli, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    id_ = create(cli, "A long title " * 20, "--assignee", "somebody with a long name")
    lines = cli.ok("ticket", "list").out.splitlines()
    assert max(map(len, lines)) <= width
    assert any(id_[:16] in line for line in lines)
    assert max(map(len, cli.ok("ticket", "show", id_).out.splitlines())) <= width


def test_a_list_filters_and_sorts(cli: Cli) -> None:
    a = create(cli, "Alpha", "-p", "3", "--label", "tea", "--assignee", "bob")
    b = create(cli, "Beta", "--type", "bug", "--body", "about the KETTLE")
    c = create(cli, "Gamma", "-p", "0")
    cli.ok("ticket", "close", c)

    def ids(*options: str) -> list[str]:
        return [row["id"] for row in cli.ok("ticket", "list", "--json", *options).json]

    assert ids() == [b, a]
    assert ids("--all") == [c, b, a]
    assert ids("--status", "closed") == [c]
    assert ids("--sort", "title", "--reverse") == [b, a]
    assert ids("--label", "tea") == ids("--assignee", "bob") == ids("-p", "3") == [a]
    assert ids("--type", "bug") == ids("--text", "kettle") == ids("--assignee", "") == [b]
    assert ids("-n", "1") == [b]
    assert ids("--author", "zoe") == []
    assert cli.ok("ticket", "list", "--author", "zoe").out == "no tickets\n"


@pytest.mark.req("S2-43", "S2-44")
def test_a_change_carries_the_commit_of_the_agent_that_runs_the_command(
    cli: Cli, tmp_path: Path
) -> None:
    outside = create(cli, "Outside of an agent")
    assert cli.ok("ticket", "show", outside, "--json").json["context_id"] == ""
    with closing(SqliteStore(Home(str(cli.home)).store_file)) as store:
        batch = batch_of("thinking", principal="ann/reviewer")
        store.write(batch)
    del cli.environ["HARKEN_PRINCIPAL"]
    server = ContextSocketServer(tmp_path)
    try:
        key = (tmp_path / "log", AgentId("agent_001"))
        cli.environ[VARIABLE] = str(server.path(key))
        server.settle(key, commit_in(batch))
        inside = create(cli, "A finding")
        cli.ok("ticket", "note", outside, "seen")
    finally:
        server.close()
    row = cli.ok("ticket", "show", inside, "--json").json
    assert (row["created_context_id"], row["created_by"]) == (commit_in(batch), "ann/reviewer")
    history = cli.ok("ticket", "show", outside, "--json").json["history"]
    assert [change["context_id"] for change in history] == ["", commit_in(batch)]
    cli.ok("ticket", "close", inside, "--as", "bob")
    closed = cli.ok("ticket", "show", inside, "--json").json
    assert (closed["created_context_id"], closed["updated_by"]) == (commit_in(batch), "bob")


@pytest.mark.req("S2-45")
def test_a_change_outside_of_an_agent_is_shown_with_the_nearest_commit_of_its_author(
    cli: Cli,
) -> None:
    id_ = create(cli, "Repair the kettle")
    with closing(SqliteStore(Home(str(cli.home)).store_file)) as store:
        batch = batch_of("thinking", principal="ann")
        store.write(batch)
    [change] = cli.ok("ticket", "show", id_, "--json").json["history"]
    assert (change["context_id"], change["resolved_context_id"]) == ("", commit_in(batch))
    assert f"nearest {commit_in(batch)[:16]}" in cli.ok("ticket", "show", id_).out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["create", " "], "the title of a ticket is empty"),
        (["create", "two\nlines"], "not one line"),
        (["create", "x", "--type", "review_finding"], "needs the ticket in review"),
        (["create", "x", "--parent", "tkt-000000000000"], "ticket 'tkt-000000000000' not found"),
        (["create", "x", "--attach", "/none"], "not a file"),
        (["create", "x", "--attach", "art-000000000000"], "artifact 'art-000000000000' not found"),
        (["update", "ID", "--review", "rita=fine"], "is not a review"),
        (["update", "ID", "--blocked-by", "ID"], "block itself"),
        (["update", "ID", "--detach", "x"], "not the name of an artifact"),
        (["reopen", "ID"], "only closed and deferred"),
        (["defer", "ID", "--until", "soon"], "'soon' is not a time"),
        (["note", "ID", " "], "the note is empty"),
        (["show", "tkt-zz"], "not found"),
        (["list", "--parent", "tkt-000000000000"], "not found"),
        (["claim", "tkt-000000000000"], "not found"),
    ],
)
def test_an_error_is_one_line(cli: Cli, arguments: list[str], text: str) -> None:
    id_ = create(cli, "Repair the kettle")
    before = cli.ok("ticket", "list", "--json").out
    real = [id_ if argument == "ID" else argument for argument in arguments]
    assert text in cli.refused("ticket", *real)
    assert cli.ok("ticket", "list", "--json").out == before


def test_texts_cannot_control_the_terminal(cli: Cli) -> None:
    id_ = create(cli, "Repair the kettle", "--body", "\x1b[31mred\x07")
    cli.ok("ticket", "note", id_, "\x1b]0;title\x07")
    assert "\x1b" not in cli.ok("ticket", "show", id_).out
    assert "\x1b" not in cli.ok("ticket", "show", id_, "--json").out


def test_without_a_store_nothing_is_created_by_reading(cli: Cli) -> None:
    assert "store not found" in cli.refused("ticket", "list")
    assert not (cli.home / "store.db").exists()


def test_fsck_reports_a_ticket_whose_blocker_is_missing(cli: Cli, tmp_path: Path) -> None:
    blocker = create(cli, "Buy a seal")
    id_ = create(cli, "Repair the kettle", "--blocked-by", blocker)
    assert "intact" in cli.ok("store", "fsck").out
    other = Home(str(tmp_path / "other"))
    other.create_folders()
    with (
        closing(SqliteStore(Home(str(cli.home)).store_file)) as source,
        closing(SqliteStore(other.store_file)) as target,
    ):
        copy_tickets(source, target, [TicketId(id_)])
    ran = cli("store", "fsck", "--home", other.folder)
    assert (ran.code, ran.out) == (
        1,
        f"ticket {id_}: it names {blocker}, which is not in the store\n",
    )
    assert (
        f"{blocker[:16]}  (not in the store)"
        in cli.ok("ticket", "show", id_, "--home", other.folder).out
    )


def test_every_verb_has_help_and_json(cli: Cli) -> None:
    for verb in VERBS:
        text = cli.ok("ticket", verb, "--help").out
        assert f"Usage: harken ticket {verb}" in text
        assert "--json" in text


def test_of_commands_that_claim_at_once_one_succeeds(cli: Cli) -> None:
    id_ = create(cli, "Repair the kettle")
    codes: list[int] = []

    def claim(number: int) -> None:
        command = [str(HARKEN), "ticket", "claim", id_, "--as", f"agent-{number}"]
        command += ["--home", str(cli.home)]
        codes.append(processes.run(command, capture_output=True, check=False).returncode)

    threads = [threading.Thread(target=claim, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 2, 2, 2]
    assert json.loads(cli.ok("ticket", "show", id_, "--json").out)["status"] == "in_progress"


def test_issues_of_github_are_imported_once_and_exported(cli: Cli, tmp_path: Path) -> None:
    issue = {
        "number": 12,
        "title": "Repair the kettle",
        "createdAt": "2026-01-31T12:00:00Z",
        "labels": [{"name": "bug"}],
        "state": "OPEN",
        "url": "https://github.com/ann/tea/issues/12",
    }
    file = tmp_path / "issues.json"
    file.write_text(json.dumps([issue]))
    assert cli.ok("ticket", "import", file).out == "1 created, 0 updated, 0 unchanged\n"
    assert cli.ok("ticket", "import", file).out == "0 created, 0 updated, 1 unchanged\n"
    [row] = cli.ok("ticket", "list", "--json").json
    assert row["origin"]["tracker"] == "github:ann/tea"
    assert "github:ann/tea 12" in cli.ok("ticket", "show", row["id"]).out
    [exported] = cli.ok("ticket", "export").json
    assert (exported["number"], exported["url"], exported["labels"]) == (
        *(12, issue["url"]),
        [{"name": "bug"}],
    )
    file.write_text(json.dumps([{**issue, "url": ""}]))
    assert "--tracker" in cli.refused("ticket", "import", file)
    file.write_text("[1]")
    assert "not valid GitHub issues" in cli.refused("ticket", "import", file)


@pytest.mark.req("S2-50")
def test_a_ticket_travels_in_a_bundle_with_its_findings_and_their_commits(
    cli: Cli, tmp_path: Path
) -> None:
    secret = "sk-ant-api03-" + "x" * 90
    parent = create(cli, "Rewrite the parser", "--body", f"The key is {secret}.")
    with closing(SqliteStore(Home(str(cli.home)).store_file)) as store:
        batch = batch_of("thinking", principal="ann/reviewer")
        store.write(batch)
    server = ContextSocketServer(tmp_path)
    try:
        key = (tmp_path / "log", AgentId("agent_001"))
        cli.environ[VARIABLE] = str(server.path(key))
        server.settle(key, commit_in(batch))
        finding = create(cli, "It drops lines", "--type", "review_finding", "--parent", parent)
    finally:
        server.close()
        del cli.environ[VARIABLE]
    create(cli, "Not in the bundle")
    out, other = tmp_path / "b.zip", ("--home", str(tmp_path / "other"))
    assert (
        "1 commit, 0 sessions, 2 tickets"
        in cli.ok("store", "bundle", "create", parent[:16], "-o", out).out
    )
    assert "2 new tickets, 0 continued" in cli.ok("store", "bundle", "open", out, *other).out
    rows = {row["id"]: row for row in cli.ok("ticket", "list", "--json", *other).json}
    assert rows.keys() == {parent, finding}
    assert secret not in json.dumps(rows)
    assert rows[finding]["created_context_id"] == commit_in(batch)
    cli.ok("ctx", "show", rows[finding]["created_context_id"], *other)
    cli.ok("ticket", "close", finding)
    out.unlink()
    cli.ok("store", "bundle", "create", finding, "-o", out)
    assert "0 new tickets, 1 continued" in cli.ok("store", "bundle", "open", out, *other).out
    assert cli.ok("ticket", "show", finding, "--json", *other).json["status"] == "closed"
    cli.ok("ticket", "note", finding, "here", *other)
    cli.ok("ticket", "note", finding, "there")
    out.unlink()
    cli.ok("store", "bundle", "create", "-o", out)
    ran = cli.ok("store", "bundle", "open", out, *other)
    assert f"ticket {finding[:16]} has changes here" in ran.err
    assert "intact" in cli.ok("store", "fsck", *other).out


def test_a_bundle_with_a_head_that_is_no_ticket_is_refused(cli: Cli, tmp_path: Path) -> None:
    id_ = create(cli, "Repair the kettle")
    with closing(SqliteStore(Home(str(cli.home)).store_file)) as store:
        head = store.heads("tkt-")[TicketId(id_)]
        store.move_head(TicketId("tkt-" + "1" * 64), head, expected=None)
    cli.ok("store", "bundle", "create", "-o", tmp_path / "b.zip")
    other = ("--home", str(tmp_path / "other"))
    for option in ((), ("--dry-run",)):
        refusal = cli.refused("store", "bundle", "open", tmp_path / "b.zip", *option, *other)
        assert "belongs to another ticket" in refusal
    assert "store not found" in cli.refused("ticket", "list", *other)
