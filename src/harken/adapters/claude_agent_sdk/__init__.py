"""A session store of the Claude Agent SDK over Harken's store.

    store = HarkenSessionStore("~/.harken")
    options = ClaudeAgentOptions(session_store=store)

A session is a session of Harken, too: `harken view claude-agent-sdk:PROJECT/SESSION` shows it.

Source: docs/how-to/use-with-claude-agent-sdk.md; docs/design/020-adapters.md.
"""

from __future__ import annotations

try:
    import claude_agent_sdk as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "harken.adapters.claude_agent_sdk needs the Claude Agent SDK: install it with "
        "`pip install harken[claude-agent-sdk]`"
    ) from error

from harken.adapters.claude_agent_sdk.session_store import HarkenSessionStore

__all__ = ["HarkenSessionStore"]
