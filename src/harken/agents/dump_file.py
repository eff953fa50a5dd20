"""The file of a dump: an agent with all that stands above and below it, as bytes and back.

A dump comes from anywhere: what is read is bounded and checked as a whole, and what is wrong with
it is said on one line.

Source: docs/formats/agent-dump.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harken.agents.blueprint import Blueprint
from harken.core import codec
from harken.core.clock import rfc3339
from harken.session.session import Session

FORMAT, VERSION = "harken-agent-dump", 1
DUMP = b"harken.dump.v1\n"
"""The domain line of a dump's sum."""
BEGINNING = b'{"format":"harken-agent-dump",'
"""How a file begins that is one: another one is never replaced."""
MAX_AGENTS = 1000
MAX_LEVELS = 100


def encoded(plan: Blueprint, session: Session) -> bytes:
    """Return a dump, made in this session now, as the bytes of a file. Raises ValueError."""
    check_bounds(plan)
    agent = msgspec.to_builtins(plan)
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "sum": sum_of(agent),
        "session": session.state.session_id,
        "time": rfc3339(session.options.clock()),
        "agent": agent,
    }
    return codec.encode(whole) + b"\n"


def sum_of(agent: Mapping[str, Any]) -> str:
    """Return the checksum of the `agent` in a dump: 64 hex digits of BLAKE3."""
    return codec.digest(DUMP, codec.canonical(agent)).hex()


def decoded(data: bytes) -> Blueprint:
    """Return the agent in the bytes of a dump. Raises ValueError, on one line, for what is none."""
    try:
        head = codec.decode(data)
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
        plan: Blueprint = msgspec.convert(agent, Blueprint)
    except (msgspec.ValidationError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"this dump cannot be read: {said}") from None
    check_bounds(plan)
    return plan


def check_bounds(plan: Blueprint) -> None:
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
