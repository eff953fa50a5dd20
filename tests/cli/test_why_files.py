"""`harken why` for files with unusual names, encodings and places."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.context.socket_server import ContextSocketServer
from harken.edits.patch_text import parse_unified_diff
from tests.cli.git_hook_kit import ANN, CTX, commit, repository, sockets
from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli

__all__ = ["repository", "sockets"]
TOTAL = "def total(order):\n    return order.price * order.count\n"
CAFE = "coffee_house_name = 'Café Größenwahn'\n"
HOUSE = "tea_house_name = 'Thé à la Méthode'\n"


def origin(cli: Cli, *arguments: str | Path) -> tuple[str, str]:
    """Return the writer of a line and the confidence."""
    (row,) = cli.ok("why", *arguments, "--json").json
    return row["by"], row["confidence"]


@pytest.fixture
def history(cli: Cli, tmp_path: Path) -> Repository:
    """A file of an agent that was deleted since, and one with a newline in its name."""
    history = Repository.create(Path.cwd())
    session = Session(history).ask("Add totals")
    for name in ("gone.py", "kept.py", "odd\nname.py"):
        session.write(name, TOTAL, "As asked.")
        history.write(name, TOTAL)
    cli.ok("import", session.save(tmp_path))
    history.commit("Add totals")
    (history.folder / "gone.py").unlink()
    history.commit("Remove")
    return history


def test_a_line_is_named_in_several_ways(cli: Cli, history: Repository, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(history.folder)
    for target in ("kept.py:2:11", str(link / "kept.py") + ":2", "odd\nname.py:2"):
        assert origin(cli, target) == ("agent", "exact")
    for target in ("gone.py:total", "gone.py:2"):
        assert origin(cli, target, "--rev", "HEAD~1") == ("agent", "exact")


def test_a_revision_that_is_none_is_refused(cli: Cli, history: Repository) -> None:
    for revision in ("nonsense", "-r", "--output=x"):
        for command in (("why", "kept.py:1"), ("blame", "kept.py")):
            text = cli.refused(*command, f"--rev={revision}")
            assert text == f"--rev {revision}: no such git commit"
    assert "HEAD: no file in HEAD~1" in cli.refused("why", "HEAD", "--rev", "HEAD~1")
    (history.folder / "kept.py").unlink()
    assert "deleted from the working tree" in cli.refused("why", "kept.py:1")


def test_the_encoding_of_a_file_is_no_change(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    texts = {"latin.py": (CAFE + HOUSE, "latin-1"), "mark.py": (CAFE + HOUSE, "utf-8-sig")}
    session = Session(repository).ask("Name the houses")
    for name, (text, encoding) in texts.items():
        session.write(name, text, "Named.")
        (repository.folder / name).write_bytes(text.encode(encoding))
    cli.ok("import", session.save(tmp_path))
    repository.commit("Houses")
    for name in texts:
        for line in (1, 2):
            assert origin(cli, f"{name}:{line}") == ("agent", "exact")


def test_a_trailer_answers_where_nothing_is_recorded(
    cli: Cli, repository: Repository, sockets: ContextSocketServer
) -> None:
    assert "no edit of an agent" in cli.refused("why", "a.py:1")
    cli.ok("git", "install")
    commit(repository.folder, "Ann", sockets.path(ANN))
    assert f"context {CTX[ANN][:16]} made the commit" in cli.ok("why", "a.py:2").out
    assert CTX[ANN][:16] in cli.ok("blame", "a.py").out.splitlines()[1]
    assert cli.ok("blame", "a.py", "--json").json[1]["contexts"] == [CTX[ANN]]


@pytest.mark.parametrize(
    ("header", "old", "new", "path"),
    [
        ("diff --git a/v.py b/v.py\n", "a/v.py", "b/v.py", "v.py"),
        ("diff --git a/v.py a/v.py\n", "a/v.py", "a/v.py", "a/v.py"),
        ("diff --git b/v.py b/v.py\n", "/dev/null", "b/v.py", "b/v.py"),
        ("diff --git a/v.py b/v.py\n", "/dev/null", "b/v.py", "v.py"),
        ("", "/dev/null", "b/v.py", "v.py"),
        ("", "v.py", "v.py", "v.py"),
    ],
)
def test_the_prefixes_of_a_diff_are_no_folders(header: str, old: str, new: str, path: str) -> None:
    (file,) = parse_unified_diff(f"{header}--- {old}\n+++ {new}\n@@ -0,0 +1 @@\n+x\n")
    assert file.new_path == path
