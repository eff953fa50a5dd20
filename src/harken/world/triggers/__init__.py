"""Triggers: external events that wake agents: file changes, times, commands, HTTP."""
