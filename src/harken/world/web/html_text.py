"""The text of a page for a model: HTML as Markdown, other text unchanged."""

from __future__ import annotations

import codecs
import html
import re

import msgspec

from harken.core.untrusted import escape_hook_markers
from harken.world.files.root import size_text
from harken.world.result import ToolError
from harken.world.shell.output import readable
from harken.world.web.download import FetchedPage

_HTML_KINDS = ("text/html", "application/xhtml+xml")
_TEXT_KIND_PATTERN = re.compile(
    r"text/.*|application/(?:.*[+])?(?:json|xml|yaml|toml|javascript|x-ndjson|rss|atom)(?:[+]xml)?"
    r"|application/(?:x-)?(?:sh|javascript|yaml)|message/.*"
)
_META_PATTERN = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{2,40})", re.IGNORECASE)
_TITLE_PATTERN = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_BOM_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TRAFILATURA_SETTINGS = {
    "MIN_EXTRACTED_SIZE": "50",
    "MIN_OUTPUT_SIZE": "1",
    "EXTRACTION_TIMEOUT": "0",
}
"""Short pages are valid; and a timeout by signal does not work in a thread."""
_TAG_PATTERN = re.compile(r"<[^<>]{0,2000}>")
_EXCLUDED_CODECS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape"})
"""Python codecs that no page uses; one of them takes a day for a long text."""


class Text(msgspec.Struct, frozen=True):
    """The title and text of a page."""

    title: str
    body: str


def text_of(page: FetchedPage, *, is_quick: bool = False) -> Text:
    """Return the text of a page, with hook markers escaped. Slow: call it in a thread.

    is_quick: skip the extraction of the main text. Raises ToolError if the page is not text.
    """
    kind = page.kind or _guess_kind(page.data)
    if kind == "application/pdf" or page.data.startswith(b"%PDF-"):
        raise ToolError(
            f"{page.place} is a PDF ({size_text(len(page.data))}), which is not supported"
        )
    if kind not in _HTML_KINDS and not _TEXT_KIND_PATTERN.fullmatch(kind):
        raise ToolError(f"{page.place} is not text: {kind[:80]} ({size_text(len(page.data))})")
    text = _decode(page.data, page.charset)
    if kind in _HTML_KINDS:
        title_match = _TITLE_PATTERN.search(text)
        title = " ".join(html.unescape(title_match[1]).split()) if title_match else ""
        body = _remove_tags(text) if is_quick else _extract_markdown(text, str(page.place))
        return Text(_clean(title)[:300], _clean(body))
    return Text("", _clean(text))


def _clean(text: str) -> str:
    return escape_hook_markers(readable(text))


def _guess_kind(data: bytes) -> str:
    """Guess the media type if the server sent none."""
    start = data[:1000].lstrip().lower()
    if b"\0" in start:
        return "application/octet-stream"
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _decode(data: bytes, charset: str) -> str:
    """Decode as browsers do: by BOM, by the charset of the server, by that of the page."""
    for bom, name in _BOM_ENCODINGS:
        if data.startswith(bom):
            return data[len(bom) :].decode(name, "replace")
    meta = _META_PATTERN.search(data[:4096])
    for name in (charset, meta[1].decode() if meta else ""):
        try:
            codec_name = codecs.lookup(name).name if name else ""
            if codec_name and codec_name not in _EXCLUDED_CODECS:
                is_latin = codec_name in ("iso8859-1", "ascii")
                return data.decode("cp1252" if is_latin else codec_name, "replace")
        except (LookupError, ValueError, UnicodeError, TypeError):
            continue  # The name is unknown, or its codec does not decode to text.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _extract_markdown(text: str, url: str) -> str:
    """Return the main text of a page as Markdown; the full text if extraction fails."""
    try:
        import trafilatura  # noqa: PLC0415 - an extra
        from trafilatura.settings import use_config  # noqa: PLC0415

        config = use_config()
        for name, value in _TRAFILATURA_SETTINGS.items():
            config.set("DEFAULT", name, value)
        markdown = trafilatura.extract(
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
        return markdown or trafilatura.html2txt(text) or _remove_tags(text)
    except ImportError:
        raise ToolError("the extra `web` is not installed: pip install 'harken[web]'") from None
    except Exception:  # noqa: BLE001 - if any parser error occurs, the text is still available
        return _remove_tags(text)


def _remove_tags(text: str) -> str:
    return html.unescape(_TAG_PATTERN.sub(" ", text))
