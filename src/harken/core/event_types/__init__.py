"""The base of all events, and groups of event types that `core.events` exports."""
