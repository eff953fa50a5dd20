"""Helpers for tests of interactions: a logger with a ticking clock, and short builders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
from harken.interactions.records import (
    LoggedMessage,
    MessageMetadata,
    MessageRole,
    ThreadEntry,
    ThreadEventType,
)
from harken.store.base import Store
from harken.testing import ticking

KIND = ThreadEventType
ROLE = MessageRole


def logger(folder: Path, store: Store | None = None, **config: Any) -> InteractionLogger:
    """Return a logger whose clock advances by a second, and which syncs nothing."""
    logging_config = InteractionLoggingConfig(**config)
    return InteractionLogger(
        logging_config, folder=folder, store=store, clock=ticking(), durability="none"
    )


def message_record(role: MessageRole, content: str, **metadata: Any) -> LoggedMessage:
    """Return a message record without its id."""
    about = MessageMetadata(**metadata) if metadata else None
    return LoggedMessage(role=role, content=content, metadata=about)


def row(
    kind: ThreadEventType, id: str | None = None, position: int | None = None, **members: Any
) -> Any:
    """Return a row."""
    return ThreadEntry(event_type=kind, message_id=id, position_in_context=position, **members)


def brief(log: InteractionLogger, thread: str) -> list[tuple[str, str | None, int | None]]:
    """Return the rows of a thread: type, content, position."""
    brief_rows = []
    for thread_row in log.get_thread(thread):
        message = None if thread_row.message_id is None else log.get_message(thread_row.message_id)
        content = None if message is None else message.content
        brief_rows.append((thread_row.event_type.value, content, thread_row.position_in_context))
    return brief_rows


SYSTEM = {"role": "system", "content": "You are Jack."}
HI = {"role": "user", "content": "Hi"}
LOOK = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    ],
}
DOOR = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
