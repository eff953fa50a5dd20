"""Conversations of pydantic-ai as sessions of the command line."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai_harness.step_persistence import StepPersistence

from harken.adapters.pydantic_ai import HarkenHistory, HarkenStepStore
from tests.cli.kit import Cli
from tests.unit.adapters.pydantic_kit import make_agent, say


@pytest.fixture
def sessions(cli: Cli) -> Cli:
    """A home with a conversation, a fork of it, and two runs whose steps are kept."""

    async def talk() -> None:
        async with HarkenHistory("support/7", cli.home) as history:
            await say(history, "say zanzibar")
            fork = await history.fork("fork")
            await say(history, "the weather please")
            await say(fork, "another way")
        async with HarkenStepStore(cli.home) as steps:
            agent = make_agent(capabilities=[StepPersistence(store=steps)])
            result = await agent.run("the weather in Rome", conversation_id="trip")
            history_ = result.all_messages()
            await agent.run("thanks", message_history=history_, conversation_id="trip")

    asyncio.run(talk())
    return cli


def test_conversations_are_listed_viewed_and_searched(sessions: Cli) -> None:
    rows = {row["session"]: row for row in sessions.ok("sessions", "--json").json}
    names = {"pydantic-ai:support/7", "pydantic-ai:fork", "pydantic-ai:trip"}
    assert rows.keys() == names
    assert rows["pydantic-ai:fork"]["title"] == "say zanzibar"
    assert rows["pydantic-ai:trip"]["title"] == "the weather in Rome"
    text = sessions.ok("view", "pydantic-ai:support/7").out
    for part in ("say zanzibar", "echo say zanzibar", "weather(Rome)", "sunny in Rome"):
        assert part in text
    assert "another way" not in text
    steps = sessions.ok("view", "pydantic-ai:trip").out
    assert steps.count("the weather in Rome") == 1
    assert "echo thanks" in steps
    assert "pydantic-ai:support/" in sessions.ok("search", "zanzibar").out
    assert "weather" in sessions.ok("stats").out
    ctx = rows["pydantic-ai:trip"]["tips"][0]["ctx"]
    for format_ in ("pydantic-messages-v1", "messages-v1", "openai-items-v1", "adk-events-v1"):
        made = sessions.ok("ctx", "materialize", ctx, "--format", format_, "--json").json
        assert made["message_count"] == 6, made
