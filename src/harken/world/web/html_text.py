"""The text of a page: Markdown of HTML, other text as it is, as a model reads it."""

from __future__ import annotations

import codecs
import html
import re
from dataclasses import dataclass

from harken.core.untrusted import from_outside
from harken.world.files.root import size_text
from harken.world.result import ToolError
from harken.world.shell.output import readable
from harken.world.web.download import FetchedPage

_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(?:.*[+])?(?:json|xml|yaml|toml|javascript|x-ndjson|rss|atom)(?:[+]xml)?"
    r"|application/(?:x-)?(?:sh|javascript|yaml)|message/.*"
)
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{2,40})", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SETTINGS = {"MIN_EXTRACTED_SIZE": "50", "MIN_OUTPUT_SIZE": "1", "EXTRACTION_TIMEOUT": "0"}
"""Short pages are pages, too; and what waits for a signal cannot run in a thread."""
_TAG = re.compile(r"<[^<>]{0,2000}>")
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape"})
"""Codecs of Python that no page is written in; one takes a day for a long text."""


@dataclass(frozen=True, slots=True)
class Text:
    """What a page says."""

    title: str
    body: str


def text_of(page: FetchedPage, *, is_quick: bool = False) -> Text:
    """Return the text of a page, no line of which speaks as a hook. Takes a while: use a thread.

    is_quick: all of its text, without looking for what it is about. Raises ToolError where it is
    none.
    """
    kind = page.kind or _guessed(page.data)
    if kind == "application/pdf" or page.data.startswith(b"%PDF-"):
        raise ToolError(
            f"{page.place} is a PDF ({size_text(len(page.data))}), which is not read here"
        )
    if kind not in _HTML and not _TEXT.fullmatch(kind):
        raise ToolError(f"{page.place} is no text: {kind[:80]} ({size_text(len(page.data))})")
    text = _decoded(page.data, page.charset)
    if kind in _HTML:
        found = _TITLE.search(text)
        title = " ".join(html.unescape(found[1]).split()) if found else ""
        body = _without_tags(text) if is_quick else _markdown(text, str(page.place))
        return Text(_clean(title)[:300], _clean(body))
    return Text("", _clean(text))


def _clean(text: str) -> str:
    return from_outside(readable(text))


def _guessed(data: bytes) -> str:
    """Guess what a server did not say."""
    start = data[:1000].lstrip().lower()
    if b"\0" in start:
        return "application/octet-stream"
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _decoded(data: bytes, charset: str) -> str:
    """Decode as browsers do: a mark at the beginning, what the server says, what the page says."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    meta = _META.search(data[:4096])
    for name in (charset, meta[1].decode() if meta else ""):
        try:
            known = codecs.lookup(name).name if name else ""
            if known and known not in _NO_CHARSETS:
                latin = known in ("iso8859-1", "ascii")
                return data.decode("cp1252" if latin else known, "replace")
        except (LookupError, ValueError, UnicodeError, TypeError):
            continue  # a name of no charset, or of a codec that gives no text
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _markdown(text: str, url: str) -> str:
    """Return what a page is about, without what stands around it; all its text where that fails."""
    try:
        import trafilatura  # noqa: PLC0415 - an extra
        from trafilatura.settings import use_config  # noqa: PLC0415

        config = use_config()
        for name, value in _SETTINGS.items():
            config.set("DEFAULT", name, value)
        found = trafilatura.extract(
            text,
            url=url,
            output_format="markdown",
            include_comments=False,
            include_formatting=True,
            include_links=True,
            include_tables=True,
            favor_recall=True,
            config=config,
        )
        return found or trafilatura.html2txt(text) or _without_tags(text)
    except ImportError:
        raise ToolError("the extra `web` is not installed: pip install 'harken[web]'") from None
    except Exception:  # noqa: BLE001 - whatever a page does to a parser, its text is there
        return _without_tags(text)


def _without_tags(text: str) -> str:
    return html.unescape(_TAG.sub(" ", text))
