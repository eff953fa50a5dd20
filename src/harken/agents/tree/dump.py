"""`dump` and `restore`: write an agent to a file, and create an agent from it.

A restored agent gets no power from the file: no tool that the restoring agent lacks and no model
that this session does not use already. It is watched by copies of the hooks of the restoring agent.
All agents are created before any birth is logged, so an invalid dump leaves nothing behind.

A dump file contains an agent with all agents above and below it. It may come from anywhere: its
size is limited, it is checked completely, and an error is reported on a single line.

Source: docs/formats/agent-dump.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.call_result import answer_call
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import check_name, get_subagents, log_text_piece, set_interlocutors
from harken.agents.tree.agent_snapshot import AgentSnapshot, snapshot_subtree
from harken.agents.tree.restore import AgentRestorer
from harken.core import canonical, structs
from harken.core.clock import format_rfc3339
from harken.core.events import Reference
from harken.core.ids import reference_message_id
from harken.session.session import Session
from harken.world.files.regular_file import MAX_FILE_BYTES, create, load, replace
from harken.world.files.root import Root, size_text
from harken.world.permissions.subjects import PathSubject
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import ToolContext

FORMAT, VERSION = "harken-agent-dump", 1
DUMP = b"harken.dump.v1\n"
"""The domain line of a dump's checksum."""
BEGINNING = b'{"format":"harken-agent-dump",'
"""The first bytes of every dump file. A file without them is never replaced."""
MAX_AGENTS = 1000
MAX_LEVELS = 100


def encode_dump(plan: AgentSnapshot, session: Session) -> bytes:
    """Encode an agent as a dump of this session, made now. Raises ValueError."""
    check_bounds(plan)
    agent = msgspec.to_builtins(plan)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "sum": dump_checksum(agent),
        "session": session.state.session_id,
        "time": format_rfc3339(session.options.clock()),
        "agent": agent,
    }
    return canonical.to_json_line(document) + b"\n"


def dump_checksum(agent: Mapping[str, Any]) -> str:
    """Return the checksum of the `agent` in a dump: 64 hex digits of BLAKE3."""
    return canonical.hash_bytes(DUMP, canonical.to_canonical_bytes(agent)).hex()


def decode_dump(data: bytes) -> AgentSnapshot:
    """Decode the agent in a dump. Raises ValueError, with a single line, for an invalid dump."""
    try:
        head = canonical.from_json(data)
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError("not a dump of an agent")
    if head.get("version") != VERSION:
        version = str(head.get("version"))[:20]
        raise ValueError(f"this dump has version {version!r}; this Harken reads {VERSION} only")
    agent = head.get("agent")
    try:
        if not isinstance(agent, dict) or head.get("sum") != dump_checksum(agent):
            raise ValueError("this dump is damaged: checksum mismatch")
        plan: AgentSnapshot = msgspec.convert(agent, AgentSnapshot)
    except (msgspec.ValidationError, RecursionError) as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"this dump cannot be read: {message}") from None
    check_bounds(plan)
    return plan


def check_bounds(plan: AgentSnapshot) -> None:
    """Raise ValueError for too many agents in a dump, or siblings with the same name."""
    level, levels, count = [plan], 0, 0
    while level:
        levels, count = levels + 1, count + len(level)
        if levels > MAX_LEVELS or count > MAX_AGENTS:
            limits = f"{MAX_AGENTS} agents, and {MAX_LEVELS} levels of them"
            raise ValueError(f"a dump has at most {limits}")
        for parent in level:
            for siblings in (parent.hooks, parent.subagents):
                names = {agent.name for agent in siblings}
                if len(names) < len(siblings):
                    raise ValueError(f"two agents below {parent.name[:80]!r} have the same name")
        level = [agent for parent in level for agent in (*parent.hooks, *parent.subagents)]


async def run_dump(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Path]:
    """Write an agent to a file, with all agents above and below it. Raises ToolError."""
    name = arguments["name"]
    target: Agent = agent if name is None else get_subagents(agent, [name])[0]
    if not target._can_restore:
        raise InvalidArguments(
            f"{target.name} cannot be dumped: agents of its class cannot be restored from a file"
        )
    root, path = await resolve_path(agent, call, "dump", arguments["path"])
    is_users = reference_message_id(call) not in agent.session.state.cause_owners
    plan = snapshot_subtree(target, call, is_users=is_users)
    try:
        data = encode_dump(plan, agent.session)
    except ValueError as error:
        raise ToolError(str(error)) from None
    if len(data) > MAX_FILE_BYTES:
        size, limit = size_text(len(data)), size_text(MAX_FILE_BYTES)
        raise ToolError(f"the dump would have {size}, and {limit} is the most: compact it before")
    async with agent.runtime.world.exclusive():
        agent.session.sync()
        _write(root, path, data)
    count = sum(1 for _ in plan.iter_snapshots())
    agents = texts.ONE_AGENT if count == 1 else texts.AGENT_COUNT.format(count)
    size = size_text(len(data))
    text = texts.DUMP_RESULT.format(target.name, root.format_name(path), agents, size)
    return ActionResult(text, value=path)


async def run_restore(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Create a subagent from a dump. Raises ToolError, BudgetExceeded before any birth."""
    root, path = await resolve_path(agent, call, "restore", arguments["path"])
    try:
        plan = decode_dump(load(root, path).data)
    except ValueError as error:
        raise ToolError(f"{root.format_name(path)}: {error}") from None
    name = arguments["name"] or plan.name
    check_name(agent, name)
    restorer = AgentRestorer(agent, call)
    text = texts.RESTORE_RESULT.format(name, root.format_name(path))
    plan_here = restorer.create(plan, name)
    with agent.session.group():
        child = restorer.log_births(plan_here, name)
        notice = restorer.format_restored_notice(plan, name)
        agent.inform(child, log_text_piece(agent, call, notice))
        set_interlocutors(agent, call, [child.agent_id], [])
        return answer_call(agent, call, ActionResult(text, value=child))


async def resolve_path(
    agent: Agent, call: Reference, action: str, path_text: str
) -> tuple[Root, Path]:
    """Resolve a path that the agent may write with this action, or read with `restore`.

    Raises ToolError. A user's command needs no approval.
    """
    world = agent.runtime.world
    if world.folder is None:
        raise ToolError("this world has no folder for files")
    root = Root(world.folder)
    path = root.resolve(path_text)
    reason = PathSubject(str(path), root.folder).sensitivity() if action != "restore" else ""
    if reason:
        raise ToolError(
            f"{root.format_name(path)} decides which programs run later ({reason}): "
            f"{action} to another place"
        )
    is_of_agent = reference_message_id(call) in agent.session.state.cause_owners
    if world.permissions is not None and is_of_agent:
        user = None if world.user is None else LoggedUser(world.user, agent, call)
        tool = structs.replace(ACTIONS[action], reads_only=action == "restore")
        caller = ToolContext(agent, call, user)
        await world.permissions.check(tool, {"path": path_text}, caller, world.folder)
    return root, path


def _write(root: Root, path: Path, data: bytes) -> None:
    """Write a dump atomically, replacing only an existing dump. Raises ToolError."""
    if not os.path.lexists(path):
        create(root, path, data)
        return
    before = load(root, path)
    if not before.data.startswith(BEGINNING):
        raise ToolError(f"{root.format_name(path)} exists and is not a dump; choose another name")
    replace(root, path, data, before.hash)
