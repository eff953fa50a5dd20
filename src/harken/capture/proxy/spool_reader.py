"""Reading a spool: from frames to calls and replies, and what of it is done.

One idea: a file of the spool is removed when every call of which it holds something is recorded,
and beside each file stands which calls that end in it are. So whoever reads the spool again, after
it was ended in the midst of it, is given again only the calls that were under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harken.capture.proxy.frames import AnswerHead, CallEnd, CallHead, Frame, FrameKind, FrameReader
from harken.capture.proxy.spool import ENDING
from harken.recording.body import decode_body
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

_PIECE = 1 << 20
_MOST_BYTES = 1 << 28
"""As much as a body may have when it is decompressed."""
DONE = ".done"
HintsOf = Callable[[dict[str, str], str, bytes], ClientHints]


@dataclass(frozen=True, slots=True)
class UnrecordableCall:
    """A call that cannot be recorded."""

    reason: str


@dataclass(frozen=True, slots=True)
class SpoolStep:
    """What is to be recorded next."""

    call: int
    what: CapturedRequest | CapturedResponse | UnrecordableCall
    file: int = 0
    """Where in the spool it is."""

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes of this call."""
        return not isinstance(self.what, CapturedRequest)


@dataclass(slots=True)
class _Open:
    """A call that has no end yet."""

    file: int
    """Where it began."""
    head: CallHead | None = None
    body: bytearray = field(default_factory=bytearray)
    is_asked: bool = False
    problem: str = ""
    """Why it cannot be recorded."""
    answer: AnswerHead | None = None
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class SpoolReader:
    """Reads what is in the files of a folder, while they grow."""

    folder: Path
    hints_of: HintsOf
    damage: list[str] = field(default_factory=list)
    """Files of which not all could be read, and why; whoever tells it, empties it."""
    _file: int = 0
    """The number of the one that is read; 0: none was found yet."""
    _at: int = 0
    _frames: FrameReader = field(default_factory=FrameReader)
    _open: dict[int, _Open] = field(default_factory=dict)
    _unmarked: dict[int, int] = field(default_factory=dict)
    """Calls that ended and are not recorded yet -> the file where they began."""
    _done: dict[int, set[int]] = field(default_factory=dict)
    """Of each file: the calls that ended in it and are recorded."""

    def __post_init__(self) -> None:
        """Find out what was done before this reader began."""
        self._done = {number: self._marked(number) for number in self._files()}

    def read(self) -> Iterator[SpoolStep]:
        """Yield what is to be recorded of all that is there now."""
        while True:
            yield from self._read_file()
            following = [number for number in self._files() if number > self._file]
            if not following:
                return
            yield from self._read_file()  # what came before the next one was begun
            self._look_at_end()
            self._file, self._at, self._frames = following[0], 0, FrameReader()

    def finish(self, reason: str) -> Iterator[SpoolStep]:
        """Yield the ends of all calls that have none: nobody writes any more."""
        self._look_at_end()
        for number in list(self._open):
            end = CallEnd(time="", latency_s=0, broken=reason)
            yield from self._end(number, end)

    def mark(self, step: SpoolStep) -> None:
        """Note that the last step of a call is recorded; remove what is needed no more."""
        with suppress(OSError), self._path(step.file, DONE).open("a") as file:
            file.write(f"{step.call}\n")
        self._done.setdefault(step.file, set()).add(step.call)
        self._unmarked.pop(step.call, None)
        begun = (one.file for one in self._open.values())
        floor = min([self._file, *begun, *self._unmarked.values()])
        for number in [number for number in self._done if number < floor]:
            del self._done[number]
            for ending in (ENDING, DONE):  # in this order: a mark without its file harms nobody
                self._path(number, ending).unlink(missing_ok=True)

    def _read_file(self) -> Iterator[SpoolStep]:
        """Yield what is new in the file that is read."""
        try:
            file = self._path(self._file, ENDING).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._at)
            while data := file.read(_PIECE):
                self._at += len(data)
                for frame in self._frames.feed(data):
                    yield from self._take(frame)

    def _look_at_end(self) -> None:
        if self._frames.damaged:
            path = self._path(self._file, ENDING)
            self.damage.append(f"{path}: is damaged, and is not read to its end")

    def _take(self, frame: Frame) -> Iterator[SpoolStep]:
        number, content = frame.call, frame.content
        if any(number in done for done in self._done.values()):
            return
        one = self._open.setdefault(number, _Open(self._file))
        try:
            match frame.kind:
                case FrameKind.CALL:
                    one.head = msgspec.json.decode(content, type=CallHead)
                case FrameKind.BODY:
                    one.body += content
                case FrameKind.ASKED if one.head is not None:
                    yield from self._asked(number, one, one.head)
                case FrameKind.ANSWER:
                    one.answer = msgspec.json.decode(content, type=AnswerHead)
                case FrameKind.DATA if not one.problem:
                    one.data += content
                case FrameKind.END:
                    yield from self._end(number, msgspec.json.decode(content, type=CallEnd))
        except msgspec.MsgspecError:  # a later version wrote it
            self.damage.append(f"{self._path(self._file, ENDING)}: holds what nobody here knows")

    def _asked(self, number: int, one: _Open, head: CallHead) -> Iterator[SpoolStep]:
        body = decode_body(bytes(one.body), head.headers.get("content-encoding", ""), _MOST_BYTES)
        one.body.clear()
        if body.problem:
            one.problem = f"the request: {body.problem}"
            return
        one.is_asked = True
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
        one = self._open.pop(number)
        self._unmarked[number] = one.file
        if one.head is None or not one.is_asked:
            reason = one.problem or end.broken or "its request is not whole"
            yield SpoolStep(number, UnrecordableCall(reason), self._file)
            return
        answer = one.answer or AnswerHead(status=0)
        body = decode_body(bytes(one.data), answer.content_encoding, _MOST_BYTES)
        broken = end.broken or (f"the answer: {body.problem}" if body.problem else "")
        reply = CapturedResponse(
            id=one.head.id,
            status=answer.status,
            content_type=answer.content_type,
            body=body.data,
            time=end.time or one.head.time,
            latency_s=end.latency_s if end.time else None,
            first_byte_s=end.first_byte_s,
            broken=broken,
        )
        yield SpoolStep(number, reply, self._file)

    def _files(self) -> list[int]:
        names = (path.name.removesuffix(ENDING) for path in self.folder.glob(f"*{ENDING}"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _marked(self, file: int) -> set[int]:
        """Return the calls whose end is in a file, and which are recorded."""
        try:
            lines = self._path(file, DONE).read_text().splitlines()
        except OSError:
            return set()
        return {int(line) for line in lines if line.isdecimal()}

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"{number:08d}{ending}"
