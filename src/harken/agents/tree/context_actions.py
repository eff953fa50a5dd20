"""`compact` and `export`: actions of an agent on its own conversation.

`compact` is only requested here. The turn of the agent does it when all results of the message are
in the log; see `turn.requested_compaction`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from harken.agents.agent import Agent
from harken.agents.texts import COMPACT_RESULT, EXPORT_RESULT, MESSAGE_COUNT, ONE_MESSAGE
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import get_subagents
from harken.agents.tree.dump import resolve_path
from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.render import RenderedConversation, render
from harken.core.events import Reference
from harken.core.messages import ChatMessage
from harken.errors import HarkenError
from harken.formats.registry import FORMATS
from harken.store.memory import MemoryStore
from harken.world.files.regular_file import MAX_FILE_BYTES, create
from harken.world.files.root import size_text
from harken.world.result import InvalidArguments, ToolError


async def run_compact(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[None]:
    """Accept the request of an agent to compact its context. Raises InvalidArguments."""
    if not isinstance(agent, ToolAgent):
        raise InvalidArguments(f"{agent.name} is a dumb agent and has no context to compact")
    return ActionResult(COMPACT_RESULT)


async def run_export(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Path]:
    """Write the conversation of an agent to a new file. Raises ToolError."""
    name = arguments["name"]
    target: Agent = agent if name is None else get_subagents(agent, [name])[0]
    root, path = await resolve_path(agent, call, "export", arguments["path"])
    if os.path.lexists(path):
        raise ToolError(f"{root.format_name(path)} exists; choose another name")
    rendered = _render_conversation(target, arguments["format"])
    data = rendered.read()
    if len(data) > MAX_FILE_BYTES:
        size, limit = size_text(len(data)), size_text(MAX_FILE_BYTES)
        raise ToolError(f"the file would have {size}, and {limit} is the most: compact it before")
    async with agent.runtime.world.exclusive():
        agent.session.sync()
        create(root, path, data)
    number = rendered.message_count
    count = ONE_MESSAGE if number == 1 else MESSAGE_COUNT.format(number)
    file, size = root.format_name(path), size_text(len(data))
    text = EXPORT_RESULT.format(target.name, file, count, rendered.format, size)
    return ActionResult(text, value=path)


def _render_conversation(agent: Agent, format_name: str) -> RenderedConversation:
    """Return the context of an agent in a format. Raises InvalidArguments, ToolError.

    The message with the calls that run now is left out: it has no results yet.
    """
    try:
        format_name = FORMATS.find(format_name).name
    except HarkenError as error:
        raise InvalidArguments(str(error)) from None
    messages = _complete_messages(agent)
    if all(message.role == "system" for message in messages):
        raise ToolError(f"{agent.name} has no messages yet")
    store = MemoryStore(agent.session.options.clock)
    return render(store, checkpoint(store, CommitDraft(messages=messages)), format_name)


def _complete_messages(agent: Agent) -> Sequence[ChatMessage]:
    """Return the context of an agent up to its first call without a result."""
    open_calls = agent.state.open_calls
    return list(
        takewhile(
            lambda message: not any(call.id in open_calls for call in message.tool_calls or ()),
            agent.session.context(agent.agent_id),
        )
    )
