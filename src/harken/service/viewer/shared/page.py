"""The HTML of the page in one file. It needs no server, and a policy forbids it the network.

The file has the built page as one script and one style sheet, whose hashes are all that the policy
allows, and the contents as a block of data: JSON, gzip, base64. Nothing of a session is in the file
as HTML but its title, escaped.

Source: Content Security Policy Level 3; HTML, "data block".
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from harken.core import canonical
from harken.errors import HarkenError

CONTENT_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_FILES = ("share.js", "share.css", "licenses.txt")
_LEVEL = 9
_ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)
_ENDS_STYLE = re.compile(r"</style", re.IGNORECASE)
_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<meta name="generator" content="Harken {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This is a shared session of Harken. It needs JavaScript, and no network.</noscript>
<script type="text/plain" id="contents">{data}</script>
<script>{script}</script>
</body>
</html>
"""


class PageFiles(msgspec.Struct, frozen=True):
    """The built page, and the licenses of the libraries in it."""

    script: str
    style: str
    licenses: str


def read_page_files() -> PageFiles:
    """Return the files that `make web` built. Raises HarkenError if they are missing."""
    folder = files("harken") / "web"
    try:
        texts = [(folder / name).read_text("utf-8") for name in _FILES]
    except FileNotFoundError:
        raise HarkenError(
            "the page is not built: run `make web` in the checkout of Harken"
        ) from None
    script, style, licenses = texts
    if _ENDS_SCRIPT.search(script) or _ENDS_STYLE.search(style):
        raise HarkenError("the built page cannot be in an HTML file: it contains `</script`")
    return PageFiles(script, style, licenses)


def render_page(page: PageFiles, title: str, version: str, packed: dict[str, Any]) -> bytes:
    """Return the file."""
    contents = {"session": packed, "licenses": page.licenses}
    data = gzip.compress(canonical.to_json_line(contents), _LEVEL, mtime=0)
    policy = CONTENT_POLICY.format(script=_hash(page.script), style=_hash(page.style))
    html = _TEMPLATE.format(
        policy=policy,
        version=escape(version),
        title=escape(title),
        style=page.style,
        data=base64.b64encode(data).decode(),
        script=page.script,
    )
    return html.encode("utf-8", "replace")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
