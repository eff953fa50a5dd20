"""What people name, and what there is instead."""

from __future__ import annotations

import pytest

from harken.analytics.scope import projects, session_id
from harken.errors import NameNotFound
from tests.unit.analytics.story import Story


@pytest.fixture
def story() -> Story:
    story = Story()
    for at, name in enumerate(("claude:ab12", "claude:ab13", "codex:zz", "session_2026")):
        story.say(story.session(name, project=f"/srv/{name[:6]}/web"), "prompt", at)
    return story


def named(story: Story, name: str) -> str:
    query = "SELECT name FROM sessions WHERE id = ?"
    rows = story.database.execute(query, (session_id(story.database, name),)).fetchall()
    return str(rows[0][0])


def test_a_session_is_found_by_its_full_name(story: Story) -> None:
    assert named(story, "claude:ab12") == "claude:ab12"


@pytest.mark.parametrize("name", ["nobody", "", "ab12", "claude:ab", "%", "\ud800"])
def test_a_session_that_is_not_there_is_said_with_those_that_are(story: Story, name: str) -> None:
    with pytest.raises(NameNotFound, match=r"there is: session_2026, codex:zz"):
        session_id(story.database, name)


def test_a_project_is_a_folder_with_all_below_or_the_end_of_a_path(story: Story) -> None:
    every = ("/srv/claude/web", "/srv/codex:/web", "/srv/sessio/web")
    assert projects(story.database, "/") == projects(story.database, "/srv/") == every
    assert projects(story.database, "/srv/claude") == ("/srv/claude/web",)
    assert projects(story.database, "web") == every
    assert projects(story.database, "claude/web") == ("/srv/claude/web",)


@pytest.mark.parametrize("name", ["/srv/cla", "claude", "", "..", "\ud800"])
def test_another_project_is_said_with_those_that_are(story: Story, name: str) -> None:
    with pytest.raises(NameNotFound, match="there is: /srv/claude/web, "):
        projects(story.database, name)
