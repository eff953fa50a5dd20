"""`OpenSessions`: the sessions that pages look at, each read once and then followed.

A session is read when it is first requested; each later request adds only new events. A request
may be content with the first events of a long log, which are shown while it is being read. Requests
of one session wait for each other, those of different sessions do not. The sessions that were not
used for the longest time are closed when there are too many, or too many events.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from harken.core.events import ContextCommitted, Event
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ImagePart
from harken.errors import HarkenError, InvalidLog
from harken.service.viewer.library import SessionLibrary, SessionSource
from harken.session.log.reader import paused_gc
from harken.views.conversation.conversation import Conversations
from harken.views.conversation.images import hash_image, iter_images
from harken.views.dialogs.answers import Answers
from harken.views.dialogs.dialog import Dialog, DialogItem
from harken.views.interventions import Intervention
from harken.views.links import Links
from harken.views.steps import RequestSteps
from harken.views.timeline import TimelineIndex
from harken.views.tree import TreeIndex, TreeMove, TreeRow
from harken.views.verdicts import HookRow, VerdictRow, Watch, hook_rows

_MAX_SESSIONS = 12
_MAX_EVENTS = 1_000_000
"""The number of events of all open sessions after which the least used one is closed."""
_MAX_DIALOGS = 8
_SLICE_S, _PAUSE_S, _MAX_PAUSE_S = 0.03, 0.001, 0.2
"""How long a request reads a log before it lets others pass, and how long it then waits at least,
and at most for those that wait already: a lock alone would be taken by the same thread again."""
_MIN_RETRY_S, _RETRY_PER_READING = 1.0, 20.0
"""A damaged log that is written is read again after a second, or some times its reading."""


class OpenSession:
    """A session, and the views of it that were requested. Used by one thread at a time."""

    def __init__(self, source: SessionSource) -> None:
        """Nothing is read yet."""
        self.source = source
        self.generation = secrets.token_hex(8)
        """Tells the pages apart from those of the same log when it was read before: its items may
        differ then, and the numbers of events do not tell how."""
        self.lock = threading.Lock()
        self._waiting: set[object] = set()
        """The requests that wait for the lock."""
        self.links = Links(())
        self.conversations = Conversations(self.links)
        self.is_complete = False
        """Whether all events of the log were read."""
        self.damage: str | None = None
        """Why the events after the known ones cannot be read."""
        self.is_replaced = False
        """Whether the log does not begin with the known events any more."""
        self._damaged_version: object = None
        self._retry_at = 0.0
        self._tree = TreeIndex()
        self._tree_upto = 0
        self._timeline: TimelineIndex | None = None
        self._steps: RequestSteps | None = None
        self._dialogs: OrderedDict[tuple[AgentId, ...], DialogList] = OrderedDict()
        self._hook_rows: list[HookRow] | None = None
        self._hook_rows_by_message: dict[MessageId, list[HookRow]] | None = None
        self._images: dict[str, ImagePart] = {}
        self._images_upto = 0

    @property
    def event_count(self) -> int:
        """The number of events that were read."""
        return len(self.links)

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock of the session during the block."""
        request = object()
        self._waiting.add(request)
        try:
            with self.lock:
                self._waiting.discard(request)
                yield
        finally:
            self._waiting.discard(request)

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits for the lock."""
        return bool(self._waiting)

    def let_others_pass(self) -> None:
        """Wait until the requests that wait for the lock have it, at most some time."""
        until = time.monotonic() + _MAX_PAUSE_S
        requests = [*self._waiting]
        time.sleep(_PAUSE_S)
        while time.monotonic() < until and not self._waiting.isdisjoint(requests):
            time.sleep(_PAUSE_S)

    @property
    def is_partly_read(self) -> bool:
        """Whether the first events of the log are known, and later ones are not read yet."""
        return self.event_count > 0 and not self.is_complete

    def read_new(self, max_s: float = math.inf) -> None:
        """Add the events since the last call to all views, for roughly this time."""
        if self.damage is not None:
            return
        version, started_at = self.source.find_version(), time.monotonic()
        self.is_complete = False
        with paused_gc():
            try:
                while events := self.source.read():
                    self._add(events)  # Damage is reported after the events before it.
                    if time.monotonic() - started_at >= max_s:
                        return
                self.is_complete = True
            except HarkenError as error:
                if not self.links.events:
                    raise
                self.damage, self.is_replaced = str(error), isinstance(error, InvalidLog)
                self.is_complete = True
                wait_s = _RETRY_PER_READING * (time.monotonic() - started_at)
                self._damaged_version = version
                self._retry_at = started_at + max(_MIN_RETRY_S, wait_s)

    def must_be_read_again(self) -> bool:
        """Whether the log was replaced, or was written since damage was noticed some time ago."""
        if self.damage is None or self.is_replaced:
            return self.is_replaced
        is_due = time.monotonic() >= self._retry_at
        return is_due and self.source.find_version() != self._damaged_version

    def shows_the_same_as(self, other: OpenSession) -> bool:
        """Whether another reading of the log has the same events, and the same damage."""
        return (
            not self.is_replaced
            and (self.damage, self.event_count) == (other.damage, other.event_count)
            and self.links.events[-1] == other.links.events[-1]
        )

    def take_over_retry(self, other: OpenSession) -> None:
        """Retry when another reading of the log, which shows the same, would be retried."""
        self._damaged_version, self._retry_at = other._damaged_version, other._retry_at

    def _add(self, events: Sequence[Event]) -> None:
        start = len(self.links)
        self.links.extend(events)
        self.conversations.add(self.links.events[start:])
        self._hook_rows = self._hook_rows_by_message = None
        if self._timeline is not None:
            self._timeline.add(events)
        if self._steps is not None:
            self._steps.add(events)

    def has_commits(self) -> bool:
        """Whether an agent of the session has a commit."""
        return any(isinstance(event, ContextCommitted) for event in self.links)

    def tree(self) -> list[TreeRow]:
        """Return the agents, parents before children."""
        self._tree.add(self.links.events[self._tree_upto :])
        self._tree_upto = len(self.links)
        return self._tree.rows()

    def tree_moves(self) -> list[TreeMove]:
        """Return the changes of agents' places, oldest first."""
        self.tree()
        return self._tree.moves()

    def tree_after(self, message_id: MessageId) -> list[TreeRow]:
        """Return the agents as they were after an event."""
        index = TreeIndex()
        index.add(self.links.events[: self.links.positions[message_id] + 1])
        return index.rows()

    def timeline(self) -> TimelineIndex:
        """Return the timeline."""
        if self._timeline is None:
            self._timeline = TimelineIndex(self.links)
            self._timeline.add(self.links.events)
        return self._timeline

    def steps(self) -> RequestSteps:
        """Return the model calls."""
        if self._steps is None:
            self._steps = RequestSteps(self.links, resolver=self.source.resolver)
        return self._steps

    def hook_rows(self) -> list[HookRow]:
        """Return the watches, verdicts and interventions, in the order of the log."""
        if self._hook_rows is None:
            self._hook_rows = hook_rows(self.links)
        return self._hook_rows

    def hook_rows_about(self, message_id: MessageId) -> list[HookRow]:
        """Return the verdicts and interventions that are about a message, or caused it."""
        if self._hook_rows_by_message is None:
            self._hook_rows_by_message = {}
            for row in self.hook_rows():
                for id_ in _iter_messages(self.links, row):
                    self._hook_rows_by_message.setdefault(id_, []).append(row)
        return self._hook_rows_by_message.get(message_id, [])

    def dialog(self, agents: Sequence[AgentId]) -> DialogList:
        """Return the dialog of these agents."""
        key = tuple(agents)
        dialog = self._dialogs.pop(key, None) or DialogList(self.links, agents)
        self._dialogs[key] = dialog
        if len(self._dialogs) > _MAX_DIALOGS:
            self._dialogs.popitem(last=False)
        dialog.add_new()
        return dialog

    def find_image(self, hash_: str) -> ImagePart | None:
        """Return an image by its hash, or None if the session has none with it."""
        if hash_ not in self._images:
            for event in self.links.events[self._images_upto :]:
                for part in iter_images(event):
                    self._images.setdefault(hash_image(part) or "", part)
            self._images_upto = len(self.links)
        return self._images.get(hash_)


