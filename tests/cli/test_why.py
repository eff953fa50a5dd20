"""`harken why`: from a line to the message that wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli

TOTAL = "def total(order):\n    return order.price * order.count\n"


@pytest.fixture
def repository(cli: Cli) -> Repository:
    """An empty repository in the working folder."""
    return Repository.create(Path.cwd())


@pytest.fixture
def session(repository: Repository) -> Session:
    """A session in which an agent wrote a.py."""
    asked = Session(repository).ask("Add a total for orders")
    return asked.write("a.py", TOTAL, "The total is the price times the count.")


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


def test_a_line_of_a_person_is_theirs(
    cli: Cli, repository: Repository, session: Session, tmp_path: Path
) -> None:
    cli.ok("import", session.save(tmp_path))
    commit = repository.commit("Add totals", a_py=f"{TOTAL}\n\nprint(total(None))\n")
    heading, by = cli.ok("why", "a.py:5").out.splitlines()
    assert heading == "a.py:5  print(total(None))"
    assert by.startswith(f"  no recorded edit; {commit[:10]} Add totals (Jill, ")


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
