"""The glossary defines each term once, and names classes that exist."""

from __future__ import annotations

import re

from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ENTRIES = dict(re.findall(r"^\| ([^|`]+?) \| (.+) \|$", PAGE, re.MULTILINE))


def test_each_term_is_defined_once_and_in_order() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    tables = [re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)[1:] for section in sections]
    terms = [term for table in tables for term in table]
    assert len(terms) > 100
    assert sorted(set(terms)) == sorted(terms)
    for table in tables:
        assert table == sorted(table)


def test_the_classes_in_the_glossary_exist() -> None:
    names = {name for text in ENTRIES.values() for name in re.findall(r"`([A-Z]\w+)`", text)}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    defined = set(
        re.findall(r"^(?:class )?([A-Z]\w+)(?:: TypeAlias)?(?: =|[(:])", source, re.MULTILINE)
    )
    assert len(names) > 40
    assert names - defined == set()
