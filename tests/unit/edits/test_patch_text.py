"""Patches and unified diffs that a hostile recording contains."""

from __future__ import annotations

import json

from harken.edits.tools import find_edits


def test_a_patch_with_endless_line_numbers_is_no_edit() -> None:
    number = "9" * 5000
    patch = f"--- a/tea.py\n+++ b/tea.py\n@@ -1,{number} +{number} @@\n-black\n+green\n"
    arguments = json.dumps({"patch": patch})
    assert [edit.changes for edit in find_edits("patch", arguments)] == [()]
