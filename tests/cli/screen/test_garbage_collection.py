"""Collections of garbage, which hold up all that is drawn."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from harken.chat.screen.screen import exclude_from_gc as lasting

with lasting():
    made = [[] for _ in range(100_000)]
    collects_meanwhile = gc.isenabled()
print(collects_meanwhile, gc.isenabled(), len(gc.get_objects()) < 1000)
loop = []
loop.append(loop)
del loop
print(gc.collect() > 0)
"""


def test_what_is_made_while_a_chat_begins_is_never_looked_at_again() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["False True True", "True"]
