"""An imported conversation is found by any name that a person has for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.capture.conversations import Conversation, find_conversation
from harken.capture.importing import Importer
from harken.capture.sources import files_in
from harken.core.commits import CommitId
from harken.errors import AmbiguousName, ConfigError, UnknownName
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.unit.context.kit import commit
from tests.unit.formats.transcripts import Transcript, text, use

ONE, TWO = "5e551011-0000-4000-8000-000000000001", "5e551022-0000-4000-8000-000000000002"


class Shelf:
    """Transcripts that were imported."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.catalogue = folder, MemoryStore(), Catalogue(None)
        folder.mkdir()

    def bring(self, name: str, made: Transcript) -> CommitId:
        path = self.folder / name
        path.write_bytes(made.data)
        (done,) = Importer(self.store, self.catalogue).run(list(files_in(path)))
        return CommitId(done.report.tips[0].ctx)

    def find(self, given: str | Path) -> Conversation:
        return find_conversation(self.store, self.catalogue, str(given))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "projects")


def talk(session: str, words: str) -> Transcript:
    made = Transcript(session)
    made.user(words)
    made.answer(text("Yes."), id=f"msg_{words}")
    return made


def test_any_name_gives_the_commit_and_where_the_session_worked(shelf: Shelf) -> None:
    ctx = shelf.bring("a.jsonl", talk(ONE, "a"))
    shelf.bring("b.jsonl", talk(TWO, "b"))
    for given in (
        ctx,
        ctx[:12],
        f"claude:{ONE}",
        "claude:5e551011",
        ONE,
        ONE[:8],
        shelf.folder / "a.jsonl",
    ):
        found = shelf.find(given)
        assert (found.ctx, found.runtime, found.folder) == (ctx, "claude", "/home/jill/cafe")


def test_a_commit_that_was_not_imported_has_no_folder(shelf: Shelf) -> None:
    ctx = commit(shelf.store, None, "a", "b")
    assert shelf.find(ctx) == Conversation(ctx)


def test_the_beginning_of_several_sessions_is_refused(shelf: Shelf) -> None:
    shelf.bring("a.jsonl", talk(ONE, "a"))
    shelf.bring("b.jsonl", talk(TWO, "b"))
    with pytest.raises(AmbiguousName, match=f"claude:{TWO}, claude:{ONE}"):
        shelf.find("claude:5e5510")
    with pytest.raises(UnknownName, match=f"there is no session 'codex:1' here.*claude:{TWO}"):
        shelf.find("codex:1")


def test_of_a_session_in_several_files_the_newest_counts(shelf: Shelf) -> None:
    made = talk(ONE, "a")
    shelf.bring("a.jsonl", made)
    made.user("And tea?")
    made.answer(text("Tea, too."))
    ctx = shelf.bring("a-later.jsonl", made)
    assert shelf.find(ONE).ctx == ctx


def test_a_session_is_its_main_conversation_and_not_that_of_a_subagent(shelf: Shelf) -> None:
    made = Transcript(ONE)
    made.user("Ask somebody.")
    made.answer(use("t1", "Task", prompt="Is it open?"))
    made.result("t1", "Yes.")
    ctx = shelf.bring("a.jsonl", made)
    aside = Transcript(ONE, shared={"isSidechain": True, "agentId": "a1"})
    aside.user("Is it open?")
    aside.answer(text("It is."))
    below = shelf.bring("agent-a1.jsonl", aside)
    assert below != ctx
    assert shelf.find(ONE).ctx == ctx
    assert shelf.find(below).folder == "/home/jill/cafe"


def test_a_file_that_was_not_imported_says_what_to_do(shelf: Shelf, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(talk(ONE, "a").data)
    with pytest.raises(ConfigError, match="was not imported; see `harken import`"):
        shelf.find(other)
    with pytest.raises(ConfigError, match="was not imported"):
        shelf.find(tmp_path / "nothing.jsonl")
    other.write_bytes(b"no transcript")
    list(Importer(shelf.store, shelf.catalogue).run(list(files_in(other))))
    with pytest.raises(ConfigError, match="holds no conversation"):
        shelf.find(other)


@pytest.mark.parametrize("given", ["", "claude", "claude:", "\0", "%", "*", "ctx-", "\ud800"])
def test_odd_names_are_no_names(shelf: Shelf, given: str) -> None:
    with pytest.raises(UnknownName):
        shelf.find(given)


def test_a_record_of_another_version_is_passed_over(shelf: Shelf) -> None:
    ctx = shelf.bring("a.jsonl", talk(ONE, "a"))
    mark = shelf.catalogue.known([str(shelf.folder / "a.jsonl")])[
        str(shelf.folder / "a.jsonl")
    ].mark
    shelf.catalogue.note("/other", mark, b'{"source": 5}')
    shelf.catalogue.commit()
    assert shelf.find(ONE).ctx == ctx
