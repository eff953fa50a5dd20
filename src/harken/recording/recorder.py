"""`Recorder`: turn calls and responses of other programs into sessions and commits.

Events are handled in order and logged once: a call that is already in a log is skipped. No input
can make the recorder fail. What cannot be recorded is reported on one line and skipped, because the
program that made the call must not notice.

Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from harken.context.checkpoint import CommitIdentity
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, system_clock
from harken.core.commits import Checkpoint
from harken.core.ids import AgentId
from harken.core.secrets.redaction import Credentials
from harken.errors import HarkenError, LogError, StoreError
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from harken.formats.wire.piece_cache import PieceCache
from harken.recording.exchange import CapturedRequest, CapturedResponse
from harken.recording.matcher import AgentMatch
from harken.recording.recorded_session import ParsedCall, RecordedSession
from harken.recording.session_pool import RecorderOptions, SessionPool
from harken.recording.streamed_text import redact_body
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import WireItemCache
from harken.session.session import Session
from harken.store.base import Store

_MAX_PAUSE_US = 3600 * 1_000_000
"""After a longer pause, an equal beginning starts a new conversation.

This applies if the client does not name the conversation.
"""


class _HeldCall(msgspec.Struct):
    """A call that continues an answer that has not been recorded yet."""

    run: RecordedSession
    recorder: AgentRecorder
    request: ParsedCall
    reply: CapturedResponse | None = None


class _ProblemReporter(msgspec.Struct):
    """Report each problem once, and once more when it is over."""

    on_notice: Callable[[str], None]
    _current: dict[str, str] = msgspec.field(default_factory=dict)

    def report(self, kind: str, line: str) -> None:
        """Report a problem, if it is new."""
        if self._current.get(kind) != line:
            self._current[kind] = line
            self.on_notice(line)

    def report_over(self, kind: str, line: str) -> None:
        """Report that a problem is over, if there was one."""
        if self._current.pop(kind, None) is not None:
            self.on_notice(line)


@check_arguments
class Recorder:
    """Record calls into the sessions of a folder. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        folder: Path,
        store: Store | None = None,
        *,
        clock: Clock = system_clock,
        tell: Callable[[str], None] = lambda _: None,
        options: RecorderOptions | None = None,
    ) -> None:
        """Write sessions into `folder`, and contexts into `store` if there is one.

        tell: called with one line for the user.
        """
        options = options or RecorderOptions()
        self._pool = SessionPool(folder, store, clock, options, options.identity)
        self._clock, self._redact = clock, options.redact
        self.failure: Exception | None = None
        """Why the last call or response was not recorded. None if it was."""
        self.on_response: Callable[[Session, AgentId], None] = lambda *_: None
        """Called after each response that was logged."""
        self._problems = _ProblemReporter(tell)
        self._piece_caches: dict[str, PieceCache] = {}
        self._items = WireItemCache()
        self._held_calls: dict[str, _HeldCall] = {}
        self._skipped_calls: set[str] = set()
        """Calls that could not be recorded. Their responses are skipped."""

    def set_identity(self, identity: CommitIdentity) -> None:
        """Set the identity of the commits of sessions that are opened from now on."""
        self._pool.identity = identity

    def begin(self, call: CapturedRequest) -> None:
        """Record a request. Never raises for any input."""
        with self._reporting_errors(call.id):
            self._skipped_calls.add(call.id)
            if self._redact is not None:
                call = replace(call, body=self._redact_body(call.body, self._redact))
            protocol = wires.WIRE_PROTOCOLS.get(call.protocol)
            if protocol is None:
                self._problems.report("protocol", f"calls of {call.protocol} are not recorded")
                return
            request = self._parse_call(call, protocol)
            run, agent_match = self._find_session(request)
            if call.id in run.requests_by_call or call.id in self._held_calls:
                self._skipped_calls.discard(call.id)
                return
            with self._dropping_on_error(run):
                if agent_match is not None and agent_match.kind == "waits":
                    self._held_calls[call.id] = _HeldCall(run, agent_match.recorder, request)
                else:
                    self._begin(run, request, agent_match)
                self._skipped_calls.discard(call.id)

    def end(self, reply: CapturedResponse) -> None:
        """Record the end of a call. Never raises for any input."""
        with self._reporting_errors(reply.id):
            if self._redact is not None:
                reply = replace(reply, body=self._redact_body(reply.body, self._redact))
            held_call = self._held_calls.get(reply.id)
            if held_call is not None:
                held_call.reply = reply
                return
            run = self._pool.find_open_call(reply.id)
            if run is None and reply.id not in self._skipped_calls:
                run = self._pool.find_logged_call(reply.id)
            self._skipped_calls.discard(reply.id)
            if run is None:
                return  # The call was skipped, or its response is in the log already.
            with self._dropping_on_error(run):
                self._end(run, reply)
            for idle in self._pool.list_idle():
                self._finish(idle)

    def _redact_body(self, data: bytes, credentials: Credentials) -> bytes:
        """Return a body without credentials, and report them."""
        data = redact_body(data, credentials)
        if credentials.notice:
            self._problems.report("redact", credentials.notice)
        return data

    def is_holding(self, call_id: str) -> bool:
        """Whether a call is only in memory, because the answer that it continues is not logged."""
        return call_id in self._held_calls

    def close(self) -> None:
        """Commit the pending contexts, and close all sessions. A second call has no effect."""
        for run in self._pool.open_sessions:
            self._finish(run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _parse_call(self, call: CapturedRequest, protocol: Protocol) -> ParsedCall:
        piece_cache = self._piece_caches.setdefault(protocol.name, PieceCache())
        parsed = protocol.parse_request(call.path, call.body, piece_cache)
        items = self._items.find_items(protocol, parsed.pieces, len(call.body))
        return ParsedCall(call, protocol, parsed, items)

    def _find_session(self, request: ParsedCall) -> tuple[RecordedSession, AgentMatch | None]:
        """Return the session and the agent of a call. The session may be new."""
        hints = request.call.hints
        self._pool.start_clock.set(request.call.time, self._clock())
        if hints.session:
            run = self._pool.get_named(hints.client, hints.session)
            return run, run.match_call(request)
        best: tuple[RecordedSession, AgentMatch] | None = None
        for run in self._pool.list_unnamed(hints.client):
            agent_match = self._match_unnamed(run, request)
            if agent_match is not None and (best is None or agent_match.rank > best[1].rank):
                best = run, agent_match
        for run in self._pool.iter_candidates(request) if best is None else ():
            agent_match = self._match_unnamed(run, request)
            if agent_match is not None:
                return run, agent_match
        return best or (self._pool.create_unnamed(hints.client, request.call.id), None)

    def _match_unnamed(self, run: RecordedSession, request: ParsedCall) -> AgentMatch | None:
        """Match a call in an unnamed session. Return None unless the match is reliable."""
        if request.call.id in run.requests_by_call:
            return run.match_call(request)
        agent_match = run.match_call(request)
        if agent_match is None or agent_match.kind in ("on", "waits", "compaction"):
            return agent_match
        if agent_match.kept_items:
            return agent_match if agent_match.kept_items > 1 or agent_match.common else None
        is_more = any(item.messages[0].role == "assistant" for item in request.items)
        is_fresh = run.time_of(request) - run.clock.now_us < _MAX_PAUSE_US
        return agent_match if is_more or is_fresh else None

    def _begin(
        self, run: RecordedSession, request: ParsedCall, agent_match: AgentMatch | None
    ) -> None:
        run.clock.set(request.call.time, self._clock())
        run.log_call(request, agent_match)
        if agent_match is not None and agent_match.kind == "compaction":
            self._commit(run, agent_match.recorder, "compaction")

    def _end(self, run: RecordedSession, reply: CapturedResponse) -> None:
        run.clock.set(reply.time, self._clock())
        recorder = run.log_end(reply)
        if recorder is None:
            return
        run.session.sync()
        self._commit(run, recorder, "turn_boundary")
        self.on_response(run.session, recorder.agent_id)
        for held_call in [
            held_call for held_call in self._held_calls.values() if held_call.recorder is recorder
        ]:
            self._release(held_call)

    def _release(self, held_call: _HeldCall, *, is_last: bool = False) -> None:
        """Record a held call, and its response if there is one.

        With `is_last`, do not hold it again.
        """
        if self._held_calls.pop(held_call.request.call.id, None) is None:
            return  # The release of an earlier call released this one.
        agent_match = held_call.run.match_call(held_call.request)
        if agent_match is not None and agent_match.kind == "waits" and not is_last:
            self._held_calls[held_call.request.call.id] = held_call
            return
        self._begin(held_call.run, held_call.request, agent_match)
        if held_call.reply is not None:
            self._end(held_call.run, held_call.reply)

    def _commit(self, run: RecordedSession, recorder: AgentRecorder, trigger: Checkpoint) -> None:
        if run.commits is not None:
            with self._reporting_store_errors():
                run.commits.commit_new(recorder, trigger, is_compaction=trigger == "compaction")

    def _commit_end(self, run: RecordedSession) -> None:
        """Commit the end of a run: the totals of its calls."""
        root = run.session.state.root
        recorder = None if root is None else run.recorders.get(root)
        if run.commits is not None and recorder is not None:
            with self._reporting_store_errors():
                run.commits.commit_end(recorder, run.totals)

    @contextmanager
    def _reporting_store_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            line = f"commits are not being kept: {error} (the log has everything)"
            self._problems.report("store", line)
        else:
            self._problems.report_over("store", "commits are being kept again")

    def _finish(self, run: RecordedSession) -> None:
        """Close a session: log its held calls as they are, and commit its pending contexts."""
        with self._reporting_errors("the end"), self._dropping_on_error(run):
            for held_call in [
                candidate for candidate in self._held_calls.values() if candidate.run is run
            ]:
                self._release(held_call, is_last=True)
            for recorder in run.recorders.values():
                if recorder.requested_count and recorder.open_request is None:
                    self._commit(run, recorder, "session_end")
            self._commit_end(run)
        self._pool.drop(run)

    @contextmanager
    def _dropping_on_error(self, run: RecordedSession) -> Iterator[None]:
        """Close a session if the block fails. The next call reopens it from its log."""
        try:
            yield
        except BaseException:
            self._pool.drop(run)
            raise
        self._problems.report_over("log", "calls are being recorded again")

    @contextmanager
    def _reporting_errors(self, call_id: str) -> Iterator[None]:
        """Report every error of the block instead of raising it."""
        self.failure = None
        try:
            yield
        except LogError as error:
            self.failure = error
            self._problems.report("log", f"calls are not being recorded: {error}")
        except OSError as error:
            self.failure = error
            line = f"{error.filename}: {error.strerror}"
            self._problems.report("log", f"calls are not being recorded: {line}")
        except HarkenError as error:
            self.failure = error
            self._problems.report("call", f"a call was not recorded: {error}")
        except Exception as error:  # noqa: BLE001 - whoever made the call must not notice
            self.failure = error
            kind = type(error).__name__
            self._problems.report("bug", f"call {call_id} was not recorded: {kind}: {error}"[:500])
