"""Other processes find a cached conversion in a store file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harken.context.render import render
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import commit

SCRIPT = """
import sys
from harken.context.render import render
from harken.store.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
rendered = render(store, sys.argv[2], "events-v1")
print(rendered.ref, rendered.tier, rendered.format, rendered.message_count, rendered.token_count)
print(rendered.read() == store.raw(rendered.ref), "harken.formats.events_v1" in sys.modules)
"""


@pytest.mark.req("S2-17", "S2-61")
def test_other_process_uses_the_cached_conversion(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    tip = commit(store, commit(store, None, "a", "b"), "c")
    first = render(store, tip, "events-v1")
    store.close()
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, path, tip], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [f"{first.ref} 1 events-v1 3 2", "True False"], ran.stderr
