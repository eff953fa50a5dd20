"""The session, import or commit that a view shows, and its sources."""

from __future__ import annotations

from pathlib import Path

import click

from harken.config.home import Home, command_prefix
from harken.config.imported_sessions import view_commit, view_imported
from harken.config.name_resolver import CommitName, ImportedName, NameResolver, SessionLog
from harken.config.store import build_commit_resolver
from harken.terminal.text import escape_control_characters
from harken.views.viewer import SessionViewer


def open_viewer(home: Home, session: str) -> SessionViewer:
    """Open a session or a commit for a view; print its warnings on standard error.

    Of a session that is recorded and imported, show the recording: it has the exact requests.
    """
    resolver = NameResolver(home)
    resolved = resolver.resolve(session)
    if isinstance(resolved, CommitName):
        return view_commit(home, resolved.id)
    if isinstance(resolved, ImportedName):
        recording = resolver.find_recording(resolved)
        if recording is None:
            return view_imported(home, resolved.session)
        click.echo(_format_sources(resolved, recording), err=True)
        resolved = SessionLog(recording)
    viewer = SessionViewer(resolved.path)
    viewer.resolver = build_commit_resolver(home)
    if viewer.events and viewer.reading.torn:
        click.echo("Its last line is incomplete and is skipped.", err=True)
    if not viewer.reading.sealed:
        dialect = viewer.reading.dialect or "without checksums"
        click.echo(f"An older log format ({dialect}) without checksums.", err=True)
    return viewer


def _format_sources(imported: ImportedName, recording: Path) -> str:
    """Return the shown source of a session with two, and the command that shows the other."""
    file_command = command_prefix("view", imported.session.sources[0])
    text = f"Recorded as {recording.stem}; `{file_command}` shows the imported file."
    return escape_control_characters(text)
