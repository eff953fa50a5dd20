"""The page about tables names every column, its type and its meaning, and no other."""

from __future__ import annotations

import re

from harken.analytics.table_schema import SCHEMA_VERSION, TABLES, TEXT
from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "formats" / "tables.md").read_text("utf-8")


def test_the_page_says_what_the_schema_says() -> None:
    sections = re.split(r"^## (\w+)\.parquet$", PAGE, flags=re.MULTILINE)[1:]
    told = {
        name: re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", rows, re.MULTILINE)
        for name, rows in zip(sections[::2], sections[1::2], strict=True)
    }
    assert list(told) == [table.name for table in TABLES]
    for table in TABLES:
        columns = [(one.name, one.kind, one.description) for one in table.columns]
        if table.name == "messages":
            columns.append((TEXT.name, TEXT.kind, f"{TEXT.description} (with `--text` only)"))
        assert told[table.name] == columns
        assert table.description in PAGE
    assert f"this is version {SCHEMA_VERSION}." in PAGE
