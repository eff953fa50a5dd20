"""Session files of a run, and their commits while the client runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harken.capture.files.change_scanner import ChangeScanner, WatchedPath
from harken.capture.files.follower import SUPERSEDED_LABEL, FileFollower
from harken.capture.live.claude_code import parse_claude_line
from harken.capture.live.recorder import POLL_INTERVAL_S, CommitSources, LiveRecorder
from harken.capture.live.session_files import RunFiles, build_mentions
from harken.capture.live.stream_commits import StreamCommits
from harken.context.history import commit_history
from harken.context.materialize import materialize
from harken.core.clock import system_clock
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.errors import StoreWriteError
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.unit.capture.live.client_lines import SESSION, Stream, use, words
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_result_block

CAFE = Path("/home/jill/cafe")


class Run:
    """A folder of transcripts and the recording of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.catalogue = folder, MemoryStore(), Catalogue(None)
        self.sight = ChangeScanner([WatchedPath(folder, "*.jsonl")])
        self.sight.scan_all()
        self.settled: list[CommitId] = []
        self.recording = LiveRecorder(
            opens=self.opens,
            listen=parse_claude_line,
            publish_commit=self.settled.append,
            prompt="Hello",
        )

    def trail(self, *mentions: bytes) -> RunFiles:
        return RunFiles(FileFollower(self.store, self.catalogue), self.sight, mentions)

    @contextmanager
    def opens(self) -> Iterator[CommitSources]:
        """Open the files as `harken run` does: in the thread of the recording."""
        self.catalogue = Catalogue(None)
        yield CommitSources(
            self.store, self.trail(b"cafe"), StreamCommits(self.store, "claude", system_clock)
        )
        self.catalogue.close()

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def hear(self, stream: Stream) -> None:
        for line in stream.data.splitlines():
            self.recording.add_line(line)
        stream.lines.clear()

    def wait(self, commits: int) -> None:
        """Wait until this number of commits has been reported."""
        until = time.monotonic() + 60
        while len(self.settled) < commits:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def transcript(session: str = SESSION) -> Transcript:
    new_transcript = Transcript(session=session)
    new_transcript.user("Hello")
    new_transcript.answer(text_block("Bye."))
    return new_transcript


def test_session_files_of_a_run_are_new_and_name_its_session(run: Run) -> None:
    old = run.write("old.jsonl", transcript().data)
    run.sight.scan_all()
    trail = run.trail(b"/home/jill/cafe")
    assert trail.import_new(at_once=True) == []
    run.write(f"{SESSION}.jsonl", transcript().data)
    run.write("other.jsonl", transcript("5e551011-0000-4000-8000-00000000000b").data)
    trail.set_session(SESSION)
    (news,) = trail.import_new(to_the_end=True)
    assert news.report.session == SESSION
    assert trail.is_found
    assert old.exists()


def test_files_without_session_id_match_by_folder(run: Run) -> None:
    trail = run.trail(*build_mentions("claude", CAFE))
    run.write("a.jsonl", transcript().data)
    run.write("b.jsonl", transcript().data.replace(b"jill/cafe", b"jill/other"))
    (news,) = trail.import_new(to_the_end=True)
    assert news.report.folder == str(CAFE)


def test_folders_are_encoded_as_the_runtimes_do(tmp_path: Path) -> None:
    assert build_mentions("codex", CAFE) == [b'"/home/jill/cafe"'] * 2
    assert len(build_mentions("gemini", CAFE)[0]) == 64
    assert build_mentions("opencode", CAFE) == [b""]
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mentions = build_mentions("pi", tmp_path / "link")
    assert any(mention.endswith(b'real"') for mention in mentions)
    unusual_path = os.fsdecode(b"/caf\xe9")
    assert build_mentions("pi", Path(unusual_path))


def test_session_file_is_committed_while_the_client_runs(run: Run) -> None:
    session = Transcript(session=SESSION)
    session.user("List the files.")
    session.answer({"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}, id="msg_1")
    stream = Stream()
    stream.init()
    stream.answer("msg_1", use("t1"))
    run.recording.begin()
    run.hear(stream)
    run.write(f"{SESSION}.jsonl", session.data)
    run.wait(1)
    session.user([tool_result_block("t1", "a")])
    session.answer(text_block("One."), id="msg_2")
    stream.result("t1", "a")
    stream.answer("msg_2", words("One."))
    stream.end()
    run.write(f"{SESSION}.jsonl", session.data)
    run.hear(stream)
    run.recording.end()
    assert run.recording.failure == ""
    first, last, end = (run.store.commits([ctx])[ctx].commit for ctx in run.settled)
    assert (end.checkpoint, end.parent, end.message_count) == ("session_end", run.settled[1], 0)
    assert (first.checkpoint, last.parent) == ("import", run.settled[0])


def test_lines_before_a_silence_are_recorded_once(run: Run) -> None:
    run.recording.has_file = False
    stream = Stream()
    run.recording.begin()
    stream.init()
    run.hear(stream)
    for number in (1, 2, 3):
        stream.answer(f"msg_{number}", words(f"{number}"))
        run.hear(stream)
        time.sleep(2 * POLL_INTERVAL_S)
    stream.end()
    run.hear(stream)
    run.recording.end()
    assert run.recording.failure == ""
    history = commit_history(run.store, run.settled[-1])
    assert sum(stored.commit.message_count for stored in history) == 4, "the prompt and 3 answers"
    messages = materialize(run.store, run.settled[-1]).messages
    assert [text_of(message.content) for message in messages] == ["Hello", "1", "2", "3"]


def test_late_session_file_supersedes_the_stream(run: Run) -> None:
    run.recording.has_file = False
    stream = Stream()
    stream.init()
    stream.answer("msg_1", words("Bye."))
    stream.end()
    run.recording.begin()
    run.hear(stream)
    run.wait(1)
    run.write(f"{SESSION}.jsonl", transcript().data)
    run.recording.end()
    assert run.store.commits([run.settled[-1]])[run.settled[-1]].commit.checkpoint == "import"
    assert len(run.store.commits_by_label(SUPERSEDED_LABEL)[SUPERSEDED_LABEL]) == 1


def test_query_is_answered_from_the_current_state(run: Run) -> None:
    released: list[bool] = []
    run.recording.release = lambda: released.append(True)
    run.recording.begin()
    assert run.recording.request_commit()
    until = time.monotonic() + 60
    while not released:
        assert time.monotonic() < until
        time.sleep(0.01)
    run.recording.end()
    assert not run.recording.request_commit()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreWriteError("store.db", reason="the disk is full"), "the disk is full"),
        (KeyError("oh"), "a bug in Harken (KeyError: 'oh')"),
    ],
)
def test_failure_stops_the_recording_and_is_reported(
    error: Exception, reason: str, run: Run
) -> None:
    @contextmanager
    def refused() -> Iterator[CommitSources]:
        if error:
            raise error
        yield CommitSources(
            run.store, run.trail(), StreamCommits(run.store, "claude", system_clock)
        )

    recording = LiveRecorder(
        opens=refused, listen=parse_claude_line, publish_commit=run.settled.append
    )
    recording.begin()
    recording.end()
    recording.add_line(b"more")
    assert reason in recording.failure
