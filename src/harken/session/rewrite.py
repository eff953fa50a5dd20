"""Rewriting of a log: replace text in its lines, and compute the dependent hashes again.

Only strings are changed in a line. Then the values that cover them are computed again: the
chained sums, and the hashes of contexts and tools. A line that did not verify before does not
verify afterwards: damage is neither hidden nor added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import format_rfc3339
from harken.core.ids import message_id, parse_id_number
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.secrets.removal import Replace, in_json, replace_in_bytes
from harken.errors import HarkenError
from harken.session.fold import Resolver, current_messages, fold
from harken.session.log.checksum import (
    CLOSE,
    DIGITS_AT,
    HEAD,
    MORE,
    OPEN,
    checksum_line,
    has_more,
    has_sum,
    is_valid_line,
    read_body,
    seal,
)
from harken.session.state import AgentState, SessionState

_MAX_SUMS = 16
"""Number of recent sums of unverified lines that the next line may follow, as in `verify`."""
_STRUCTURE = ("event_type", "message_id", "agent_id", "time")


class PartOfStructure(ValueError):
    """The text is part of the structure of the log, which would be invalid without it."""

    def __init__(self) -> None:
        super().__init__("the text is part of the log's structure and cannot be removed")


class LogRewriter(msgspec.Struct):
    """The state of a log that is being rewritten."""

    replace: Replace
    tail: Replace
    """The replacement for the end of a torn line."""
    resolver: Resolver | None = None
    """Returns the current messages of commits."""
    places: int = 0
    """The number of lines with replaced text."""
    has_changed: bool = False
    is_sealed: bool = False
    """Whether the lines have sums."""
    is_known: bool = True
    """Whether every line so far could be folded; otherwise later hashes are not changed."""
    torn: bytes = b""
    """The torn line at the end, after replacement; it is not a line of the new log."""
    end: int = 0
    """The size of the new log so far, in bytes."""
    _state: SessionState = msgspec.field(default_factory=SessionState)
    _sums: dict[bytes, bytes] = msgspec.field(default_factory=lambda: {b"": b""})
    """Old sums that the next line may follow -> new sums; that of the last valid line is first."""
    _last_sum: bytes = b""
    _top: int = -1
    _replacements: dict[int, object] = msgspec.field(default_factory=dict)
    """Changed messages and requests, by their `id()`."""
    _placeholders: dict[int, object] = msgspec.field(default_factory=dict)
    """Placeholders for messages of a commit that is not available, by their `id()`."""
    _loaded: tuple[str, Sequence[ChatMessage]] = ("", ())
    """The id and the messages of the last `context_loaded`."""

    def lines(self, raws: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rewritten lines, without a torn one at the end. Raises PartOfStructure."""
        held: list[bytes] = []  # the last line, after the lines of its group
        for raw in raws:
            if held and not _is_continued(held[-1]):
                yield from map(self._rewrite_line, held)
                held = []
            held.append(raw)
        if held and self._is_torn(*held[-2:]):
            new = b"".join(in_json(raw, self.replace) for raw in held)
            self.torn = replace_in_bytes(new, self.tail)
            self._count(self.torn != b"".join(held))
        else:
            yield from map(self._rewrite_line, held)

    def purge_line(self, by: str, why: str, time_us: int) -> bytes:
        """Return the `content_purged` line for the end of the log."""
        event = ev.ContentPurged(
            message_id=message_id(self._top + 1),
            time=format_rfc3339(time_us),
            places=self.places,
            by=by or None,
            why=why or None,
        )
        return seal(self._last_sum, ev.encode_event(event))[0]

    def _count(self, is_place: bool) -> None:  # noqa: FBT001 - there is nothing else to say
        self.places += is_place
        self.has_changed = self.has_changed or is_place

    def _is_torn(self, *last: bytes) -> bool:
        """Whether the last line of a log with sums, or its group, is torn, by `reader`'s rules.

        `last`: the line, after the line before it if both are of one group.
        """
        raw = last[-1]
        if _is_continued(raw):
            return True
        if raw.endswith(b"\n"):
            return not raw.strip(b"\x00\n")
        if len(last) > 1:
            ends = (raw + b"\n", raw[:-1] + b"\n")
            return not any(is_valid_line(last[0][DIGITS_AT], line) for line in ends)
        follows = (self._find_new_sum(raw + b"\n"), self._find_new_sum(raw[:-1] + b"\n"))
        return self.is_sealed and follows == (None, None)

    def _find_new_sum(self, line: bytes) -> bytes | None:
        """Return the new sum of the line that this line was written after, or None if unknown."""
        if has_sum(line) and line.endswith(CLOSE):
            for old, new in self._sums.items():
                if checksum_line(old, line[HEAD]) == line[DIGITS_AT]:
                    return new
        return None

    def _rewrite_line(self, raw: bytes) -> bytes:
        line = raw if raw.endswith(b"\n") else raw + b"\n"
        if has_sum(line) and line.endswith(CLOSE):
            self.is_sealed = True
            new = self._rewrite_sealed(line)
        else:
            new = self._rewrite_event(raw)
            self._allow_next({raw[DIGITS_AT]: new[DIGITS_AT]})
        self.has_changed = self.has_changed or new != raw
        self.end += len(new)
        return new

    def _rewrite_sealed(self, line: bytes) -> bytes:
        before = self._find_new_sum(line)
        head = self._rewrite_event(read_body(line))[:-1] + (MORE + OPEN if has_more(line) else OPEN)
        if before is not None:
            self._last_sum = checksum_line(before, head)
            self._sums = {line[DIGITS_AT]: self._last_sum}
            return head + self._last_sum + CLOSE
        # The line does not verify and must not verify afterwards. If only its digits are wrong,
        # the next line proves it by following the correct sum.
        right = {
            checksum_line(old, line[HEAD]): checksum_line(now, head)
            for old, now in self._sums.items()
        }
        self._allow_next({line[DIGITS_AT]: line[DIGITS_AT], **right})
        return head + line[DIGITS_AT] + CLOSE

    def _allow_next(self, sums: dict[bytes, bytes]) -> None:
        """Let the next line follow an unverified line, or any of the lines before it."""
        self._last_sum = next(iter(sums.values()))
        proven, *others = (self._sums | sums).items()
        self._sums = dict([proven, *others[-_MAX_SUMS:]])

    def _rewrite_event(self, body: bytes) -> bytes:
        """Return the rewritten JSON object of an event."""
        new = in_json(body, self.replace)
        try:
            event = ev.decode_event(new)
        except ValueError:
            self.is_known = False
            if new != body and _can_decode(body):
                raise PartOfStructure from None
            new = replace_in_bytes(new, self.replace)
            self._count(new != body)
            return new
        is_changed = new != body
        if is_changed and _structural_members(new) != _structural_members(body):
            raise PartOfStructure
        self._count(is_changed)
        self._top = max(self._top, parse_id_number(event.message_id, "msg_") or -1)
        hashes = self._fold_event(event, is_changed=is_changed) if self.is_known else {}
        return canonical.to_json_line({**canonical.from_json(new), **hashes}) if hashes else new

    def _fold_event(self, event: ev.Event, *, is_changed: bool) -> dict[str, str]:
        """Fold an event. Return its hashes of changed content."""
        try:
            hashes = self._compute_hashes(event, is_changed=is_changed)
            for name, value in hashes.items():
                setattr(event, name, value)
            fold(self._state, event, self._load)
        except ValueError:
            self.is_known = False
            return {}
        if is_changed or hashes:
            self._replacements[id(event)] = event
        return hashes

    def _compute_hashes(self, event: ev.Event, *, is_changed: bool) -> dict[str, str]:
        match event:
            case ev.ToolsDefined() if is_changed:
                return {"tools_hash": canonical.hash_value(canonical.TOOLS_DOMAIN, event.tools)}
            case ev.ContextLoaded():
                messages = self._load(event)
                is_changed_context = any(id(message) in self._replacements for message in messages)
                return {"context_hash": _hash_context("", messages)} if is_changed_context else {}
            case ev.LlmRequest() if event.agent_id in self._state.agents:
                return self._hash_request_context(self._state.agents[event.agent_id])
            case _:
                return {}

    def _hash_request_context(self, agent: AgentState) -> dict[str, str]:
        """Return the new hash of a request's context, or {} if the context is unchanged."""
        hashed_count, before = agent.context_hash_state
        new = current_messages(agent)[hashed_count:]
        is_touched = any(id(message) in self._replacements for message in (agent.request, *new))
        if not is_touched or any(id(message) in self._placeholders for message in new):
            return {}
        return {"context_hash": _hash_context(before, new)}

    def _load(self, event: ev.ContextLoaded) -> Sequence[ChatMessage]:
        """Return the messages of a commit, or placeholders if it is not available.

        The result is cached, because the fold loads the same commit again.
        """
        if self._loaded[0] == event.message_id:
            return self._loaded[1]
        messages: Sequence[ChatMessage] = ()
        if self.resolver is not None:
            with suppress(HarkenError):
                messages = self.resolver(event)
        if len(messages) != event.count:
            messages = [Message("user", "") for _ in range(event.count)]
            self._placeholders |= {id(message): message for message in messages}
        elif _hash_context("", messages) != event.context_hash:
            self._replacements |= {id(message): message for message in messages}
        self._loaded = event.message_id, messages
        return messages


def _is_continued(raw: bytes) -> bool:
    """Whether a line is followed by another line of its group."""
    return has_sum(raw) and raw.endswith(b"\n") and has_more(raw)


def _structural_members(body: bytes) -> list[ev.Json]:
    data = canonical.from_json(body)
    return [data.get(name) for name in _STRUCTURE]


def _can_decode(body: bytes) -> bool:
    try:
        ev.decode_event(body)
    except ValueError:
        return False
    return True


def _hash_context(before: str, messages: Iterable[ChatMessage]) -> str:
    for message in messages:
        before = extend_context_hash(before, message)
    return before
