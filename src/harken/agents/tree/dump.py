"""`dump` and `restore` at work: an agent goes to another world, in one file.

Who is restored has no power from the file: no tool that the restoring agent has not, no model
that this session does not ask already; and is watched, whoever it is, by copies of what watches
the restoring agent. All is made before anybody is born, so what is wrong with a dump leaves
nothing behind.

The file of a dump: an agent with all that stands above and below it, as bytes and back.

A dump comes from anywhere: what is read is bounded and checked as a whole, and what is wrong with
it is said on one line.

Source: docs/formats/agent-dump.md.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import check_name, get_subagents, log_text_piece, set_interlocutors
from harken.agents.tree.agent_snapshot import AgentSnapshot, with_everybody
from harken.agents.tree.restore import AgentRestorer
from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.core.events import Reference
from harken.core.ids import reference_message_id
from harken.session.session import Session
from harken.world.files.regular_file import WHOLE, create, load, replace
from harken.world.files.root import Root, size_text
from harken.world.permissions.subjects import PathSubject
from harken.world.result import InvalidArguments, ToolError, ToolResult
from harken.world.tool import ToolContext

FORMAT, VERSION = "harken-agent-dump", 1


DUMP = b"harken.dump.v1\n"
"""The domain line of a dump's sum."""


BEGINNING = b'{"format":"harken-agent-dump",'
"""How a file begins that is one: another one is never replaced."""


MAX_AGENTS = 1000


MAX_LEVELS = 100


def encoded(plan: AgentSnapshot, session: Session) -> bytes:
    """Return a dump, made in this session now, as the bytes of a file. Raises ValueError."""
    check_bounds(plan)
    agent = msgspec.to_builtins(plan)
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "sum": sum_of(agent),
        "session": session.state.session_id,
        "time": format_rfc3339(session.options.clock()),
        "agent": agent,
    }
    return canonical.to_json_line(whole) + b"\n"


def sum_of(agent: Mapping[str, Any]) -> str:
    """Return the checksum of the `agent` in a dump: 64 hex digits of BLAKE3."""
    return canonical.hash_bytes(DUMP, canonical.to_canonical_bytes(agent)).hex()


def decoded(data: bytes) -> AgentSnapshot:
    """Return the agent in the bytes of a dump. Raises ValueError, on one line, for what is none."""
    try:
        head = canonical.from_json(data)
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError("this is no dump of an agent")
    if head.get("version") != VERSION:
        version = str(head.get("version"))[:20]
        raise ValueError(f"this dump has version {version!r}; this Harken reads {VERSION} only")
    agent = head.get("agent")
    try:
        if not isinstance(agent, dict) or head.get("sum") != sum_of(agent):
            raise ValueError("this dump is damaged: its sum is not that of its agent")
        plan: AgentSnapshot = msgspec.convert(agent, AgentSnapshot)
    except (msgspec.ValidationError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"this dump cannot be read: {said}") from None
    check_bounds(plan)
    return plan


def check_bounds(plan: AgentSnapshot) -> None:
    """Raise ValueError for more agents than a dump may have, or two of one name in one place."""
    row, levels, count = [plan], 0, 0
    while row:
        levels, count = levels + 1, count + len(row)
        if levels > MAX_LEVELS or count > MAX_AGENTS:
            most = f"{MAX_AGENTS} agents, and {MAX_LEVELS} levels of them"
            raise ValueError(f"a dump has at most {most}")
        for one in row:
            for there in (one.hooks, one.subagents):
                names = {each.name for each in there}
                if len(names) < len(there):
                    raise ValueError(f"two that stand at {one.name[:80]!r} have one name")
        row = [each for one in row for each in (*one.hooks, *one.subagents)]


async def run_dump(agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Write an agent to a file, with all that stands above and below it. Raises ToolError."""
    name = arguments["name"]
    one: Agent = agent if name is None else get_subagents(agent, [name])[0]
    if not one.can_restore:
        raise InvalidArguments(f"{one.name} is what its file would say: it cannot be dumped")
    root, path = await _place(agent, call, "dump", arguments["path"])
    is_users = reference_message_id(call) not in agent.session.state.cause_owners
    plan = with_everybody(one, call, is_users=is_users)
    try:
        data = encoded(plan, agent.session)
    except ValueError as error:
        raise ToolError(str(error)) from None
    if len(data) > WHOLE:
        size, most = size_text(len(data)), size_text(WHOLE)
        raise ToolError(f"the dump would have {size}, and {most} is the most: compact it before")
    async with agent.runtime.world.exclusive():
        agent.session.sync()
        _write(root, path, data)
    count = sum(1 for _ in plan.everybody())
    agents = "1 agent" if count == 1 else f"{count} agents"
    return ToolResult(f"Dumped {one.name} to {root.shown(path)}: {agents}, {size_text(len(data))}")


async def run_restore(
    agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]
) -> ToolResult:
    """Make a subagent of the agent in a dump. Raises ToolError, BudgetExceeded: nobody is born."""
    root, path = await _place(agent, call, "restore", arguments["path"])
    try:
        plan = decoded(load(root, path).data)
    except ValueError as error:
        raise ToolError(f"{root.shown(path)}: {error}") from None
    name = arguments["name"] or plan.name
    check_name(agent, name)
    restoring = AgentRestorer(agent, call)
    child = restoring.restore(plan, name)
    agent.inform(child, log_text_piece(agent, call, restoring.told(plan, name)))
    set_interlocutors(agent, call, [child.agent_id], [])
    return ToolResult(f"Restored {name} from {root.shown(path)}: it is your subagent")


async def _place(agent: ToolAgent, call: Reference, action: str, given: str) -> tuple[Root, Path]:
    """Return the file that is meant, where the agent may dump to it, or restore from it.

    Raises ToolError. The user, whose command it may be, needs nobody's leave.
    """
    world = agent.runtime.world
    if world.folder is None:
        raise ToolError("this world has no folder for files")
    root = Root(world.folder)
    path = root.resolve(given)
    reason = PathSubject(str(path), root.folder).sensitivity() if action == "dump" else ""
    if reason:
        raise ToolError(
            f"{root.shown(path)} decides which programs run later ({reason}): dump to another place"
        )
    is_of_agent = reference_message_id(call) in agent.session.state.cause_owners
    if world.permissions is not None and is_of_agent:
        user = None if world.user is None else LoggedUser(world.user, agent, call)
        tool = dataclasses.replace(ACTIONS[action], reads_only=action == "restore")
        caller = ToolContext(agent, call, user)
        await world.permissions.check(tool, {"path": given}, caller, world.folder)
    return root, path


def _write(root: Root, path: Path, data: bytes) -> None:
    """Write a dump all at once; what is there is replaced where it is one. Raises ToolError."""
    if not os.path.lexists(path):
        create(root, path, data)
        return
    before = load(root, path)
    if not before.data.startswith(BEGINNING):
        raise ToolError(f"{root.shown(path)} is there already and is no dump: choose another name")
    replace(root, path, data, before.hash)
