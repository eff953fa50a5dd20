"""Sessions for the OpenAI Agents SDK over Harken's store.

    async with HarkenSession("support-7", "~/.harken") as session:
        await Runner.run(agent, "Hello", session=session)

A session is a session of Harken, too: `harken view openai-agents:support-7` shows it.

Source: docs/how-to/use-with-openai-agents.md; docs/design/020-adapters.md.
"""

from __future__ import annotations

try:
    import agents as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "harken.adapters.openai_agents needs the OpenAI Agents SDK: install it with "
        "`pip install harken[openai-agents]`"
    ) from error

from harken.adapters.openai_agents.session import HarkenSession

__all__ = ["HarkenSession"]
