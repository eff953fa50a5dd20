"""Waiting for the user: hooks hear of it when nothing was said for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harken.chat.open_chat import OpenChat
from harken.chat.running.turns import TurnResult, Turns
from harken.config.settings import Settings
from tests.agent_kit import run
from tests.unit.agents.command_hooks.command_kit import commanded, keeper, on, told


def test_who_is_waited_for_is_called_once_after_a_turn(tmp_path: Path) -> None:
    section = on("Notification", keeper(tmp_path), "idle_prompt")
    one = commanded(tmp_path, section, main=["One.", "Two."])
    ends: list[TurnResult] = []

    async def act() -> None:
        opened = OpenChat(one.root, one.session, one.runtime, Settings())
        turns = Turns(opened, ends.append, lambda _: None)
        turns.idle.after_s = 0.1
        turns.start("a")
        while not told(tmp_path):
            await asyncio.sleep(0.01)
        turns.idle.after_s = 60
        turns.start("b")
        while len(ends) < 2:
            await asyncio.sleep(0.01)
        await turns.close()

    run(act())
    [waiting] = told(tmp_path)
    assert waiting["notification_type"] == "idle_prompt"
