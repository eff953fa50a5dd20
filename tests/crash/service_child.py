"""Serve a store in child processes, one after the other, each until it is killed.

python -m tests.crash.service_child FOLDER

Starts a child for each input line. The child prints its process id and its address when it listens.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.server import serve
from harken.service.sockets import address_of, listen_at
from harken.store.sqlite.store import SqliteStore


def main(folder: Path) -> None:
    """Fork and wait in a loop."""
    for _ in sys.stdin:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        with listen_at("127.0.0.1", 0) as listener:
            app = make_app(SqliteStore(folder / "s.db"), AccessCheck(None))
            print(os.getpid(), address_of(listener), flush=True)
            serve(app, [listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
