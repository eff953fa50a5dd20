"""The sources of a session that was recorded and imported."""

from __future__ import annotations

from pathlib import Path

from harken.config.home import command_prefix
from harken.config.name_resolver import ImportedName
from harken.terminal.text import escape_control_characters


def format_sources(imported: ImportedName, recording: Path) -> str:
    """Return the shown source of a session with two, and the command that shows the other."""
    file_command = command_prefix("view", imported.session.sources[0])
    text = f"Recorded as {recording.stem}; `{file_command}` shows the imported file."
    return escape_control_characters(text)
