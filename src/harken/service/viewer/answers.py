"""The answers to questions about a session, as JSON values.

The routes send them, and the page in one file has them in it: both call these functions, so
that both pages show the same. Nothing here needs the packages of the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.core import structs
from harken.core.events import event_dict
from harken.core.ids import MessageId
from harken.core.messages import ImagePart
from harken.errors import NameNotFound
from harken.service.viewer.library import SessionSummary
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.rows import MAX_ITEMS, agents_of, cut_value, find_message, take_rows
from harken.views.context import ContextMessage
from harken.views.conversation.differences import Work, compare_intervention
from harken.views.conversation.images import decode_image, read_shown_image
from harken.views.dialogs.dialog import find_primary_agents
from harken.views.flow import hearers, origins, spread
from harken.views.interventions import Intervention
from harken.views.verdicts import VerdictRow

_MAX_PART_CHARS = 500_000
"""The number of characters of each of the changes, the outcome and the tools of a model call."""
_MAX_SPAN_CHARS = 16_384
"""The number of characters of the changes that a hook made."""
MAX_READERS = 20
"""The maximum number of model calls that are listed as readers of a message."""


def describe_session(
    session: OpenSession, summary: SessionSummary, commands: Mapping[str, str]
) -> dict[str, Any]:
    """Return a session with its agents, and the commands that continue it."""
    return {
        "session": summary,
        "events": session.event_count,
        "is_complete": session.is_complete,
        "moves": len(session.tree_moves()),
        **agents_of(session.tree()),
        "primary": find_primary_agents(session.links),
        "damage": session.damage,
        "commands": commands,
    }


def find_item(session: OpenSession, message_id: str) -> dict[str, Any]:
    """Return the agent and the index of the item that shows a message. Raises NameNotFound."""
    agent, index = _find_place(session, find_message(session, message_id))
    if agent is None:
        raise NameNotFound("item", message_id, [])
    return {"agent": agent, "index": index}


def describe_message(session: OpenSession, message_id: str) -> dict[str, Any]:
    """Return a message with its origins, the agents that read it, and its effects.

    Raises NameNotFound.
    """
    links = session.links
    id_ = find_message(session, message_id)
    event = links.get(id_)
    assert event is not None  # find_message has found it.
    agent, index = _find_place(session, id_)
    hops = {
        "origins": origins(links, id_),
        "hearers": hearers(links, id_),
        "effects": spread(links, id_),
    }
    readers = session.steps().find_readers(id_, event.agent_id, MAX_READERS + 1)
    rows, work = session.hook_rows_about(id_), Work()
    return {
        "message": cut_value(event_dict(event)),
        "agent": agent,
        "index": index,
        **{kind: take_rows(kind_hops[:MAX_ITEMS]) for kind, kind_hops in hops.items()},
        "totals": {kind: len(kind_hops) for kind, kind_hops in hops.items()},
        "readers": {
            "agent": event.agent_id,
            "steps": readers[:MAX_READERS],
            "is_more": len(readers) > MAX_READERS,
        },
        "interventions": take_rows(
            compare_intervention(row, work, _MAX_SPAN_CHARS)
            for row in rows
            if isinstance(row, Intervention)
        ),
        "verdicts": take_rows(row for row in rows if isinstance(row, VerdictRow)),
    }


def describe_step(session: OpenSession, number: int) -> dict[str, Any]:
    """Return a model call without the messages that the model read. Raises NameNotFound."""
    calls = session.steps()
    if not 1 <= number <= len(calls):
        raise NameNotFound("model call", str(number), [f"1 to {len(calls)}"])
    row = calls.step(number)
    changes = calls.changes(number)
    is_intact = calls.is_intact(number)
    first_changes = structs.replace(changes, messages=changes.messages[:MAX_ITEMS])
    return {
        "step": cut_value(row.as_json()),
        "changes": cut_value(first_changes.as_json(), _MAX_PART_CHARS),
        "changes_total": len(changes.messages),
        "result": cut_value(calls.outcome(number).as_json(), _MAX_PART_CHARS),
        **cut_value({"tools": calls.tools(number)}, _MAX_PART_CHARS),
        "is_intact": is_intact,
        "is_verified": is_intact and row.evidence == "recorded",
    }


def count_context(session: OpenSession, number: int) -> int:
    """Return the number of messages that a model call read. Raises as `read_context`."""
    return len(session.steps().keys(number))


def read_context(
    session: OpenSession, number: int, start: int, stop: int
) -> Sequence[ContextMessage]:
    """Return a range of the messages that a model call read.

    Raises HarkenError if the log lacks some.
    """
    return session.steps().context(number, start, stop)


def find_shown_image(session: OpenSession, hash_: str) -> tuple[str, bytes] | None:
    """Return the media type and the data of an image. Return None for a type that is not shown.

    Raises NameNotFound.
    """
    part: ImagePart | None = session.find_image(hash_)
    if part is None or decode_image(part) is None:
        raise NameNotFound("image", hash_, [])
    return read_shown_image(part)


def _find_place(session: OpenSession, message_id: MessageId) -> tuple[str, int] | tuple[None, None]:
    return session.conversations.find_index(message_id) or (None, None)
