"""The options `--permission` and `--allow` of commands that run agents."""

from __future__ import annotations

from pathlib import Path

import click

from harken.chat.commands.base import MODES

permission_option = click.option(
    "--permission",
    type=click.Choice(MODES),
    help="The actions allowed without approval (default: as configured, else ask).",
)
allow_option = click.option(
    "--allow",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another folder that agents may use. Repeatable.",
)
