"""The spool: what is written is read again, whole or as far as it came, and never twice."""

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
def told() -> list[str]:
    return []


Make = Callable[..., ProxySpool]


@pytest.fixture
def make(tmp_path: Path, told: list[str]) -> Iterator[Make]:
    """Return what makes spools."""
    made: list[ProxySpool] = []

    def make(**options: Any) -> ProxySpool:
        folder = tmp_path / "runs" / f"{len(made)}"
        made.append(ProxySpool(folder, told.append, lambda: None, **options))
        made[-1].start()
        return made[-1]

    yield make
    for spool in made:
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


def recording(into: Any, told: list[str] | None = None) -> SpoolRecorder:
    tell = [] if told is None else told
    return SpoolRecorder(into, lambda *_: ClientHints(), tell.append, pause=lambda _: None)


def recorded(spool: ProxySpool) -> CollectingRecorder:
    spool.close()
    into = CollectingRecorder()
    recording(into).catch_up(spool.folder.parent)
    return into


def test_what_is_written_is_recorded_and_nothing_is_left(make: Make) -> None:
    spool = make()
    first, second = ask(spool, "c1", b"one"), ask(spool, "c2", b"two")
    answer(second, b"B")
    answer(first, b"a", b"A")
    into = recorded(spool)
    assert [(call.id, call.body, call.path) for call in into.calls] == [
        ("c1", b"one", "/v1/messages"), ("c2", b"two", "/v1/messages")]  # fmt: skip
    assert [(one.id, one.body, one.broken) for one in into.replies] == [
        ("c2", b"B", ""), ("c1", b"aA", "")]  # fmt: skip
    assert into.replies[0].latency_s == 1.5
    assert list(spool.folder.parent.iterdir()) == []


def test_a_call_without_an_end_says_that_the_proxy_was_ended(make: Make) -> None:
    spool = make()
    track = ask(spool)
    track.answer(AnswerHead(status=200))
    track.data(b"Hal")
    (reply,) = recorded(spool).replies
    assert (reply.status, reply.body, reply.broken) == (200, b"Hal", PROXY_STOPPED)


def test_a_request_that_did_not_come_whole_is_counted_and_not_recorded(make: Make) -> None:
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


@pytest.mark.parametrize("cut", [1, 7, 40, 100])
def test_a_torn_end_loses_no_more_than_itself(make: Make, cut: int) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"whole")
    answer(ask(spool, "c2"), b"torn")
    spool.close()
    (file,) = spool.folder.glob("*.spool")
    os.truncate(file, file.stat().st_size - cut)
    into = recorded(spool)
    assert (into.replies[0].body, into.replies[0].broken) == (b"whole", "")
    assert (into.replies[1].id, into.replies[1].broken) == ("c2", PROXY_STOPPED)