def _iter_messages(links: Links, row: HookRow) -> Iterable[MessageId]:
    """Return the messages that a row is about, and those that are its effects, each once."""
    match row:
        case VerdictRow():
            effects = [effect.message_id for effect in row.outcomes]
            ids = [links.target(row.subject), row.message_id, row.question, *effects]
        case Intervention():
            ids = [row.message_id, row.became_id]
        case Watch():
            ids = []
    return dict.fromkeys(id_ for id_ in ids if id_ is not None)


class DialogList:
    """The items of a dialog by position. A later event appends items or replaces earlier ones."""

    def __init__(
        self, links: Links, agents: Sequence[AgentId], answers: Answers | None = None
    ) -> None:
        """The dialog is empty before `add_new`. `answers` are shared with other dialogs."""
        self.items: list[DialogItem] = []
        self.agents = agents
        self._links = links
        self._dialog = Dialog(links, agents, drafts=True, answers=answers)
        self._index_by_id: dict[str, int] = {}
        self._event_count = 0
        self._changes: list[tuple[int, int]] = []
        """The number of events after each change, and the index of the changed item."""
        self._listed_at: list[int] = []
        """The number of events after which each item was listed first."""

    def add_new(self) -> None:
        """Add the events since the last call.

        Each is added alone, so that items and changes are the same however the log was read.
        """
        for event in self._links.events[self._event_count :]:
            self._event_count += 1
            self._list_items(self._dialog.add([event]))

    def add_decided(self, event: Event, event_count: int, decided: AbstractSet[MessageId]) -> None:
        """Add an event of the log up to a number of events, and the answers that it decided.

        Events may be left out that are of other agents, decide no answer and stop no turn.
        """
        self._event_count = event_count
        self._list_items(self._dialog.add_decided([event], decided))

    def _list_items(self, items: Iterable[DialogItem]) -> None:
        for item in items:
            index = self._index_by_id.setdefault(item.message_id, len(self.items))
            if index == len(self.items):
                self._listed_at.append(self._event_count)
            self.items[index : index + 1] = [item]
            self._changes.append((self._event_count, index))

    def find(self, message_id: str) -> DialogItem | None:
        """Return the item of a message. Return None if there is none."""
        index = self._index_by_id.get(message_id)
        return None if index is None else self.items[index]

    def find_last_before(self, position: int) -> int:
        """Return the index of the last item that was listed at a position of the log or before.

        Return 0 if the first one is later.
        """
        return max(0, bisect_right(self._listed_at, position + 1) - 1)

    def find_changed(self, event_count: int) -> list[int]:
        """Return the indexes of the items that changed since this number of events, in order."""
        first = bisect_right(self._changes, event_count, key=lambda change: change[0])
        return sorted({index for _, index in self._changes[first:]})


