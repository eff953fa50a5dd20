"""The page about tables names every column, its type and its meaning, and no other."""

from __future__ import annotations

import re

from harken.analytics.tables.table_schema import SCHEMA_VERSION, TABLES, TEXT
from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "formats" / "tables.md").read_text("utf-8")


def test_page_matches_the_schema() -> None:
    sections = re.split(r"^## (\w+)\.parquet$", PAGE, flags=re.MULTILINE)[1:]
    documented = {
        name: re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", rows, re.MULTILINE)
        for name, rows in zip(sections[::2], sections[1::2], strict=True)
    }
    assert list(documented) == [table.name for table in TABLES]
    for table in TABLES:
        columns = [(column.name, column.kind, column.description) for column in table.columns]
        if table.name == "messages":
            columns.append((TEXT.name, TEXT.kind, f"{TEXT.description} (with `--text` only)"))
        assert documented[table.name] == columns
        assert table.description in PAGE
    assert f"this is version {SCHEMA_VERSION}." in PAGE
