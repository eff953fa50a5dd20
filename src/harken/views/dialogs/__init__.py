"""Dialogs and perspectives: the messages that agents exchanged, and the items of one agent."""
