"""`RolloutState`: the state of the reader of Codex rollouts at a read point."""

from __future__ import annotations

import msgspec

from harken.formats.runtimes.codex.turn_settings import TurnSettings


class RolloutState(msgspec.Struct, array_like=True):
    """The state of reading a rollout between two steps."""

    first: bytes
    """Empty if it is not needed."""
    instructions: tuple[str, str | None] | None
    agent: str
    parent: str | None
    turns: list[str | None]
    has_all_turns: bool
    prompts: list[str]
    total: bytes
    """As JSON, because its numbers may be of any size."""
    usage: dict[str, int]
    turn: TurnSettings
