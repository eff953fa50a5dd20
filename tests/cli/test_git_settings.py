"""The configuration of git, of a user or of a repository, changes no answer of `harken why`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from harken.attribution.git.repository import GitRepository
from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli

ALPHAS = [f"alpha_{i:02d} = configure_the_widget_number_{i}(depth={i * 3})" for i in range(12)]
BETAS = [line.replace("alpha", "beta") for line in ALPHAS]
DOCUMENT = ["The summary of the person who began it.", *(f"Paragraph {i} here." for i in range(5))]
GENERATED = "generated_by_the_agent = compute_all_of_it()"


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def history(cli: Cli, tmp_path: Path) -> Repository:
    """Files of an agent, changed, copied and restored by a person."""
    repository = Repository.create(Path.cwd())
    session = Session(repository).ask("Write the widgets")
    for name in ("changed.py", "restored.py", "retyped.py"):
        lines = BETAS if name == "restored.py" else ALPHAS
        session.write(name, text_of(lines), "Widgets.")
        repository.write(name, text_of(lines))
    repository.write("doc.md", text_of(DOCUMENT))
    repository.write("data.lock", text_of(ALPHAS))
    repository.write(".gitattributes", "*.lock -diff\n*.md diff=up\n")
    repository.commit("Begin")
    session.edit("doc.md", DOCUMENT[4], GENERATED, "As asked.")
    session.edit("data.lock", ALPHAS[4], GENERATED, "As asked.")
    repository.write("doc.md", text_of([*DOCUMENT[:4], GENERATED, DOCUMENT[5]]))
    repository.write("data.lock", text_of([*ALPHAS[:4], GENERATED, *ALPHAS[5:]]))
    repository.commit("Agent")
    cli.ok("import", session.save(tmp_path))
    changed = [*ALPHAS[:2], "the_third_line = 'typed by hand'", *ALPHAS[3:]]
    ignored = repository.commit(
        "Change", changed_py=text_of(changed), retyped_py=text_of([*ALPHAS, "", "", *ALPHAS[3:7]])
    )
    (tmp_path / "ignored").write_text(f"{ignored}\n")
    repository.commit("Copy", copy_py="# Copied\n" + text_of(BETAS[4:10]))
    repository.commit("Remove", restored_py=text_of(BETAS[:4] + BETAS[10:]))
    repository.commit("Restore", restored_py=text_of(BETAS))
    return repository


def confidences(cli: Cli, path: str) -> list[str]:
    """Return for each line of a file its writer and the confidence."""
    rows = cli.ok("blame", path, "--json").json
    return [f"{row['by']} {row['confidence']}" for row in rows]


ANSWERS: Mapping[str, Mapping[int, str]] = {
    "changed.py": {2: "agent exact", 3: "author exact", 4: "agent exact"},
    "restored.py": {4: "agent exact", 6: "author uncertain", 11: "agent exact"},
    "retyped.py": {4: "agent exact", 16: "author exact"},
    "doc.md": {1: "author exact", 5: "agent exact"},
    "data.lock": {4: "author exact", 5: "agent exact"},
}
SETTINGS = {
    "blame.ignoreRevsFile": "{folder}/ignored",
    "blame.markIgnoredLines": "true",
    "color.grep": "always",
    "color.ui": "always",
    "core.quotePath": "true",
    "diff.algorithm": "minimal",
    "diff.indentHeuristic": "false",
    "diff.interHunkContext": "9",
    "diff.noprefix": "true",
    "diff.relative": "true",
    "diff.up.textconv": "tail -n 2",
    "grep.column": "true",
    "grep.lineNumber": "true",
    "log.showRoot": "false",
    "log.showSignature": "true",
}


def test_settings_and_variables_change_no_answer(
    cli: Cli, history: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: confidences(cli, path) for path in ANSWERS}
    for name, value in SETTINGS.items():
        subprocess.run(["git", "config", name, value.format(folder=tmp_path)], check=True)
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=5")
    monkeypatch.setenv("GIT_GLOB_PATHSPECS", "1")
    after = {path: confidences(cli, path) for path in ANSWERS}
    assert after == before
    for path, lines in ANSWERS.items():
        given = {number: after[path][number - 1] for number in lines}
        assert given == lines


def test_a_relative_folder_of_git_is_that_of_the_caller(
    history: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (history.folder / "deep").mkdir()
    os.chdir(history.folder / "deep")
    monkeypatch.setenv("GIT_DIR", "../.git")
    monkeypatch.setenv("GIT_WORK_TREE", "..")
    repository = GitRepository(Path.cwd())
    assert repository.top == history.folder
    assert repository.is_tracked("doc.md")
