"""Import of files while they grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files.follower import (
    DEBOUNCE_S,
    SUPERSEDED_LABEL,
    UNANSWERED_S,
    FileFollower,
    ImportedChange,
)
from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.errors import ObjectNotFound, StoreLocked
from harken.index.catalogue import Catalogue
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block


class Watch:
    """A follower of one file, with a clock that the test advances."""

    def __init__(self, path: Path, catalogue: Catalogue) -> None:
        self.path, self.now = path, 1000.0
        self.store, self.catalogue = MemoryStore(), catalogue
        self.follower = FileFollower(self.store, catalogue, clock=lambda: self.now)

    def write(self, data: bytes) -> None:
        """Write the complete file, as its client does, and poll the follower."""
        self.path.write_bytes(data)
        self.follower.note_changed([self.path])

    def later(self, seconds: float = DEBOUNCE_S) -> list[ImportedChange]:
        self.now += seconds
        return [*self.follower.read()]

    def read_texts(self, ctx: str) -> list[str]:
        messages = materialize(self.store, CommitId(ctx)).messages
        return [text_of(message.content) for message in messages]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    catalogue = Catalogue(None)
    yield Watch(tmp_path / "a.jsonl", catalogue)
    catalogue.close()


@pytest.fixture
def session() -> Transcript:
    transcript = Transcript()
    transcript.user("Is the cafe open?")
    transcript.answer(text_block("It is."))
    return transcript


def test_follower_yields_only_new_commits_of_a_grown_file(
    watch: Watch, session: Transcript
) -> None:
    watch.write(session.data)
    (news,) = watch.later()
    assert [commit.notes.summary for commit in news.commits] == ["It is."]
    assert watch.later() == []
    session.user("Since when?")
    session.answer(text_block("Since eight."))
    session.user("Thanks.")
    session.answer(text_block("Welcome."))
    watch.write(session.data)
    (news,) = watch.later()
    assert [commit.notes.summary for commit in news.commits] == ["Since eight.", "Welcome."]
    assert len(watch.read_texts(news.report.tips[0].ctx)) == 6


def test_follower_creates_the_same_commits_as_an_import(
    watch: Watch, session: Transcript, tmp_path: Path
) -> None:
    watch.write(session.data)
    watch.later()
    session.user("Since when?")
    session.answer(text_block("Since eight."))
    watch.write(session.data)
    (news,) = watch.later()
    elsewhere = Importer(MemoryStore(), Catalogue(None)).run([*iter_files(watch.path)])
    assert [change.report.tips for change in elsewhere] == [news.report.tips]


def test_follower_reads_a_file_after_a_quiet_period(watch: Watch, session: Transcript) -> None:
    watch.write(session.data)
    assert watch.later(DEBOUNCE_S / 2) == []
    watch.follower.note_changed([watch.path])
    assert watch.later(DEBOUNCE_S / 2) == []
    assert len(watch.later(DEBOUNCE_S / 2)) == 1
    watch.write(session.data + b" \n")
    assert [*watch.follower.read(at_once=True)] == []


def test_follower_reads_a_file_that_is_written_all_the_time(
    watch: Watch, session: Transcript
) -> None:
    watch.write(session.data)
    changes: list[ImportedChange] = []
    for _ in range(40):
        watch.follower.note_changed([watch.path])
        changes += watch.later(DEBOUNCE_S / 2)
    assert len(changes) == 1


def test_follower_waits_for_an_unterminated_last_line(watch: Watch, session: Transcript) -> None:
    full_data = session.data
    session.user("Since when?")
    session.answer(text_block("Since eight."))
    watch.write(session.data[:-10])
    assert watch.later(10 * DEBOUNCE_S) == []
    watch.write(session.data)
    (news,) = watch.later()
    assert news.report.bad_lines == 0
    watch.write(full_data + b'{"torn')
    watch.later(UNANSWERED_S)
    entry = watch.catalogue.find_entries([str(watch.path)])[str(watch.path)]
    assert json.loads(entry.record)["bad_lines"] == 1


def test_follower_waits_for_the_answer_to_a_prompt(watch: Watch, session: Transcript) -> None:
    session.user("Since when?")
    watch.write(session.data)
    assert watch.later(10 * DEBOUNCE_S) == []
    session.answer(text_block("Since eight."))
    watch.write(session.data)
    (news,) = watch.later()
    assert [len(watch.read_texts(commit.id)) for commit in news.commits] == [2, 4]


def test_follower_labels_an_incomplete_turn_once_it_is_complete(
    watch: Watch, session: Transcript
) -> None:
    session.user("Since when?")
    watch.write(session.data)
    (news,) = watch.later(UNANSWERED_S)
    early = news.commits[-1]
    assert watch.read_texts(early.id)[-1] == "Since when?"
    session.answer(text_block("Since eight."))
    watch.write(session.data)
    (news,) = watch.later()
    assert len(news.commits) == 1
    assert watch.store.commits_by_label(SUPERSEDED_LABEL) == {SUPERSEDED_LABEL: [early.id]}


def test_follower_does_not_label_an_abandoned_branch_as_incomplete(watch: Watch) -> None:
    session = Transcript()
    session.user("Is the cafe open?")
    first = session.answer(text_block("It is."))
    session.user("Tea.")
    session.answer(text_block("Here."))
    watch.write(session.data)
    watch.later()
    session.user("Coffee.", parent=first)
    session.answer(text_block("Here, too."))
    watch.write(session.data)
    watch.later()
    assert watch.store.commits_by_label(SUPERSEDED_LABEL) == {}


def test_follower_retains_the_newest_raw_bytes(watch: Watch, session: Transcript) -> None:
    retained = []
    for word in ("one", "two", "three"):
        session.user(word)
        session.answer(text_block(word))
        watch.write(session.data)
        (news,) = watch.later()
        retained.append(news.report.raw)
    watch.store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert watch.store.raw(ArtifactRef(retained[-1] or "")) == session.data
    for raw in retained[:-1]:
        with pytest.raises(ObjectNotFound):
            watch.store.raw(ArtifactRef(raw or ""))


@pytest.mark.parametrize("is_another", [False, True])
def test_follower_keeps_commits_of_a_truncated_or_replaced_file(
    watch: Watch, session: Transcript, is_another: bool
) -> None:
    short = session.data
    session.user("Really?")
    session.answer(text_block("Yes."))
    long = session.data
    watch.write(long)
    (change,) = watch.later()
    other_session = Transcript(session="0e0e0e0e-0000-4000-8000-000000000000")
    other_session.user("Is there tea? " + "Please. " * 500)
    other_session.answer(text_block("There is."))
    watch.write(other_session.data if is_another else short)
    watch.later()
    watch.store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert watch.store.raw(ArtifactRef(change.report.raw or "")) == long
    commits = watch.store.chain(CommitId(change.report.tips[0].ctx), 10)
    assert not any(SUPERSEDED_LABEL in commit.notes.labels for commit in commits)


def test_follower_reads_slow_files_less_often(tmp_path: Path, session: Transcript) -> None:
    class Slow:
        def __init__(self) -> None:
            self.now = 0.0

        def __call__(self) -> float:
            self.now += 1.0  # Each scan takes a second, and so does each read.
            return self.now

    clock, catalogue = Slow(), Catalogue(None)
    follower = FileFollower(MemoryStore(), catalogue, clock=clock)
    path = tmp_path / "a.jsonl"
    reads = 0
    for minute in range(60):
        session.user(f"{minute}")
        session.answer(text_block(f"{minute}"))
        path.write_bytes(session.data)
        follower.note_changed([path])
        reads += len([*follower.read(at_once=True)])
    assert 2 <= reads <= 60 // 5
    catalogue.close()


def test_slow_first_import_does_not_delay_the_new_lines(
    tmp_path: Path, session: Transcript
) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0  # Each read takes a second.
        return now

    for number in range(4):
        session.user(f"{number}")
        session.answer(text_block(f"{number}"))
    path = tmp_path / "a.jsonl"
    with closing(Catalogue(None)) as catalogue:
        follower = FileFollower(MemoryStore(), catalogue, clock=clock)
        for text in ("And now?", "And then?", "Later?"):
            path.write_bytes(session.data)
            follower.note_changed([path])
            assert len([*follower.read(at_once=True)]) == (text != "Later?")
            session.user(text)
            session.answer(text_block("Yes."))


def test_follower_reports_nothing_for_unreadable_files_and_lone_calls(watch: Watch) -> None:
    watch.write(b"no transcript\n")
    assert watch.later(UNANSWERED_S) == []
    session = Transcript()
    session.user("List them.")
    session.answer(tool_use_block("t1"))
    watch.write(session.data)
    (news,) = watch.later()
    assert [commit.notes.summary for commit in news.commits] == ["called Bash"]


def test_follower_retries_after_a_store_refused_a_write(watch: Watch, session: Transcript) -> None:
    class Busy(MemoryStore):
        is_busy = True

        def write(self, batch: WriteBatch) -> None:
            if self.is_busy:
                raise StoreLocked("store.db")
            super().write(batch)

    store = Busy()
    follower = FileFollower(store, watch.catalogue)
    watch.path.write_bytes(session.data)
    follower.note_changed([watch.path])
    with pytest.raises(StoreLocked):
        [*follower.read(at_once=True)]
    store.is_busy = False
    assert len([*follower.read(at_once=True)]) == 1


@pytest.mark.req("S2-28")
def test_steps_of_a_running_session_are_turns_and_earlier_ones_are_imported(
    tmp_path: Path,
) -> None:
    session = Transcript()
    for text in ("One.", "Two.", "Three."):
        session.user("Next?")
        session.answer(text_block(text))
    path = tmp_path / "a.jsonl"
    path.write_bytes(session.data)
    imported = MemoryStore()
    with closing(Catalogue(None)) as catalogue:
        follower = FileFollower(imported, catalogue)
        follower.note_changed([path])
        [change] = follower.read(to_the_end=True)
        times = [stored.commit.created_at for stored in change.commits]
    live = MemoryStore()
    with closing(Catalogue(None)) as catalogue:
        follower = FileFollower(live, catalogue, live_since=times[1])
        follower.note_changed([path])
        [change] = follower.read(to_the_end=True)
    triggers = [stored.commit.checkpoint for stored in change.commits]
    assert triggers == ["import", "turn_boundary", "turn_boundary"]
