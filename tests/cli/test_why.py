"""`harken why`: from a line to the message that wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli, Ran, start

TOTAL = "def total(order):\n    return order.price * order.count\n"
FREE = "    if order.is_free:\n        return 0\n"
ANSWERS = """\
rules:
  - pattern: Why
    answer: A free order has no price.
"""


@pytest.fixture
def repository(cli: Cli) -> Repository:
    """An empty repository in the working folder."""
    return Repository.create(Path.cwd())


@pytest.fixture
def session(repository: Repository) -> Session:
    """A session in which an agent wrote a.py."""
    asked = Session(repository).ask("Add a total for orders")
    return asked.write("a.py", TOTAL, "The total is the price times the count.")


@pytest.fixture
def history(cli: Cli, repository: Repository, session: Session, tmp_path: Path) -> Repository:
    """Two edits of an agent and one of a person."""
    price = "    return order.price * order.count\n"
    session.edit("a.py", price, FREE + price, "Free orders cost nothing.")
    cli.ok("import", session.save(tmp_path))
    text = TOTAL.replace(price, FREE + price)
    repository.commit("Add totals", a_py=f"{text}\n\nprint(total(None))\n")
    repository.commit(
        "Round", a_py=f"{text}\n\nprint(total(None))\n".replace("* order", "// order")
    )
    return repository


def diff_of(cli: Cli, text: str) -> Ran:
    """Ask for a diff on standard input."""
    ran = start(cli.home, "why", "-", "--json", stdin=text)
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_a_line_leads_to_its_message(
    cli: Cli, repository: Repository, session: Session, tmp_path: Path
) -> None:
    cli.ok("import", session.save(tmp_path))
    commit = repository.commit("Add totals", a_py=TOTAL)
    heading, written, asked, reason, by = cli.ok("why", "a.py:2").out.splitlines()
    assert heading == "a.py:2  return order.price * order.count"
    assert "written by Claude Code, claude-opus-4-5-20251101, 2026-01-31 12:00, ctx-" in written
    assert asked == "  asked   Add a total for orders"
    assert reason == "  reason  The total is the price times the count."
    assert by.startswith(f"  commit  {commit[:10]} Add totals (Jill, ")


def test_a_line_of_a_person_is_theirs(cli: Cli, history: Repository) -> None:
    heading, by = cli.ok("why", "a.py:7").out.splitlines()
    assert heading == "a.py:7  print(total(None))"
    assert by.startswith("  no recorded edit; ")
    assert " Add totals (Jill, " in by


def test_a_line_that_a_person_changed_is_theirs_and_names_the_edit(
    cli: Cli, history: Repository
) -> None:
    (row,) = cli.ok("why", "a.py:4", "--json").json
    assert (row["by"], row["confidence"], row["commit"]["summary"]) == (
        "author",
        "similar",
        "Round",
    )
    assert 0.5 < row["ratio"] < 1
    assert row["edit"]["reason"] == "The total is the price times the count."
    _, by, changed, *_ = cli.ok("why", "a.py:4").out.splitlines()
    assert " Round (Jill, " in by
    assert "changed from a line (" in changed


def test_a_program_reads_json(
    cli: Cli, repository: Repository, session: Session, tmp_path: Path
) -> None:
    cli.ok("import", session.save(tmp_path))
    repository.commit("Add totals", a_py=TOTAL)
    (row,) = cli.ok("why", "a.py:total", "--json").json
    assert (row["lines"], row["by"], row["confidence"]) == ([1, 2], "agent", "exact")
    assert row["edit"]["request"] == "Add a total for orders"
    assert row["edit"]["tool"] == "Write"
    assert row["edit"]["cost_usd"] > 0


@pytest.mark.parametrize("target", ["a.py:1-3", "a.py:total", "HEAD~1"])
def test_several_lines_are_grouped_by_their_edits(
    cli: Cli, history: Repository, target: str
) -> None:
    rows = cli.ok("why", target, "--json").json
    written = {row["edit"]["reason"]: row["lines"] for row in rows if row["by"] == "agent"}
    assert written["Free orders cost nothing."] == [2, 3]
    assert 1 in written["The total is the price times the count."]


def test_a_diff_leads_to_the_edits_of_its_lines(cli: Cli, history: Repository) -> None:
    rows = diff_of(cli, history.git("show", "HEAD~1")).json
    agent = [row for row in rows if row["by"] == "agent"]
    assert {(row["path"], tuple(row["lines"])) for row in agent} == {
        ("a.py", (1, 4)),
        ("a.py", (2, 3)),
    }
    bad = diff_of(cli, "no diff")
    assert (bad.code, bad.out) == (2, "")
    assert "not a unified diff" in bad.err


def test_a_line_that_is_not_committed_yet_is_attributed(
    cli: Cli, history: Repository, tmp_path: Path
) -> None:
    session = Session(history, 2).ask("Add a discount")
    session.write("b.py", "def discount(order):\n    return order.price / 10\n", "Ten percent.")
    cli.ok("import", session.save(tmp_path))
    history.write("b.py", "def discount(order):\n    return order.price / 10\n")
    history.git("add", "b.py")
    (row,) = cli.ok("why", "b.py:2", "--json").json
    assert (row["by"], row["commit"]) == ("agent", None)
    assert row["edit"]["reason"] == "Ten percent."


def test_full_shows_the_conversation_from_the_request_to_the_edit(
    cli: Cli, history: Repository
) -> None:
    out = cli.ok("why", "a.py:3", "--full").out
    request, _, edit = out.partition("Free orders cost nothing.\n  [Edit]")
    assert "  Add a total for orders" in request
    assert "  [Write] " in request
    assert "  +        return 0" in edit


def test_the_agent_itself_is_asked_in_a_branch(
    cli: Cli, history: Repository, tmp_path: Path
) -> None:
    script = tmp_path / "answers.yaml"
    script.write_text(ANSWERS)
    ask = ("why", "a.py:3", "--ask", "Why zero?", "--model", f"scripted:{script}")
    assert cli.ok(*ask).out.strip() == "A free order has no price."
    (log,) = cli.sessions()
    events = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    (loaded,) = [event["ctx"] for event in events if event["event_type"] == "context_loaded"]
    assert "Free orders cost nothing." in cli.ok("ctx", "show", loaded).out


def test_the_conversation_is_opened_in_a_client(cli: Cli, history: Repository) -> None:
    out = cli.ok("why", "a.py:3", "--in", "claude", "--print").out
    assert "claude --resume " in out
    (log,) = Path(cli.environ["CLAUDE_CONFIG_DIR"]).rglob("*.jsonl")
    assert "Free orders cost nothing." in log.read_text("utf-8")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("a.py", "name a line, lines or a function: a.py:12"),
        ("a.py:0", "lines are numbered from 1"),
        ("a.py:3-2", "the last follows the first"),
        ("a.py:99", "line 99 is out of range; it has 7"),
        ("a.py:missing", "no function or class 'missing'"),
        ("b.py:1", "no file"),
        ("new.py:1", "not tracked by git"),
        ("../a.py:1", "not in this repository"),
        ("data.bin:1", "a binary file"),
        ("link.py:1", "a symbolic link"),
        ("missing", "no file and no commit"),
        ("--help-me", "No such option"),
    ],
)
def test_a_bad_target_is_refused_in_one_line(
    cli: Cli, history: Repository, target: str, reason: str
) -> None:
    history.write("new.py", "x = 1\n")
    (history.folder / "data.bin").write_bytes(b"\0\1")
    (history.folder / "link.py").symlink_to("a.py")
    history.git("add", "data.bin", "link.py")
    assert reason in cli.refused("why", target)


def test_a_question_without_an_agent_is_refused(cli: Cli, history: Repository) -> None:
    assert "no agent wrote it" in cli.refused("why", "a.py:7", "--ask", "Why?")
    assert "--ask needs a question" in cli.refused("why", "a.py:3", "--ask", " ")
    both = cli.refused("why", "a.py:3", "--ask", "Why?", "--in", "claude")
    assert "cannot be combined" in both


def test_nothing_recorded_and_no_repository_are_explained(cli: Cli, tmp_path: Path) -> None:
    assert "not in a git repository" in cli.refused("why", "a.py:1")
    Repository.create(Path.cwd()).commit("Add totals", a_py=TOTAL)
    assert "`harken import` imports the sessions" in cli.refused("why", "a.py:1")


REPORT = """\
def print_report(customers):
    invoices = load_invoices(customers)
    for invoice in sorted(invoices):
        print(invoice.number, invoice.customer)
    return summarize(invoices)
