"""All slash commands: whoever imports this has them in `commands.COMMANDS`."""

from harken.chat.commands import agents, forks, mcp, model, tree, views

MODULES = (
    views,
    agents,
    mcp,
    tree,
    forks,
    model,
)
"""Which enter the commands when they are imported."""
