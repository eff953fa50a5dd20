"""An imported conversation is found by any name that a person has for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files.imported_sessions import ImportedConversation
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.cli.options.conversation import resolve_conversation
from harken.config.home import Home
from harken.core.commits import CommitId
from harken.errors import AmbiguousName, ConfigError, LogError, NameNotFound
from harken.index.catalogue import Catalogue
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import commit
from tests.unit.formats.transcripts import Transcript, text, use

ONE, TWO = "5e551011-0000-4000-8000-000000000001", "5e551022-0000-4000-8000-000000000002"


class Shelf:
    """A home with transcripts that were imported."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "projects", Home(str(folder / "home"))
        self.folder.mkdir()
        self.home.create_folders()
        self.store = SqliteStore(self.home.store_file)

    def bring(self, name: str, made: Transcript) -> CommitId:
        path = self.folder / name
        path.write_bytes(made.data)
        with closing(Catalogue(self.home.index_file)) as catalogue:
            (done,) = Importer(self.store, catalogue).run(list(iter_files(path)))
        return CommitId(done.report.tips[0].ctx)

    def find(self, name: str | Path) -> ImportedConversation:
        return resolve_conversation(self.home, self.store, str(name), None).conversation


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    with closing(shelf.store):
        yield shelf


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
    assert shelf.find(ctx) == ImportedConversation(ctx)


def test_the_beginning_of_several_sessions_is_refused(shelf: Shelf) -> None:
    shelf.bring("a.jsonl", talk(ONE, "a"))
    shelf.bring("b.jsonl", talk(TWO, "b"))
    with pytest.raises(AmbiguousName, match=f"claude:{ONE}, claude:{TWO}"):
        shelf.find("claude:5e5510")
    with pytest.raises(
        NameNotFound, match=f"session or commit 'codex:1' not found.*claude:{TWO[:8]}"
    ):
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
    with pytest.raises(
        ConfigError, match=r"if another runtime wrote it, import it: `harken import "
    ):
        shelf.find(other)
    with pytest.raises(LogError, match="session log not found"):
        shelf.find(tmp_path / "nothing.jsonl")


@pytest.mark.parametrize("given", ["", "codex", "codex:", "\0", "%", "*", "ctx-", "\ud800"])
def test_odd_names_are_no_names(shelf: Shelf, given: str) -> None:
    with pytest.raises(NameNotFound):
        shelf.find(given)


def test_a_record_of_another_version_is_passed_over(shelf: Shelf) -> None:
    ctx = shelf.bring("a.jsonl", talk(ONE, "a"))
    path = str(shelf.folder / "a.jsonl")
    with closing(Catalogue(shelf.home.index_file)) as catalogue:
        mark = catalogue.find_entries([path])[path].fingerprint
        catalogue.note("/other", mark, b'{"source": 5}')
        catalogue.commit()
    assert shelf.find(ONE).ctx == ctx
