"""Import all modules of slash commands, which adds them to `commands.COMMANDS`."""

from harken.chat.commands import agents, forks, mcp, model, tree, views

MODULES = (
    views,
    agents,
    mcp,
    tree,
    forks,
    model,
)
"""The modules that register commands when they are imported."""
