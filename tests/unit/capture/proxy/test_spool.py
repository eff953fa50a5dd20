"""The spool: written calls are read again, complete or truncated, and never twice."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.capture.proxy.frames import (
    AnswerHead,
    CallEnd,
    CallHead,
    FrameKind,
    FrameReader,
    encode_frame,
)
from harken.capture.proxy.spool import CallWriter, ProxySpool, SpoolLimits, create_spool_file
from harken.capture.proxy.spool_reader import SpoolReader, SpoolStep, UnrecordableCall
from harken.capture.proxy.spool_recorder import SpoolRecorder
from harken.errors import LogWriteError
from harken.recording.exchange import PROXY_STOPPED, CapturedRequest, CapturedResponse, ClientHints
from tests.proxy_kit import CollectingRecorder, wait_for

TIME = "2026-01-31T12:00:00.000000Z"


@pytest.fixture
def warnings() -> list[str]:
    return []


Make = Callable[..., ProxySpool]


@pytest.fixture
def make(tmp_path: Path, warnings: list[str]) -> Iterator[Make]:
    """Return a function that creates spools."""
    spools: list[ProxySpool] = []

    def make(**options: Any) -> ProxySpool:
        folder = tmp_path / "runs" / f"{len(spools)}"
        spools.append(ProxySpool(folder, warnings.append, lambda: None, **options))
        spools[-1].start()
        return spools[-1]

    yield make
    for spool in spools:
        spool.close()


def head(name: str, **headers: str) -> CallHead:
    return CallHead(id=name, protocol="p", path="/v1/messages", time=TIME, headers=headers)


def ask(spool: ProxySpool, name: str = "c1", body: bytes = b"{}") -> CallWriter:
    track = spool.begin(head(name))
    track.body(body)
    track.end_request()
    return track


def answer(track: CallWriter, *pieces: bytes, broken: str = "") -> None:
    track.answer(AnswerHead(status=200, content_type="text/event-stream"))
    for piece in pieces:
        track.data(piece)
    track.end(CallEnd(time=TIME, latency_s=1.5, first_byte_s=0.5, broken=broken))


def recording(into: Any, warnings: list[str] | None = None) -> SpoolRecorder:
    tell = [] if warnings is None else warnings
    return SpoolRecorder(into, lambda *_: ClientHints(), tell.append, pause=lambda _: None)


def recorded(spool: ProxySpool) -> CollectingRecorder:
    spool.close()
    into = CollectingRecorder()
    recording(into).catch_up(spool.folder.parent)
    return into


def test_spooled_calls_are_recorded_and_removed(make: Make) -> None:
    spool = make()
    first, second = ask(spool, "c1", b"one"), ask(spool, "c2", b"two")
    answer(second, b"B")
    answer(first, b"a", b"A")
    into = recorded(spool)
    assert [(call.id, call.body, call.path) for call in into.calls] == [
        ("c1", b"one", "/v1/messages"), ("c2", b"two", "/v1/messages")]  # fmt: skip
    assert [(reply.id, reply.body, reply.broken) for reply in into.replies] == [
        ("c2", b"B", ""), ("c1", b"aA", "")]  # fmt: skip
    assert into.replies[0].latency_s == 1.5
    assert list(spool.folder.parent.iterdir()) == []


def test_call_without_end_was_interrupted_by_the_end_of_the_proxy(make: Make) -> None:
    spool = make()
    track = ask(spool)
    track.answer(AnswerHead(status=200))
    track.data(b"Hal")
    (reply,) = recorded(spool).replies
    assert (reply.status, reply.body, reply.broken) == (200, b"Hal", PROXY_STOPPED)


def test_incomplete_request_is_counted_and_not_recorded(make: Make) -> None:
    spool = make()
    track = spool.begin(head("c1"))
    track.body(b"{")
    track.end(CallEnd(time=TIME, latency_s=1, broken="the client hung up"))
    spool.begin(head("c2"))
    spool.close()
    into = CollectingRecorder()
    counting = recording(into)
    counting.catch_up(spool.folder.parent)
    assert into.calls == []
    assert counting.unrecorded == {"the client hung up": 1, PROXY_STOPPED: 1}


@pytest.mark.parametrize("cut_at", [1, 7, 40, 100])
def test_torn_end_loses_only_itself(make: Make, cut_at: int) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"whole")
    answer(ask(spool, "c2"), b"torn")
    spool.close()
    (file,) = spool.folder.glob("*.spool")
    os.truncate(file, file.stat().st_size - cut_at)
    into = recorded(spool)
    assert (into.replies[0].body, into.replies[0].broken) == (b"whole", "")
    assert (into.replies[1].id, into.replies[1].broken) == ("c2", PROXY_STOPPED)


def test_damaged_file_is_reported_and_earlier_calls_are_recorded(
    make: Make, warnings: list[str]
) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"whole")
    answer(ask(spool, "c2"), b"harmed")
    spool.close()
    (file,) = spool.folder.glob("*.spool")
    data = bytearray(file.read_bytes())
    data[data.index(b"harmed")] ^= 1
    file.write_bytes(data)
    into = CollectingRecorder()
    recording(into, warnings).catch_up(spool.folder.parent)
    assert [reply.broken for reply in into.replies] == ["", PROXY_STOPPED]
    assert warnings == [f"{file}: is damaged, and is not read to its end"]


def test_random_bytes_give_no_endless_frames() -> None:
    for size in (0, 5, 17, 100, 10_000):
        reader = FrameReader()
        assert reader.feed(secrets.token_bytes(size)) == []


def test_frames_are_decoded_from_chunks_of_any_size() -> None:
    data = encode_frame(1, FrameKind.CALL, head("c1")) + encode_frame(
        2**40, FrameKind.DATA, b"x" * 1000
    )
    for step in (1, 3, 16, 17, 18, 1000):
        reader = FrameReader()
        frames = [
            f
            for index in range(0, len(data), step)
            for f in reader.feed(data[index : index + step])
        ]
        assert [(frame.call, frame.kind) for frame in frames] == [
            (1, FrameKind.CALL),
            (2**40, FrameKind.DATA),
        ]
        assert frames[1].content == b"x" * 1000


def test_spool_files_are_small_and_removed_when_recorded(make: Make) -> None:
    spool = make(limits=SpoolLimits(file_bytes=1000))
    long = ask(spool, "long")
    for number in range(20):
        answer(ask(spool, f"c{number}", b"b" * 600), b"a")
        time.sleep(0.015)  # so that the write is buffered
    spool.close()
    assert len(list(spool.folder.glob("*.spool"))) > 5
    reader = SpoolReader(spool.folder, lambda *_: ClientHints())
    into: list[SpoolStep] = []
    for step in reader.read():
        into.append(step)
        if step.is_last:
            reader.mark_recorded(step)
    assert len(list(spool.folder.glob("*.spool"))) > 5  # the long call began in the first file
    for step in reader.finish(PROXY_STOPPED):
        reader.mark_recorded(step)
    assert [path.name for path in spool.folder.glob("*.spool")] == [
        f"{reader._file:08d}.spool"]  # fmt: skip
    del long


def test_killed_recorder_receives_only_pending_calls_again(make: Make) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"1")
    open_ = ask(spool, "c2")
    answer(ask(spool, "c3"), b"3")
    spool._queue.put((0, FrameKind.DATA, b""))
    wait_for(lambda: any(f.stat().st_size for f in spool.folder.glob("*.spool")))
    first = SpoolReader(spool.folder, lambda *_: ClientHints())
    for step in first.read():
        if step.is_last:
            first.mark_recorded(step)
    answer(open_, b"2")
    into = recorded(spool)
    assert [call.id for call in into.calls] == ["c2"]
    assert [(reply.id, reply.body) for reply in into.replies] == [("c2", b"2")]


def test_call_that_repeatedly_kills_the_recorder_is_skipped(make: Make) -> None:
    class KillingRecorder(CollectingRecorder):
        def begin(self, call: CapturedRequest) -> None:
            if call.id == "deadly":
                raise KeyboardInterrupt  # No code catches this, as after a kill.
            super().begin(call)

    spool = make()
    answer(ask(spool, "deadly"), b"!")
    answer(ask(spool, "c2"), b"2")
    spool.close()
    into = KillingRecorder()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            recording(into).catch_up(spool.folder.parent)
    counting = recording(into)
    counting.catch_up(spool.folder.parent)
    assert [reply.id for reply in into.replies] == ["c2"]
    assert counting.unrecorded == {"it has ended the recorder again and again": 1}


def test_recorder_bug_costs_one_call_and_is_counted(make: Make) -> None:
    class RefusingRecorder(CollectingRecorder):
        def refusal(self, call: CapturedRequest) -> Exception | None:
            return ZeroDivisionError("oh") if call.id == "c1" else None

    spool = make()
    answer(ask(spool, "c1"), b"1")
    answer(ask(spool, "c2"), b"2")
    spool.close()
    into = RefusingRecorder()
    counting = recording(into)
    counting.catch_up(spool.folder.parent)
    assert [reply.id for reply in into.replies] == ["c2"]
    assert counting.unrecorded == {"oh": 1}
    assert counting.recorded == 1


def test_full_log_disk_blocks_no_client_and_pending_calls_are_recorded_later(
    make: Make,
) -> None:
    class Full(CollectingRecorder):
        refusals = 3

        def refusal(self, call: CapturedRequest) -> Exception | None:
            self.refusals -= 1
            return LogWriteError(Path("s.jsonl"), reason="no space") if self.refusals > 0 else None

    spool = make()
    answer(ask(spool, "c1"), b"1")
    wait_for(lambda: any(f.stat().st_size for f in spool.folder.glob("*.spool")))
    into = Full()
    recording(into).follow(spool.folder, news(spool))
    assert [call.id for call in into.calls] == ["c1"]


def news(spool: ProxySpool) -> Iterator[bool]:
    yield True
    spool.close()


def test_calls_refused_by_a_full_disk_at_exit_wait_for_the_next_start(
    make: Make,
) -> None:
    class Full(CollectingRecorder):
        def refusal(self, call: CapturedRequest) -> Exception | None:
            return LogWriteError(Path("s.jsonl"), reason="no space")

    spool = make()
    answer(ask(spool, "c1"), b"1")
    spool.close()
    for _ in range(5):
        recording(Full()).catch_up(spool.folder.parent)
    assert [reply.id for reply in recorded(spool).replies] == ["c1"]


class Disk:
    """A disk whose writes fail while it is full."""

    def __init__(self) -> None:
        self.is_full = False

    def __call__(self, path: Path) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return create_spool_file(path)


def test_full_disk_pauses_recording_until_there_is_room(make: Make, warnings: list[str]) -> None:
    disk = Disk()
    spool = make(opens=disk, limits=SpoolLimits(file_bytes=0))
    answer(ask(spool, "c1"), b"1")
    wait_for(lambda: list(spool.folder.glob("*.spool")))
    open_call = ask(spool, "begun")
    wait_for(spool._queue.empty)
    time.sleep(0.05)
    disk.is_full = True
    open_call.answer(AnswerHead(status=200))
    open_call.data(b"lost")
    wait_for(lambda: spool.problem)
    open_call.data(b"lost")
    open_call.end(CallEnd(time=TIME, latency_s=1))
    answer(ask(spool, "never"), b"2")
    disk.is_full = False
    wait_for(lambda: not spool.problem, 5)
    answer(ask(spool, "c3"), b"3")
    into = recorded(spool)
    assert [reply.id for reply in into.replies] == ["c1", "begun", "c3"]
    assert into.replies[1].broken == "it could not be recorded completely"
    assert warnings[0].endswith("No space left on device")
    assert warnings[1:] == ["recording continues"]
    assert sum(spool.unrecorded.values()) == 1


def test_spool_without_a_reader_reaches_its_limit(make: Make, warnings: list[str]) -> None:
    spool = make(limits=SpoolLimits(spool_bytes=1000, file_bytes=0))
    answer(ask(spool, "c1", b"x" * 2000), b"1")
    wait_for(lambda: list(spool.folder.glob("*.spool")))
    answer(ask(spool, "c2"), b"2")
    wait_for(lambda: spool.problem)
    (text,) = warnings
    assert text.startswith("recording stopped, traffic continues: ")
    assert text.endswith(": the spool is full, because its calls could not be recorded")


def test_calls_beyond_the_memory_limit_are_not_recorded(make: Make) -> None:
    spool = make(limits=SpoolLimits(queue_bytes=3000))
    track = ask(spool, "c1", b"x" * 900)
    track.answer(AnswerHead(status=200))
    for _ in range(10):
        track.data(b"y" * 900)
    track.end(CallEnd(time=TIME, latency_s=1))
    (reply,) = recorded(spool).replies
    assert reply.broken == "it could not be recorded completely"


def test_calls_held_in_memory_are_replayed_after_a_kill(make: Make) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"1")
    answer(ask(spool, "c2"), b"2")
    wait_for(lambda: any(f.stat().st_size for f in spool.folder.glob("*.spool")))
    into = CollectingRecorder(held_ids={"c1"})
    with pytest.raises(KeyboardInterrupt):
        recording(into).follow(spool.folder, killed())
    assert [reply.id for reply in into.replies] == ["c1", "c2"]
    assert [reply.id for reply in recorded(spool).replies] == ["c1"]


def killed() -> Iterator[bool]:
    yield True
    raise KeyboardInterrupt


def test_two_spools_have_one_recorder_each(make: Make) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"1")
    into = CollectingRecorder()
    # The proxy of this file is alive and records it itself.
    recording(into).catch_up(spool.folder.parent)
    assert into.calls == []
    assert [reply.id for reply in recorded(spool).replies] == ["c1"]


def test_step_tells_whether_it_is_the_last() -> None:
    call = CapturedRequest(id="c", protocol="p", path="/", body=b"", time=TIME)
    assert not SpoolStep(1, call).is_last
    assert SpoolStep(1, CapturedResponse(id="c", status=0, time=TIME)).is_last
    assert SpoolStep(1, UnrecordableCall("why")).is_last
