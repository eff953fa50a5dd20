"""What people name, and what there is instead."""

from __future__ import annotations

import pytest

from harken.analytics.named import projects, session_id
from harken.errors import AmbiguousName, UnknownName
from tests.unit.analytics.story import Story


@pytest.fixture
def story() -> Story:
    story = Story()
    for at, name in enumerate(("claude:ab12", "claude:ab13", "codex:zz", "session_2026")):
        story.say(story.session(name, project=f"/srv/{name[:6]}/web"), "prompt", at)
    return story


def named(story: Story, name: str) -> str:
    query = "SELECT name FROM sessions WHERE id = ?"
    row = story.database.execute(query, (session_id(story.database, name),)).fetchone()
    return str(row[0])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude:ab12", "claude:ab12"),
        ("ab13", "claude:ab13"),
        ("codex", "codex:zz"),
        ("z", "codex:zz"),
        ("session", "session_2026"),
        ("latest", "session_2026"),
    ],
)
def test_a_session_is_named_by_the_beginning_of_its_id(story: Story, name: str, meant: str) -> None:
    assert named(story, name) == meant


def test_a_beginning_of_several_says_which(story: Story) -> None:
    with pytest.raises(AmbiguousName, match=r"claude:ab12, claude:ab13"):
        session_id(story.database, "ab1")


@pytest.mark.parametrize("name", ["nobody", "", "%", "\ud800"])
def test_a_session_that_is_not_there_is_said_with_those_that_are(story: Story, name: str) -> None:
    with pytest.raises(UnknownName, match=r"there is: latest, session_2026, codex:zz"):
        session_id(story.database, name)


def test_a_project_is_a_folder_with_all_below_or_the_end_of_a_path(story: Story) -> None:
    every = ("/srv/claude/web", "/srv/codex:/web", "/srv/sessio/web")
    assert projects(story.database, "/") == projects(story.database, "/srv/") == every
    assert projects(story.database, "/srv/claude") == ("/srv/claude/web",)
    assert projects(story.database, "web") == every
    assert projects(story.database, "claude/web") == ("/srv/claude/web",)


@pytest.mark.parametrize("name", ["/srv/cla", "claude", "", "..", "\ud800"])
def test_another_project_is_said_with_those_that_are(story: Story, name: str) -> None:
    with pytest.raises(UnknownName, match="there is: /srv/claude/web, "):
        projects(story.database, name)
