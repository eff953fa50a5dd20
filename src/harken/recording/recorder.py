"""`Recorder`: calls and replies of other programs become sessions and commits.

One idea: what was seen is handed over in order, and told nobody twice: a call that is in a log is
not logged again. Nothing that comes in can make it fail; what cannot be recorded is told, on one
line, and passed over, since whoever made the call must not notice.

Not for several threads. Source: docs/design/006-what-the-model-saw.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from harken.core.arguments import check_arguments
from harken.core.clock import Clock, system_clock
from harken.core.commits import Checkpoint
from harken.core.ids import AgentId
from harken.errors import HarkenError, LogError, StoreError
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from harken.formats.wire.piece_cache import PieceCache
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.exchange import CapturedRequest, CapturedResponse
from harken.recording.item import wired
from harken.recording.matcher import AgentMatch
from harken.recording.recorded_session import ParsedCall, RecordedSession
from harken.recording.session_pool import RecorderOptions, SessionPool
from harken.session.session import Session
from harken.store.base import Store

_FRESH_US = 3600 * 1_000_000
"""The same words after a longer time are a new conversation, where no client says otherwise."""


@dataclass(slots=True)
class _Held:
    """A call that goes on from an answer that is not here yet."""

    run: RecordedSession
    voice: AgentRecorder
    request: ParsedCall
    reply: CapturedResponse | None = None


@dataclass(slots=True)
class _Troubles:
    """What went wrong, told once, and once more when it is over."""

    tell: Callable[[str], None]
    _now: dict[str, str] = field(default_factory=dict)

    def told(self, kind: str, line: str) -> None:
        """Tell what is wrong, where that is new."""
        if self._now.get(kind) != line:
            self._now[kind] = line
            self.tell(line)

    def over(self, kind: str, line: str) -> None:
        """Tell that it is well again, where it was not."""
        if self._now.pop(kind, None) is not None:
            self.tell(line)


@check_arguments
class Recorder:
    """Records calls into sessions of a folder. Use as a context manager, or call `close`."""

    def __init__(
        self,
        folder: Path,
        store: Store | None = None,
        *,
        clock: Clock = system_clock,
        tell: Callable[[str], None] = lambda _: None,
        options: RecorderOptions | None = None,
    ) -> None:
        """Write sessions into `folder`, and what agents understood into `store`, if there is one.

        tell: is told, on one line, what a person should know.
        """
        self._shelf = SessionPool(folder, store, clock, options or RecorderOptions())
        self._clock = clock
        self.failure: Exception | None = None
        """What kept the last call or reply from being recorded; None: nothing did."""
        self.answered: Callable[[Session, AgentId], None] = lambda *_: None
        """Is told of each answer that is in the log."""
        self._troubles = _Troubles(tell)
        self._known: dict[str, PieceCache] = {}
        self._held: dict[str, _Held] = {}
        self._passed_over: set[str] = set()
        """Calls that could not be recorded, and so no reply can."""

    def begin(self, call: CapturedRequest) -> None:
        """Record that a call was made. Never raises for anything that came in."""
        with self._borne(call.id):
            self._passed_over.add(call.id)
            protocol = wires.WIRES.get(call.protocol)
            if protocol is None:
                self._troubles.told("protocol", f"calls of {call.protocol} are not recorded")
                return
            request = self._request(call, protocol)
            run, found = self._place(request)
            if call.id in run.calls or call.id in self._held:
                self._passed_over.discard(call.id)
                return
            with self._kept(run):
                if found is not None and found.how == "waits":
                    self._held[call.id] = _Held(run, found.voice, request)
                else:
                    self._begin(run, request, found)
                self._passed_over.discard(call.id)

    def end(self, reply: CapturedResponse) -> None:
        """Record how a call ended. Never raises for anything that came in."""
        with self._borne(reply.id):
            held = self._held.get(reply.id)
            if held is not None:
                held.reply = reply
                return
            run = self._shelf.with_call(reply.id)
            if run is None and reply.id not in self._passed_over:
                run = self._shelf.with_call_in_log(reply.id)
            self._passed_over.discard(reply.id)
            if run is None:
                return  # it was passed over, or is in the log already
            with self._kept(run):
                self._end(run, reply)
            for idle in self._shelf.idle():
                self._finish(idle)

    def holds(self, call_id: str) -> bool:
        """Whether a call is in no log yet: it goes on from an answer that is not here."""
        return call_id in self._held

    def close(self) -> None:
        """Commit what is pending, and let go of all sessions. A second call does nothing."""
        for run in self._shelf.runs:
            self._finish(run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _request(self, call: CapturedRequest, protocol: Protocol) -> ParsedCall:
        known = self._known.setdefault(protocol.name, PieceCache())
        asked = protocol.take_apart(call.path, call.body, known)
        return ParsedCall(call, protocol, asked, wired(protocol, asked.pieces))

    def _place(self, request: ParsedCall) -> tuple[RecordedSession, AgentMatch | None]:
        """Return whose call it is; the run may be a new one."""
        hints = request.call.hints
        self._shelf.began.set(request.call.time, self._clock())
        if hints.session:
            run = self._shelf.of_session(hints.client, hints.session)
            return run, run.placed(request)
        best: tuple[RecordedSession, AgentMatch] | None = None
        for run in self._shelf.unnamed(hints.client):
            found = self._own(run, request)
            if found is not None and (best is None or found.rank > best[1].rank):
                best = run, found
        for run in self._shelf.beginning_as(request) if best is None else ():
            found = self._own(run, request)
            if found is not None:
                return run, found
        return best or (self._shelf.new(hints.client, request.call.id), None)

    def _own(self, run: RecordedSession, request: ParsedCall) -> AgentMatch | None:
        """Return whose call it is where a run without a name can be sure that it is its own."""
        if request.call.id in run.calls:
            return run.placed(request)
        found = run.placed(request)
        if found is None or found.how in ("on", "waits", "compaction"):
            return found
        if found.kept:
            return found if found.kept > 1 or found.common else None
        is_more = any(item.messages[0].role == "assistant" for item in request.items)
        is_fresh = run.time_of(request) - run.moment.now_us < _FRESH_US
        return found if is_more or is_fresh else None

    def _begin(self, run: RecordedSession, request: ParsedCall, found: AgentMatch | None) -> None:
        run.moment.set(request.call.time, self._clock())
        run.begin(request, found)
        if found is not None and found.how == "compaction":
            self._commit(run, found.voice, "compaction")

    def _end(self, run: RecordedSession, reply: CapturedResponse) -> None:
        run.moment.set(reply.time, self._clock())
        voice = run.end(reply)
        if voice is None:
            return
        run.session.sync()
        self._commit(run, voice, "turn_boundary")
        self.answered(run.session, voice.agent_id)
        for held in [one for one in self._held.values() if one.voice is voice]:
            self._release(held)

    def _release(self, held: _Held, *, is_last: bool = False) -> None:
        """Record a call that waited, and its reply if that is here; at last also without more."""
        if self._held.pop(held.request.call.id, None) is None:
            return  # the one before it let it go
        found = held.run.placed(held.request)
        if found is not None and found.how == "waits" and not is_last:
            self._held[held.request.call.id] = held
            return
        self._begin(held.run, held.request, found)
        if held.reply is not None:
            self._end(held.run, held.reply)

    def _commit(self, run: RecordedSession, voice: AgentRecorder, trigger: Checkpoint) -> None:
        if run.commits is None:
            return
        try:
            run.commits.take(voice, trigger)
        except StoreError as error:
            line = f"commits are not being kept: {error} (the log has everything)"
            self._troubles.told("store", line)
        else:
            self._troubles.over("store", "commits are being kept again")

    def _finish(self, run: RecordedSession) -> None:
        """Close a run: what waits in it is logged as it is, what is pending committed."""
        with self._borne("the end"), self._kept(run):
            for held in [one for one in self._held.values() if one.run is run]:
                self._release(held, is_last=True)
            for voice in run.voices.values():
                if voice.asked and voice.open is None:
                    self._commit(run, voice, "session_end")
        self._shelf.drop(run)

    @contextmanager
    def _kept(self, run: RecordedSession) -> Iterator[None]:
        """Let go of a run where something failed; the next call finds it as its log has it."""
        try:
            yield
        except BaseException:
            self._shelf.drop(run)
            raise
        self._troubles.over("log", "calls are being recorded again")

    @contextmanager
    def _borne(self, call_id: str) -> Iterator[None]:
        """The border: whatever goes wrong with a call is told, and does not go further."""
        self.failure = None
        try:
            yield
        except LogError as error:
            self.failure = error
            self._troubles.told("log", f"calls are not being recorded: {error}")
        except OSError as error:
            self.failure = error
            line = f"{error.filename}: {error.strerror}"
            self._troubles.told("log", f"calls are not being recorded: {line}")
        except HarkenError as error:
            self.failure = error
            self._troubles.told("call", f"a call was not recorded: {error}")
        except Exception as error:  # noqa: BLE001 - whoever made the call must not notice
            self.failure = error
            kind = type(error).__name__
            self._troubles.told("bug", f"call {call_id} was not recorded: {kind}: {error}"[:500])