class OpenSessions:
    """The open sessions of a library."""

    def __init__(self, library: SessionLibrary) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, OpenSession] = OrderedDict()

    @contextmanager
    def use(self, name: str, max_s: float = math.inf) -> Iterator[OpenSession]:
        """Yield a session with all current events; other threads wait until the end of the block.

        A log that takes longer than `max_s` to read is yielded with its first events, and is not
        complete. If another request reads it, these are the events that are known. A log that was
        replaced is read from its beginning. Raises NameNotFound, and HarkenError if it cannot be
        read.
        """
        session, deadline = self._get(name), time.monotonic() + max_s
        must_be_read_again = is_yielded = False
        while not (must_be_read_again or is_yielded):
            with session.acquire():
                if max_s < math.inf and session.is_partly_read:
                    deadline = -math.inf
                else:
                    self._read_new(name, session, min(_SLICE_S, max_s))
                must_be_read_again = session.must_be_read_again()
                is_due = session.is_complete or time.monotonic() >= deadline
                if is_due and not must_be_read_again:
                    is_yielded = True
                    yield session
            if not is_yielded:
                session.let_others_pass()
        if must_be_read_again:
            session = self._read_again(name, session)
            with session.lock:
                yield session
        self._close_unused()

    def _read_new(self, name: str, session: OpenSession, max_s: float = math.inf) -> None:
        try:
            session.read_new(max_s)
        except HarkenError:
            self._forget(name, session)
            raise

    def _get(self, name: str) -> OpenSession:
        key = self._library.key_of(name)
        with self._lock:
            session = self._sessions.get(name)
            if session is None or session.source.key != key:
                session = OpenSession(self._library.open(name))
                self._sessions[name] = session
            self._sessions.move_to_end(name)
            return session

    def _read_again(self, name: str, before: OpenSession) -> OpenSession:
        """Return a new reading of a log, or the one before if the new one shows the same."""
        with self._lock:
            current = self._sessions.get(name)
            if current is None or current is before:
                current = self._sessions[name] = OpenSession(self._library.open(name))
        with current.lock:
            self._read_new(name, current)
            is_same = current.event_count > 0 and before.shows_the_same_as(current)
        if not is_same:
            return current
        with self._lock:
            before.take_over_retry(current)
            if self._sessions.get(name) is current:
                self._sessions[name] = before
        return before

    def _forget(self, name: str, session: OpenSession) -> None:
        """Close a session that cannot be read, so that the next request reads it again."""
        with self._lock:
            if self._sessions.get(name) is session:
                del self._sessions[name]

    def _close_unused(self) -> None:
        with self._lock:
            while len(self._sessions) > 1 and (
                len(self._sessions) > _MAX_SESSIONS
                or sum(session.event_count for session in self._sessions.values()) > _MAX_EVENTS
            ):
                self._sessions.popitem(last=False)