def test_a_damaged_file_is_told_and_what_stands_before_is_recorded(
    make: Make, told: list[str]
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
    recording(into, told).catch_up(spool.folder.parent)
    assert [one.broken for one in into.replies] == ["", PROXY_STOPPED]
    assert told == [f"{file}: is damaged, and is not read to its end"]


def test_any_bytes_are_read_as_no_frames_without_end() -> None:
    for size in (0, 5, 17, 100, 10_000):
        reader = FrameReader()
        assert reader.feed(secrets.token_bytes(size)) == []


def test_frames_come_out_of_bytes_in_any_pieces() -> None:
    data = encode_frame(1, FrameKind.CALL, head("c1")) + encode_frame(
        2**40, FrameKind.DATA, b"x" * 1000
    )
    for step in (1, 3, 16, 17, 18, 1000):
        reader = FrameReader()
        found = [f for at in range(0, len(data), step) for f in reader.feed(data[at : at + step])]
        assert [(one.call, one.kind) for one in found] == [
            (1, FrameKind.CALL),
            (2**40, FrameKind.DATA),
        ]
        assert found[1].content == b"x" * 1000
        assert not reader.is_torn


def test_files_are_small_and_removed_when_all_of_them_is_recorded(make: Make) -> None:
    spool = make(limits=SpoolLimits(file_bytes=1000))
    long = ask(spool, "long")
    for number in range(20):
        answer(ask(spool, f"c{number}", b"b" * 600), b"a")
        time.sleep(0.015)  # so that it is not written at once
    spool.close()
    assert len(list(spool.folder.glob("*.spool"))) > 5
    reader = SpoolReader(spool.folder, lambda *_: ClientHints())
    into: list[SpoolStep] = []
    for step in reader.read():
        into.append(step)
        if step.is_last:
            reader.mark_recorded(step)
    assert len(list(spool.folder.glob("*.spool"))) > 5  # the long one has begun in the first
    for step in reader.finish(PROXY_STOPPED):
        reader.mark_recorded(step)
    assert [path.name for path in spool.folder.glob("*.spool")] == [
        f"{reader._file:08d}.spool"]  # fmt: skip
    del long


def test_a_recorder_that_was_killed_is_given_again_only_what_was_under_way(make: Make) -> None:
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
    assert [(one.id, one.body) for one in into.replies] == [("c2", b"2")]


def test_a_call_that_ends_the_recorder_again_and_again_is_passed_over(make: Make) -> None:
    class Deadly(CollectingRecorder):
        def begin(self, call: CapturedRequest) -> None:
            if call.id == "deadly":
                raise KeyboardInterrupt  # nothing catches it: as if it were killed
            super().begin(call)

    spool = make()
    answer(ask(spool, "deadly"), b"!")
    answer(ask(spool, "c2"), b"2")
    spool.close()
    into = Deadly()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            recording(into).catch_up(spool.folder.parent)
    counting = recording(into)
    counting.catch_up(spool.folder.parent)
    assert [one.id for one in into.replies] == ["c2"]
    assert counting.unrecorded == {"it has ended the recorder again and again": 1}


def test_a_bug_in_the_recorder_costs_one_call_and_is_counted(make: Make) -> None:
    class Odd(CollectingRecorder):
        def refusal(self, call: CapturedRequest) -> Exception | None:
            return ZeroDivisionError("oh") if call.id == "c1" else None

    spool = make()
    answer(ask(spool, "c1"), b"1")
    answer(ask(spool, "c2"), b"2")
    spool.close()
    into = Odd()
    counting = recording(into)
    counting.catch_up(spool.folder.parent)
    assert [one.id for one in into.replies] == ["c2"]
    assert counting.unrecorded == {"oh": 1}
    assert counting.recorded == 1


def test_a_log_that_is_full_holds_up_nobody_and_what_waited_is_recorded_when_it_is_not(
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


def test_what_a_full_disk_refuses_when_the_proxy_is_gone_waits_for_the_next_start(
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
    assert [one.id for one in recorded(spool).replies] == ["c1"]


class Disk:
    """Files that cannot be written as long as it is full."""

    def __init__(self) -> None:
        self.is_full = False

    def __call__(self, path: Path) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return create_spool_file(path)


def test_a_disk_that_is_full_stops_the_recording_and_it_goes_on_by_itself(
    make: Make, told: list[str]
) -> None:
    disk = Disk()
    spool = make(opens=disk, limits=SpoolLimits(file_bytes=0))
    answer(ask(spool, "c1"), b"1")
    wait_for(lambda: list(spool.folder.glob("*.spool")))
    begun = ask(spool, "begun")
    wait_for(spool._queue.empty)
    time.sleep(0.05)
    disk.is_full = True
    begun.answer(AnswerHead(status=200))
    begun.data(b"lost")
    wait_for(lambda: spool.problem)
    begun.data(b"lost")
    begun.end(CallEnd(time=TIME, latency_s=1))
    answer(ask(spool, "never"), b"2")
    disk.is_full = False
    wait_for(lambda: not spool.problem, 5)
    answer(ask(spool, "c3"), b"3")
    into = recorded(spool)
    assert [one.id for one in into.replies] == ["c1", "begun", "c3"]
    assert into.replies[1].broken == "not all of it could be kept for the record"
    assert told[0].endswith("No space left on device")
    assert told[1:] == ["recording goes on"]
    assert sum(spool.unrecorded.values()) == 1


def test_a_spool_that_nobody_empties_is_full_at_some_time(make: Make, told: list[str]) -> None:
    spool = make(limits=SpoolLimits(spool_bytes=1000, file_bytes=0))
    answer(ask(spool, "c1", b"x" * 2000), b"1")
    wait_for(lambda: list(spool.folder.glob("*.spool")))
    answer(ask(spool, "c2"), b"2")
    wait_for(lambda: spool.problem)
    (text,) = told
    assert text.startswith("recording stops, the traffic goes on: ")
    assert text.endswith(": is full, because what is in it could not be recorded")


def test_what_is_too_much_for_the_memory_is_not_recorded(make: Make) -> None:
    spool = make(limits=SpoolLimits(queue_bytes=3000))
    track = ask(spool, "c1", b"x" * 900)
    track.answer(AnswerHead(status=200))
    for _ in range(10):
        track.data(b"y" * 900)
    track.end(CallEnd(time=TIME, latency_s=1))
    (reply,) = recorded(spool).replies
    assert reply.broken == "not all of it could be kept for the record"


def test_what_the_recorder_holds_in_memory_is_given_again_when_it_is_killed(make: Make) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"1")
    answer(ask(spool, "c2"), b"2")
    wait_for(lambda: any(f.stat().st_size for f in spool.folder.glob("*.spool")))
    into = CollectingRecorder(held_ids={"c1"})
    with pytest.raises(KeyboardInterrupt):
        recording(into).follow(spool.folder, killed())
    assert [one.id for one in into.replies] == ["c1", "c2"]
    assert [one.id for one in recorded(spool).replies] == ["c1"]


def killed() -> Iterator[bool]:
    yield True
    raise KeyboardInterrupt


def test_two_spools_are_read_by_one_recorder_each(make: Make) -> None:
    spool = make()
    answer(ask(spool, "c1"), b"1")
    into = CollectingRecorder()
    recording(into).catch_up(spool.folder.parent)  # its proxy is there: it has its own
    assert into.calls == []
    assert [one.id for one in recorded(spool).replies] == ["c1"]


def test_a_step_says_whether_it_is_the_last() -> None:
    call = CapturedRequest(id="c", protocol="p", path="/", body=b"", time=TIME)
    assert not SpoolStep(1, call).is_last
    assert SpoolStep(1, CapturedResponse(id="c", status=0, time=TIME)).is_last
    assert SpoolStep(1, UnrecordableCall("why")).is_last
