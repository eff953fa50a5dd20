"""The type of command-line parameters for folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class Folder(click.Path):
    """A folder that may be missing. A device or pipe of its name is refused, as a file is."""

    def __init__(self) -> None:
        """Create the type; its values are paths."""
        super().__init__(file_okay=False, path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.exists() and not path.is_dir():
            self.fail(f"{str(path)!r} is not a folder", param, ctx)
        return path
