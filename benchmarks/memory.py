"""Peak memory: of a process of its own, above one that imports the same and does nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def peak_mb() -> float:
    """Return the most memory that this process has had, in MB.

    Not `ru_maxrss`: over fork and exec that begins with what the parent has.
    """
    return _status_kb("VmHWM") / 1024


def now_kb() -> float:
    """Return the memory that this process has now, in kB."""
    return _status_kb("VmRSS")


def _status_kb(name: str) -> int:
    """Return a figure about this process. Source: proc_pid_status(5)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))


def peak_of_mb(module: str, *arguments: str) -> float:
    """Run `child(*arguments)` of a module in a new process; return its peak memory in MB."""
    code = (
        f"import sys; from {module} import child; from benchmarks.memory import peak_mb; "
        "child(*sys.argv[1:]); print(peak_mb())"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)