"""


def test_a_line_survives_amend_squash_cherry_pick_and_renames(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    """No commit has the file under the name that the agent gave it."""
    session = Session(repository).ask("Print a report")
    cli.ok("import", session.write("a.py", REPORT, "Sorted, as asked.").save(tmp_path))
    git = repository.git
    repository.commit("Begin", b_py="import os\n")
    git("checkout", "-q", "-b", "feature")
    repository.commit("Report", a_py=REPORT)
    git("commit", "-q", "--amend", "-m", "Amended")
    git("checkout", "-q", "main")
    repository.commit("Main work", b_py="import os, sys\n")
    git("cherry-pick", "feature")
    git("mv", "a.py", "reports.py")
    repository.commit("Rename")
    git("reset", "-q", "--soft", "HEAD~2")
    git("commit", "-q", "-m", "Squashed")
    (row,) = cli.ok("why", "reports.py:4", "--json").json
    assert (row["by"], row["edit"]["reason"]) == ("agent", "Sorted, as asked.")
    assert row["commit"]["summary"] == "Squashed"


def test_a_damaged_store_or_index_is_no_traceback(cli: Cli, history: Repository) -> None:
    answer = cli.ok("why", "a.py:3").out
    (cli.home / "edits.db").write_bytes(b"no database" * 1000)
    ran = cli("why", "a.py:3")
    assert (ran.code, ran.out) == (0, answer)
    assert "edits.db was damaged" in ran.err
