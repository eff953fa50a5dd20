"""`harken why` where edits were made in other folders than that of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli

LICENSE = """\
Copyright (c) 2026 Jill Doe and contributors
Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files, to deal in it without restriction
"""
PARSER = """\
def parse_the_header(line):
    name, _, value = line.partition(':')
    return name.strip().lower(), value.strip()
"""


@pytest.fixture
def repository(cli: Cli) -> Repository:
    """A repository with a commit, in the working folder."""
    repository = Repository.create(Path.cwd())
    repository.commit("Begin", src__a_py="x = 1\n")
    return repository


def origin(cli: Cli, target: str) -> tuple[str, str]:
    """Return the writer of a line and the confidence."""
    (row,) = cli.ok("why", target, "--json").json
    return row["by"], row["confidence"]


def test_an_edit_of_another_project_claims_no_file_of_the_same_name(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    other = Repository.create(tmp_path / "other")
    for number, folder in enumerate(
        [other, Repository(tmp_path / "missing"), Repository(tmp_path / repository.folder.name)]
    ):
        session = Session(folder, number + 1).ask("Set up the project")
        path, letter = f"L{number}", "abc"[number]
        session.write(path, LICENSE.replace("a", letter * 2), "The license.")
        repository.write(path, LICENSE.replace("a", letter * 2))
        cli.ok("import", session.save(tmp_path))
    relative = Session(other, 4).ask("Set up the project")
    relative.call("Write", file_path="L3", content=LICENSE.replace("a", "dd"))
    cli.ok("import", relative.save(tmp_path))
    repository.commit("Licenses", L3=LICENSE.replace("a", "dd"))
    assert origin(cli, "L0:3") == ("author", "exact")
    assert origin(cli, "L3:3") == ("author", "exact")
    assert origin(cli, "L1:3") == ("author", "uncertain")
    assert origin(cli, "L2:3") == ("agent", "exact")


def test_an_edit_in_another_checkout_is_of_the_repository(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", str(tmp_path / "tree"))
    repository.git("clone", "-q", ".", str(tmp_path / "clone"))
    for number, name in enumerate(["tree", "clone", "removed"]):
        session = Session(Repository(tmp_path / name), number + 1).ask("Parse headers")
        session.write("src/a.py", "y = 2\n") if name == "removed" else None
        text = PARSER.replace("header", f"header_{number}")
        cli.ok("import", session.write(f"h{number}.py", text, "Parsed.").save(tmp_path))
        repository.write(f"h{number}.py", text)
    repository.commit("Parse")
    for number in range(3):
        assert origin(cli, f"h{number}.py:2") == ("agent", "exact"), number


def test_the_same_lines_of_agents_in_two_checkouts_are_uncertain(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    for number, name in enumerate(["one", "two"], 1):
        session = Session(Repository(tmp_path / name), number).ask("Parse headers")
        session.write("lib/h.py", PARSER, f"Agent {name}.")
        session.write(f"lib/{name}.py", PARSER.replace("header", name), f"Agent {name}.")
        cli.ok("import", session.save(tmp_path))
    repository.write("lib/one.py", PARSER.replace("header", "one"))
    repository.commit("Parse", lib__h_py=PARSER)
    assert origin(cli, "lib/h.py:2") == ("author", "uncertain")
    assert origin(cli, "lib/one.py:1") == ("agent", "exact")
