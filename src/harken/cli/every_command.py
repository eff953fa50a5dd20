"""All slash commands: whoever imports this has them in `commands.COMMANDS`."""

from harken.cli import agents_in_chat, looking, replay_in_chat, structure_commands

MODULES = (looking, agents_in_chat, structure_commands, replay_in_chat)
"""Which enter the commands when they are imported."""
