"""Power cuts while the calls of a proxy are recorded: each call is in one log afterwards.

The spool is the only copy of a call until the log is synced. The calls here are those that the disk
has; the spool itself is not synced, as its module says.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead
from harken.capture.proxy.spool import ProxySpool
from harken.capture.proxy.spool_recorder import SpoolRecorder
from harken.core.events import LlmResponse, TranscriptEntry
from harken.core.messages import text_of
from harken.recording.exchange import ClientHints
from harken.recording.rebuild import RequestRebuilder
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.log.reader import iter_events
from tests.crash.disk_model import cut, restored
from tests.recording_kit import request_body, response_body

CALLS = [("Hi", "Ho"), ("Hi", "Ho", "And you?", "Fine."), ("Another", "one")]
"""Contexts and the answers to them: the second continues the first."""


def spool_calls(folder: Path) -> None:
    """Write calls as the proxy does that ended before they were recorded."""
    spool = ProxySpool(folder, lambda _: None, lambda: None)
    spool.start()
    for number, (*context, answer) in enumerate(CALLS):
        time = f"2026-01-31T12:00:0{number}.000000Z"
        head = CallHead(
            id=f"call-{number}",
            protocol="anthropic-messages",
            path="/v1/messages",
            time=time,
            headers={},
        )
        writer = spool.begin(head)
        writer.body(json.dumps(request_body(*context)).encode())
        writer.end_request()
        writer.answer(AnswerHead(status=200, content_type="application/json"))
        writer.data(json.dumps(response_body(answer)).encode())
        writer.end(CallEnd(time=time, latency_s=1.0))
    spool.close()


def record_spools(folder: Path, notices: list[str] | None = None) -> None:
    """Record all spools of a folder, as a new process does."""
    tell = [] if notices is None else notices
    recorder = Recorder(folder / "sessions", options=RecorderOptions(durability="turn"))
    SpoolRecorder(recorder, lambda *_: ClientHints(), tell.append).catch_up(folder / "runs")
    recorder.close()


def recorded_answers(folder: Path) -> list[list[str]]:
    """Return the recorded contexts that have answers, with these."""
    contexts = []
    for path in sorted((folder / "sessions").glob("*.jsonl")):
        events = [*iter_events(path)] if path.stat().st_size else []
        rebuilder = RequestRebuilder(events)
        for event in events:
            if isinstance(event, LlmResponse) and event.entry is not None:
                body = rebuilder.body(event.request)
                texts = [str(message["content"]) for message in body["messages"]]
                [entry] = [e for e in events if e.message_id == event.entry]
                assert isinstance(entry, TranscriptEntry)
                contexts.append([*texts, text_of(entry.content)])
    return sorted(contexts)


@pytest.mark.req("D-01")
def test_cut_recording_of_a_spool_records_each_call_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    spool_calls(work / "runs" / "1")
    (work / "sessions").mkdir()
    before, after = cut(work, lambda: record_spools(work))
    expected = sorted([*context] for context in CALLS)
    assert recorded_answers(work) == expected
    assert len(before) > 10
    for folder in restored([*before, *after], tmp_path):
        (folder / "sessions").mkdir(exist_ok=True)
        record_spools(folder)
        assert recorded_answers(folder) == expected


@pytest.mark.req("D-01")
@pytest.mark.parametrize("is_zero", [False, True], ids=["missing", "zero"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.99])
def test_spool_that_lost_its_end_gives_the_calls_before_it(
    tmp_path: Path, share: float, *, is_zero: bool
) -> None:
    """After a cut a file may lack its last bytes, or have zeros in their place."""
    spool_calls(tmp_path / "runs" / "1")
    (tmp_path / "sessions").mkdir()
    [file] = (tmp_path / "runs" / "1").glob("*.spool")
    data = file.read_bytes()
    safe = data[: int(len(data) * share)]
    file.write_bytes(safe.ljust(len(data), b"\0") if is_zero else safe)
    notices: list[str] = []
    record_spools(tmp_path, notices)
    answers = recorded_answers(tmp_path)
    count = sum(json.dumps(answer).encode() in safe for *_, answer in CALLS)
    complete = [[*context] for context in CALLS[:count]]
    assert all(context in answers for context in complete)
    assert len(answers) <= count + 1
    assert not is_zero or any(file.name in notice for notice in notices), notices
