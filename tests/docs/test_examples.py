"""The examples of README.md and docs/ work, and print what the pages say."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Command, Reader, commands, examples
from tests.postgres_kit import run_postgres, run_s3

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
    ROOT / "docs" / "reference" / "hooks.md",
]

LARGE_PACKAGES = {
    "use-with-claude-agent-sdk.md": "claude_agent_sdk",
    "use-with-google-adk.md": "google.adk",
}
"""Pages that need a package that is not installed everywhere: `make frameworks`."""


SERVER_PAGE = ROOT / "docs" / "how-to" / "use-postgresql-and-s3.md"
"""The page whose reader has PostgreSQL and an S3 server."""
PAGES.remove(SERVER_PAGE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_print_the_documented_output(tmp_path: Path, page: Path) -> None:
    package = LARGE_PACKAGES.get(page.name)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: its tests run the page where it is")
    Reader(tmp_path).follow(page)


def test_commands_of_the_page_of_server_stores_print_the_documented_output(tmp_path: Path) -> None:
    with run_postgres() as postgres, run_s3() as s3:
        s3.client().create_bucket(Bucket="harken-packs")
        reader = Reader(tmp_path)
        reader.environment |= s3.environment
        reader.environment |= {"PGHOST": str(postgres.folder), "PGUSER": "postgres"}
        reader.environment["PATH"] += f"{os.pathsep}{postgres.programs}"
        (tmp_path / ".harken").mkdir(mode=0o700)
        assert reader.follow(SERVER_PAGE) >= 7


@pytest.mark.parametrize(
    ("page", "harken_commands", "python_commands"),
    [
        ("first-session", 10, 2),
        ("continue-a-conversation", 8, 0),
        ("store-contexts", 2, 4),
        ("scene", 4, 3),
    ],
)
def test_each_tutorial_runs_commands(page: str, harken_commands: int, python_commands: int) -> None:
    lines = [
        command.line
        for example in examples(ROOT / "docs" / "tutorial" / f"{page}.md")
        if example.language == "console"
        for command in commands(example.text)
    ]
    assert sum(line.startswith("harken ") for line in lines) >= harken_commands
    assert sum(line.startswith("python ") for line in lines) >= python_commands


def test_quickstart_runs_twice(tmp_path: Path) -> None:
    quickstart = next(e for e in examples(ROOT / "README.md") if e.language == "python")
    assert len([line for line in quickstart.text.splitlines() if line]) == 10
    reader = Reader(tmp_path)
    (reader.folder / "quickstart.py").write_text(quickstart.text)
    for run_number in (1, 2):
        ran = reader.run([sys.executable, "-W", "error", "quickstart.py"])
        assert ran.returncode == 0, ran.stdout
        assert ran.stdout.startswith("Ann wants tea.\n")
        assert ran.stdout.count("[Said]: Tea.") == run_number
    assert [path.name for path in reader.folder.iterdir() if path.suffix == ".jsonl"] == [
        "tea.jsonl"
    ]


def test_wrong_output_in_a_page_is_reported(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.type(Command("echo one; echo two >&2", "one\n...\n"))
    reader.type(Command("exit 3  # exit code 3", ""))
    for command in (Command("echo one", "two\n"), Command("exit 3", "")):
        with pytest.raises(AssertionError):
            reader.type(command)


def test_readme_links_resolve() -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert links
    assert missing == []
