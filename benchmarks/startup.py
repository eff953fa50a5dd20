"""Starting: `import harken` and `harken --help`, as whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Row, spread

RUNS = 11


def seconds(command: list[str]) -> float:
    """Return the seconds on the wall of one run of a command."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


def rows() -> list[Row]:
    """Measure both beside a bare Python, in turn."""
    harken = str(Path(sys.executable).with_name("harken"))
    everything = "import harken; [getattr(harken, name) for name in harken.__all__]"
    commands = [
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "import harken"],
        [sys.executable, "-c", everything],
        [harken, "--help"],
    ]
    for command in commands:
        seconds(command)  # the first run may write bytecode
    runs = [[seconds(command) for command in commands] for _ in range(RUNS)]
    bare, imported, used, helped = [list(values) for values in zip(*runs, strict=True)]
    return [
        Row("bare Python: ms, whole process", spread(bare, 1e3, 0)),
        Row("`import harken`: ms, whole process", spread(imported, 1e3, 0), "< 100"),
        Row("the same, every public name used", spread(used, 1e3, 0), "< 100"),
        Row("`harken --help`: ms, whole process", spread(helped, 1e3, 0), "< 250"),
    ]
