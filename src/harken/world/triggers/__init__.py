"""Triggers: what happens outside and wakes agents: files, times, commands, HTTP."""
