"""What the prompt of a chat says of the project."""

from __future__ import annotations

import os
from pathlib import Path

from harken.cli.prompt import project_instructions


def test_what_a_project_tells_agents_is_read(tmp_path: Path) -> None:
    assert not project_instructions(tmp_path)
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    assert project_instructions(tmp_path) == "Use tabs."


def test_a_link_is_followed_within_the_project_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "README").write_text("Use tabs.")
    (project / "AGENTS.md").symlink_to("../secret")
    (project / "sub" / "AGENTS.md").symlink_to("../README")
    assert not project_instructions(project)
    assert not project_instructions(project / "sub")
    (project / ".git").mkdir()
    assert not project_instructions(project)
    assert project_instructions(project / "sub") == "Use tabs."


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    assert not project_instructions(tmp_path)
