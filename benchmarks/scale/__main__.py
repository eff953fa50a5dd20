"""`python -m benchmarks.scale FOLDER SESSIONS ...`: grow a home, and measure it at each size.

The home stays, so a later run can go on; remove the folder afterwards. One line of JSON for each
size is appended to `scale.jsonl` in the folder, and the table is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from benchmarks.scale.home import ScaledHome, measure, measure_whole

RESULTS = "scale.jsonl"


def main() -> None:
    """Measure at each of the sizes."""
    folder, *sizes = sys.argv[1:]
    home = ScaledHome(Path(folder))
    results = home.folder / RESULTS
    for sessions in map(int, sizes):
        home.grow(sessions)
        record = {
            "growth": home.growth,
            "bytes": home.bytes,
            "ms": measure(home),
            "s": measure_whole(home),
        }
        with results.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(record)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
