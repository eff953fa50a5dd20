"""`python -m benchmarks.scale KIND FOLDER SIZES ...`: grow a home, and measure it at each size.

KIND is `sqlite`, `sqlite-short` (sessions of one question and answer) or `postgresql` (with S3).
The home stays, so a later run with a file goes on; remove the folder afterwards. A line of JSON
for each size is appended to `results.jsonl` here. `python -m benchmarks.scale plot` draws the
results, and prints their table.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec

from benchmarks.scale.home import ScaledHome
from benchmarks.scale.operations import measure
from benchmarks.scale.results import RESULTS
from benchmarks.scale.servers import run_servers


def main() -> None:
    """Measure at each of the sizes, or draw what was measured."""
    kind, *rest = sys.argv[1:]
    if kind == "plot":
        from benchmarks.scale.plots import draw_all

        draw_all()
        return
    folder, sizes = Path(rest[0]), [*map(int, rest[1:])]
    name, _, shape = kind.partition("-")
    with run_servers() if name == "postgresql" else nullcontext() as servers:
        url, processes = (servers.url, servers.processes) if servers else (None, ())
        home = ScaledHome(folder, shape=shape or "full", url=url)
        for sessions in sizes:
            home.grow(sessions)
            measurement = measure(home, name, processes)
            with RESULTS.open("ab") as file:
                file.write(msgspec.json.encode(measurement) + b"\n")
            text = msgspec.json.format(msgspec.json.encode(measurement)).decode()
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
