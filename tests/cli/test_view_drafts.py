"""`--drafts`: conversations and dialogs with the answers that hooks denied, marked as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Cli
from tests.unit.views.log_builder import LogBuilder

SECRET = "The password is 1234."


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Log an answer that one hook rewrote and another denied, and one that was rewritten."""
    with LogBuilder(tmp_path) as play:
        log_answers(play)
        return str(play.session.path)


def log_answers(play: LogBuilder) -> None:
    polite, guard = (play.create_agent(name, by=play.root, relation="hook") for name in "PG")
    answer = play.says(play.root, SECRET)
    play.judges(polite, "response", answer, "REWRITE: The password is 1234, please.")
    denial = play.judges(guard, "response", answer, "DENY: no passwords")
    play.receives(play.root, "Your response was blocked: no passwords", "returned", denial)
    answer = play.says(play.root, "No.")
    play.judges(polite, "response", answer, "REWRITE: Sorry, no.")
    play.judges(guard, "response", answer, "OK")
    play.gives_answer(play.root, answer)


@pytest.mark.req("S0-44")
@pytest.mark.parametrize("view", ["conversation", "dialog Root"])
def test_without_drafts_a_denied_text_is_nowhere(cli: Cli, log: str, view: str) -> None:
    out = cli.ok("view", log, *view.split()).out
    assert "1234" not in out
    assert "no passwords" in out
    assert out.count("Sorry, no.") == 1


@pytest.mark.req("S0-44")
@pytest.mark.parametrize("view", ["conversation", "dialog Root"])
def test_drafts_are_marked_with_the_hook_that_denied_them(cli: Cli, log: str, view: str) -> None:
    out = cli.ok("view", log, *view.split(), "--drafts").out
    [line] = [line for line in out.splitlines() if SECRET in line]
    assert "draft" in line
    assert "denied by G" in line


def test_conversation_with_drafts_has_the_texts_of_rewrites(cli: Cli, log: str) -> None:
    lines = cli.ok("view", log).out.splitlines()
    assert lines.count("hook P rewrites the answer") == 2
    lines = cli.ok("view", log, "--drafts").out.splitlines()
    assert "hook P rewrites: The password is 1234, please." in lines
