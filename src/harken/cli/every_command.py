"""All slash commands: whoever imports this has them in `commands.COMMANDS`."""

from harken.cli import (
    agents_in_chat,
    chat_commands,
    forks_in_chat,
    looking,
    mcp_in_chat,
    structure_commands,
)

MODULES = (
    looking,
    agents_in_chat,
    mcp_in_chat,
    structure_commands,
    forks_in_chat,
    chat_commands,
)
"""Which enter the commands when they are imported."""
