"""Open the page in a browser, without its token in a command line that other users can read."""

from __future__ import annotations

import html
import secrets
import sys
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from harken.errors import ConfigError
from harken.world.private_file import replace_file

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Harken</title>
<p><a href="{link}">Open the sessions</a></p>
"""


@contextmanager
def open_in_browser(link: str, folder: Path) -> Iterator[None]:
    """Open a link through a file in `folder` that leads to it, which is removed after the block.

    Only the user can read the file. The browser gets its path as an argument, not the link. Raises
    ConfigError if it cannot be written.
    """
    path = folder / f"ui-redirect-{secrets.token_hex(8)}.html"
    try:
        try:
            replace_file(path, _PAGE.format(link=html.escape(link)).encode())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from None
        webbrowser.open(path.absolute().as_uri())
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether a browser can be shown: a text browser would take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
