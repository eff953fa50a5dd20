"""`SpoolReader`: read calls and responses from a spool, and remove finished files.

A spool file is removed when all calls with frames in it are recorded. A file next to it lists the
recorded calls that end in it. So after an interruption, a new reader returns only the unfinished
calls again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead, Frame, FrameKind, FrameReader
from harken.capture.proxy.spool import SPOOL_SUFFIX
from harken.recording.body import decode_body
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

_CHUNK_BYTES = 1 << 20
_MAX_BODY_BYTES = 1 << 28
"""The maximum size of a decompressed body."""
DONE_SUFFIX = ".done"
HintsOf = Callable[[dict[str, str], str, bytes], ClientHints]


class UnrecordableCall(msgspec.Struct, frozen=True):
    """A call that cannot be recorded."""

    reason: str


class SpoolStep(msgspec.Struct, frozen=True):
    """The next event to record."""

    call: int
    event: CapturedRequest | CapturedResponse | UnrecordableCall
    file: int = 0
    """The number of the spool file with the event."""

    @property
    def is_last(self) -> bool:
        """Whether this is the last event of the call."""
        return not isinstance(self.event, CapturedRequest)


class _OpenCall(msgspec.Struct):
    """A call without an end frame."""

    file: int
    """The file with its first frame."""
    head: CallHead | None = None
    body: bytearray = msgspec.field(default_factory=bytearray)
    is_asked: bool = False
    problem: str = ""
    """Why it cannot be recorded."""
    answer: AnswerHead | None = None
    data: bytearray = msgspec.field(default_factory=bytearray)


class SpoolReader(msgspec.Struct):
    """Read the files of a folder while they grow."""

    folder: Path
    hints_of: HintsOf
    damage: list[str] = msgspec.field(default_factory=list)
    """Error messages of files that are damaged. The caller reports and clears them."""
    _file: int = 0
    """The number of the current file. 0 if there is none yet."""
    _offset: int = 0
    _frames: FrameReader = msgspec.field(default_factory=FrameReader)
    _open_calls: dict[int, _OpenCall] = msgspec.field(default_factory=dict)
    _unmarked: dict[int, int] = msgspec.field(default_factory=dict)
    """Calls that ended and are not recorded yet -> the file with their first frame."""
    _finished_calls: dict[int, set[int]] = msgspec.field(default_factory=dict)
    """For each file: the recorded calls that end in it."""

    def __post_init__(self) -> None:
        """Load the calls that were recorded before."""
        self._finished_calls = {number: self._load_marks(number) for number in self._files()}

    def read(self) -> Iterator[SpoolStep]:
        """Yield the events that are in the files now."""
        while True:
            yield from self._read_file()
            following = [number for number in self._files() if number > self._file]
            if not following:
                return
            yield from self._read_file()  # Read what was appended before the next file was created.
            self._check_damage()
            self._file, self._offset, self._frames = following[0], 0, FrameReader()

    def finish(self, reason: str) -> Iterator[SpoolStep]:
        """Yield the ends of all open calls, after the writer has ended."""
        self._check_damage()
        for number in list(self._open_calls):
            end = CallEnd(time="", latency_s=0, broken=reason)
            yield from self._end(number, end)

    def mark_recorded(self, step: SpoolStep) -> None:
        """Mark a call as recorded after its last step. Remove files that are no longer needed."""
        with suppress(OSError), self._path(step.file, DONE_SUFFIX).open("a") as file:
            file.write(f"{step.call}\n")
        self._finished_calls.setdefault(step.file, set()).add(step.call)
        self._unmarked.pop(step.call, None)
        start_files = (open_call.file for open_call in self._open_calls.values())
        first_needed = min([self._file, *start_files, *self._unmarked.values()])
        for number in [number for number in self._finished_calls if number < first_needed]:
            del self._finished_calls[number]
            for suffix in (
                SPOOL_SUFFIX,
                DONE_SUFFIX,
            ):  # In this order, because a mark without its file is harmless.
                self._path(number, suffix).unlink(missing_ok=True)

    def _read_file(self) -> Iterator[SpoolStep]:
        """Yield the new records of the current file."""
        try:
            file = self._path(self._file, SPOOL_SUFFIX).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while data := file.read(_CHUNK_BYTES):
                self._offset += len(data)
                for frame in self._frames.feed(data):
                    yield from self._process_frame(frame)

    def _check_damage(self) -> None:
        if self._frames.damaged:
            path = self._path(self._file, SPOOL_SUFFIX)
            self.damage.append(f"{path}: is damaged, and is not read to its end")

    def _process_frame(self, frame: Frame) -> Iterator[SpoolStep]:
        number, content = frame.call, frame.content
        if any(number in call_ids for call_ids in self._finished_calls.values()):
            return
        open_call = self._open_calls.setdefault(number, _OpenCall(self._file))
        try:
            match frame.kind:
                case FrameKind.CALL:
                    open_call.head = msgspec.json.decode(content, type=CallHead)
                case FrameKind.BODY:
                    open_call.body += content
                case FrameKind.ASKED if open_call.head is not None:
                    yield from self._end_request(number, open_call, open_call.head)
                case FrameKind.ANSWER:
                    open_call.answer = msgspec.json.decode(content, type=AnswerHead)
                case FrameKind.DATA if not open_call.problem:
                    open_call.data += content
                case FrameKind.END:
                    yield from self._end(number, msgspec.json.decode(content, type=CallEnd))
        except msgspec.MsgspecError:  # A later version wrote the frame.
            self.damage.append(
                f"{self._path(self._file, SPOOL_SUFFIX)}: has an unknown frame; a newer "
                "Harken wrote it"
            )

    def _end_request(
        self, number: int, open_call: _OpenCall, head: CallHead
    ) -> Iterator[SpoolStep]:
        body = decode_body(
            bytes(open_call.body), head.headers.get("content-encoding", ""), _MAX_BODY_BYTES
        )
        open_call.body.clear()
        if body.problem:
            open_call.problem = f"the request: {body.problem}"
            return
        open_call.is_asked = True
        hints = self.hints_of(head.headers, head.path, body.data)
        yield SpoolStep(
            number,
            CapturedRequest(
                id=head.id,
                protocol=head.protocol,
                path=head.path,
                body=body.data,
                time=head.time,
                hints=hints,
            ),
        )

    def _end(self, number: int, end: CallEnd) -> Iterator[SpoolStep]:
        open_call = self._open_calls.pop(number)
        self._unmarked[number] = open_call.file
        if open_call.head is None or not open_call.is_asked:
            reason = open_call.problem or end.broken or "its request is incomplete"
            yield SpoolStep(number, UnrecordableCall(reason), self._file)
            return
        answer = open_call.answer or AnswerHead(status=0)
        body = decode_body(bytes(open_call.data), answer.content_encoding, _MAX_BODY_BYTES)
        broken = end.broken or (f"the answer: {body.problem}" if body.problem else "")
        reply = CapturedResponse(
            id=open_call.head.id,
            status=answer.status,
            content_type=answer.content_type,
            body=body.data,
            time=end.time or open_call.head.time,
            latency_s=end.latency_s if end.time else None,
            first_byte_s=end.first_byte_s,
            broken=broken,
        )
        yield SpoolStep(number, reply, self._file)

    def _files(self) -> list[int]:
        names = (
            path.name.removesuffix(SPOOL_SUFFIX) for path in self.folder.glob(f"*{SPOOL_SUFFIX}")
        )
        return sorted(int(name) for name in names if name.isdecimal())

    def _load_marks(self, file: int) -> set[int]:
        """Return the calls that end in a file and are recorded."""
        try:
            lines = self._path(file, DONE_SUFFIX).read_text().splitlines()
        except OSError:
            return set()
        return {int(line) for line in lines if line.isdecimal()}

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"{number:08d}{ending}"
