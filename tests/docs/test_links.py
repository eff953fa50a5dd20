"""Each page of the documentation is in the navigation, and all links between pages resolve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_LINK_PATTERN = re.compile(r"\]\(([^)\s]+)\)")
_FENCE_PATTERN = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Return the relative links of a page, outside of code."""
    text = _FENCE_PATTERN.sub("", page.read_text("utf-8"))
    return [link for link in _LINK_PATTERN.findall(text) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    text = _FENCE_PATTERN.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_links_of_a_page_resolve(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_each_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    names = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    assert sorted(names) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_each_page_is_linked_from_another_page() -> None:
    targets = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in [*PAGES, ROOT / "README.md"]
        for link in links(page)
        if link.partition("#")[0]
    }
    assert [str(page.relative_to(DOCS)) for page in PAGES if page not in targets] == ["index.md"]


def test_the_tests_that_pages_name_exist() -> None:
    named = {
        name
        for page in [*PAGES, *ROOT.glob("*.md")]
        for name in re.findall(r"`(test_[a-z0-9_]+)`", page.read_text("utf-8"))
    }
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert named
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", sources)] == []
