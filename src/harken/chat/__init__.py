"""A chat with agents: settings, world, screen and slash commands."""
