"""Scopes that a user names, and the existing ones in an error."""

from __future__ import annotations

import pytest

from harken.analytics.scope import projects, session_id
from harken.errors import NameNotFound
from tests.unit.analytics.row_builder import RowBuilder


@pytest.fixture
def story() -> RowBuilder:
    story = RowBuilder()
    for index, name in enumerate(("claude:ab12", "claude:ab13", "codex:zz", "session_2026")):
        story.say(story.session(name, project=f"/srv/{name[:6]}/web"), "prompt", index)
    return story


def resolve_name(story: RowBuilder, name: str) -> str:
    query = "SELECT name FROM sessions WHERE id = ?"
    rows = story.database.execute(query, (session_id(story.database, name),)).fetchall()
    return str(rows[0][0])


def test_session_is_resolved_by_its_full_name(story: RowBuilder) -> None:
    assert resolve_name(story, "claude:ab12") == "claude:ab12"


@pytest.mark.parametrize("name", ["nobody", "", "ab12", "claude:ab", "%", "\ud800"])
def test_missing_session_error_lists_existing_ones(story: RowBuilder, name: str) -> None:
    with pytest.raises(NameNotFound, match=r"existing sessions: session_2026, codex:zz"):
        session_id(story.database, name)


def test_project_is_a_folder_tree_or_a_path_suffix(story: RowBuilder) -> None:
    every = ("/srv/claude/web", "/srv/codex:/web", "/srv/sessio/web")
    assert projects(story.database, "/") == projects(story.database, "/srv/") == every
    assert projects(story.database, "/srv/claude") == ("/srv/claude/web",)
    assert projects(story.database, "web") == every
    assert projects(story.database, "claude/web") == ("/srv/claude/web",)


@pytest.mark.parametrize("name", ["/srv/cla", "claude", "", "..", "\ud800"])
def test_missing_project_error_lists_existing_ones(story: RowBuilder, name: str) -> None:
    with pytest.raises(NameNotFound, match="existing projects: /srv/claude/web, "):
        projects(story.database, name)
