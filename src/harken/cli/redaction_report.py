"""The report of the credentials that a command did not store."""

from __future__ import annotations

import click

from harken.core.secrets.redaction import Credentials


def print_redacted(credentials: Credentials | None) -> None:
    """Print the credentials that were removed before anything was stored to stderr."""
    if credentials is not None and credentials.notice:
        click.echo(credentials.notice, err=True)
