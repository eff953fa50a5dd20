"""The contents of the page in one file: the answers of all routes for one session, packed.

Each answer comes from the function that the route calls. Lists are whole: the page picks ranges. A
model call has the messages that it read as ranges of messages that are stored once.

The texts of an event follow each other in the file, whichever answers they are of, because the
compression finds repetitions only near each other.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import msgspec

from harken.core.events import Event, LlmRequest, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import ToolCall
from harken.errors import HarkenError, NameNotFound
from harken.service.viewer import answers
from harken.service.viewer.item_lists import AgentItems, DialogItems, find_text
from harken.service.viewer.library import SessionSummary
from harken.service.viewer.open_sessions import DialogList, OpenSession
from harken.service.viewer.rows import to_json
from harken.service.viewer.shared.contexts import ContextPacker
from harken.service.viewer.shared.dialogs import read_dialogs
from harken.service.viewer.shared.packing import Packed, Packer, pack_list
from harken.store.remote.errors import encode_error
from harken.views.conversation.images import hash_image, iter_images
from harken.views.message_text import iter_parts
from harken.views.tree import TreeRow

MAX_DIALOGS = 400
_MAX_DIALOG_EVENTS = 8_000_000
"""The number of events that all dialogs may read: each reads the whole session."""
MAX_GROUP = 6
"""The number of agents of the dialog that the page offers first."""
_CALL_VERSIONS = ("written", "heard", "result", "diff", "other")
_TEXT_VERSIONS = ("written", "heard")

Progress: TypeAlias = Callable[[int, int], None]


class PageContents(msgspec.Struct, frozen=True):
    """The packed answers for a session, and the counts of its parts."""

    packed: dict[str, Any]
    agents: int
    messages: int
    model_calls: int
    images: int
    dialogs: int
    left_out_dialogs: int


def collect_contents(
    session: OpenSession,
    summary: SessionSummary,
    about: Mapping[str, Any],
    on_progress: Progress = lambda _done, _total: None,
) -> PageContents:
    """Return all answers for a session. `about`: facts about the file, for its page."""
    return _Collector(session, summary, about, on_progress).collect()


class _Collector:
    """Computes the answers for a session and packs them."""

    def __init__(
        self,
        session: OpenSession,
        summary: SessionSummary,
        about: Mapping[str, Any],
        on_progress: Progress,
    ) -> None:
        self._session, self._summary, self._about = session, summary, about
        self._on_progress = on_progress
        self._packer = Packer()
        self._contexts = ContextPacker(session, self._packer)
        self._implied_texts: dict[str, dict[str, str]] = {}

    def collect(self) -> PageContents:
        session, pack = self._session, self._packer.pack
        tree = session.tree()
        members: dict[str, Packed] = self._pack_events()
        members["items"] = pack_list([*map(self._pack_items, list_conversations(session))])
        members["implied"] = pack(
            [{"id": id_, "texts": texts} for id_, texts in self._implied_texts.items()]
        )
        groups = choose_dialogs(session, tree)
        dialogs = groups[: _count_affordable(session, groups)]
        dialog_lists = read_dialogs(session.links, dialogs)
        members["dialogs"] = pack_list([*map(self._pack_dialog, dialog_lists)])
        members["hooks"] = pack_list([pack(to_json(row)) for row in session.hook_rows()])
        members["lanes"] = pack([to_json(lane) for lane in session.timeline().lanes()])
        agents = [row.agent_id for row in tree if session.steps().numbers_for(row.agent_id)]
        members["agent_steps"] = pack(
            [{"agent": agent, "steps": [*session.steps().numbers_for(agent)]} for agent in agents]
        )
        images = [*self._iter_images()]
        members["images"] = pack(images)
        about = {**self._about, "left_out_dialogs": len(groups) - len(dialogs)}
        members["about"] = pack(about)
        members["session"] = pack(
            msgspec.to_builtins(answers.describe_session(session, self._summary, {}))
        )
        return PageContents(
            packed=self._packer.as_json(self._packer.pack_members(members)),
            agents=len(tree),
            messages=sum(isinstance(event, TranscriptEntry) for event in session.links),
            model_calls=len(session.steps()),
            images=len(images),
            dialogs=len({frozenset(agents) for agents in dialogs}),
            left_out_dialogs=len({frozenset(agents) for agents in groups[len(dialogs) :]}),
        )

    def _pack_events(self) -> dict[str, Packed]:
        """Pack the answers for each event together: details, texts, its timeline row, its call."""
        session, pack = self._session, self._packer.pack
        events = session.links.events
        marks = session.timeline().marks(0, len(session.timeline()))
        timeline: list[Packed] = []
        messages: list[Packed] = []
        steps: list[Packed] = []
        numbers = {
            request.message_id: number for number, request in enumerate(session.steps().requests, 1)
        }
        for position, (event, mark) in enumerate(zip(events, marks, strict=True)):
            self._on_progress(position, len(events))
            messages.append(pack(self._describe_event(event)))
            timeline.append(pack(to_json(mark)))
            if isinstance(event, LlmRequest):
                steps.append(self._pack_step(numbers[event.message_id]))
        return {
            "messages": pack_list(messages),
            "timeline": pack_list(timeline),
            "steps": pack_list(steps),
        }

    def _describe_event(self, event: Event) -> dict[str, Any]:
        session, id_ = self._session, event.message_id
        try:
            place = answers.find_item(session, id_)
        except NameNotFound:
            place = None
        details = answers.describe_message(session, id_)
        parts = iter_parts(event) if isinstance(event, TranscriptEntry) else ()
        kinds = {number: isinstance(part, ToolCall) for number, part in enumerate(parts)}
        texts = self._read_texts(id_, kinds)
        return {"id": id_, "details": details, "place": place, "texts": texts}

    def _read_texts(self, message_id: str, parts: Mapping[int, bool]) -> dict[str, str]:
        """Return the texts of a message by part and version.

        `parts`: the positions of its parts, and whether each is a call.
        """
        keys: list[tuple[str, int | None, str]] = [
            (f":{version}", None, version) for version in _TEXT_VERSIONS
        ]
        for position, is_call in parts.items():
            versions = _CALL_VERSIONS if is_call else ("written",)
            keys += [(f"{position}:{version}", position, version) for version in versions]
        return {
            key: text
            for key, part, version in keys
            if (text := find_text(self._session, message_id, part=part, version=version))
            is not None
        }

    def _pack_step(self, number: int) -> Packed:
        """Pack a model call: its row in the list, and its details with the messages it read."""
        session = self._session
        row = self._packer.pack(to_json(session.steps().step(number)))
        try:
            details = self._packer.pack(answers.describe_step(session, number))
            messages, new = self._contexts.pack(number)
        except HarkenError as error:
            problem = self._packer.pack(msgspec.to_builtins(encode_error(error)))
            return self._packer.pack_members({"row": row, "error": problem})
        members = {"row": row, "details": details, "messages": messages, "new": new}
        return self._packer.pack_members(members)

    def _pack_items(self, agent: AgentId) -> Packed:
        items = AgentItems(self._session, agent)
        rows = [msgspec.to_builtins(items.read(index)[0]) for index in range(items.count())]
        for row in rows:
            self._add_texts(row)
        return self._packer.pack_members(
            {"agent": self._packer.pack(agent), "items": pack_list([*map(self._packer.pack, rows)])}
        )

    def _add_texts(self, item: Mapping[str, Any]) -> None:
        """Add the texts of an item of a message that the log implies, such as a question."""
        id_ = item["message_id"]
        if id_ in self._session.links.positions:
            return
        parts = {
            part["position"]: part["kind"] == "call"
            for part in item["parts"]
            if part.get("position") is not None
        }
        self._implied_texts.setdefault(id_, {}).update(self._read_texts(id_, parts))

    def _pack_dialog(self, dialog_list: DialogList) -> Packed:
        dialog, names = DialogItems(dialog_list), ",".join(dialog_list.agents)
        items: list[Packed] = []
        texts: list[Packed] = []
        for index in range(dialog.count()):
            row = msgspec.to_builtins(dialog.read(index)[0])
            items.append(self._packer.pack(row))
            versions = [part["version"] for part in row["parts"]]
            texts.append(
                self._packer.pack(
                    {
                        version: text
                        for version in versions
                        if (text := dialog.find_text(row["message_id"], version)) is not None
                    }
                )
            )
        return self._packer.pack_members(
            {
                "agents": self._packer.pack(names),
                "items": pack_list(items),
                "texts": pack_list(texts),
            }
        )

    def _iter_images(self) -> Iterator[dict[str, Any]]:
        """Yield the images that can be shown, each once."""
        hashes = {
            hash_: None
            for event in self._session.links
            for part in iter_images(event)
            if (hash_ := hash_image(part)) is not None
        }
        for hash_ in hashes:
            try:
                image = answers.find_shown_image(self._session, hash_)
            except NameNotFound:
                continue  # Its data is no base64.
            if image is not None:
                media_type, data = image
                yield {"hash": hash_, "media_type": media_type, "data": b64encode(data).decode()}


def list_conversations(session: OpenSession) -> list[AgentId]:
    """Return all agents, also those that the tree does not have, such as of a damaged log."""
    rows = [row.agent_id for row in session.tree()]
    return [*dict.fromkeys([*rows, *map(AgentId, session.links.names.latest_names)])]


def choose_dialogs(session: OpenSession, tree: Sequence[TreeRow]) -> list[list[AgentId]]:
    """Return the groups of agents with a dialog in the file, the most wanted first.

    These are all agents without and with hooks, the first of them as the page offers them, and each
    pair that sent something to each other, in both orders: the first agent's version is shown.
    """
    agents = [row.agent_id for row in tree]
    others = [row.agent_id for row in tree if row.place != "hook"]
    groups = [others, others[:MAX_GROUP], agents]
    for pair in _find_pairs(session, agents):
        groups += map(list, permutations(pair))
    unique = dict.fromkeys(tuple(group) for group in groups if len(group) > 1)
    return [[*group] for group in unique]


def _find_pairs(session: OpenSession, agents: Iterable[AgentId]) -> list[tuple[AgentId, AgentId]]:
    """Return the pairs of agents of which one received something from the other, busiest first."""
    rank = {agent: number for number, agent in enumerate(agents)}
    counts: Counter[tuple[AgentId, AgentId]] = Counter()
    for event in session.links:
        for link in session.links.links_from(event):
            source = session.links.get(link.target)
            ends = {event.agent_id, None if source is None else source.agent_id}
            pair = sorted(
                (end for end in ends if end in rank and end is not None), key=rank.__getitem__
            )
            if len(pair) == 2:
                counts[pair[0], pair[1]] += 1
    return sorted(counts, key=lambda pair: (-counts[pair], rank[pair[0]], rank[pair[1]]))


def _count_affordable(session: OpenSession, groups: Sequence[object]) -> int:
    """Return how many of the groups get a dialog. A pair has two, one after the other."""
    count = min(len(groups), MAX_DIALOGS, _MAX_DIALOG_EVENTS // max(1, session.event_count))
    return max(count, min(len(groups), 3))
