"""Serve or push in child processes, one after the other, each until it is killed.

python -m tests.crash.ship_child serve FOLDER SOCKET
python -m tests.crash.ship_child ship FOLDER SOCKET
python -m tests.crash.ship_child push-all|pull FOLDER SOCKET

Starts a child for each input line. The child prints its process id. Others exit when done.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

from harken.context.shipping.outbox import open_outbox
from harken.context.shipping.shipper import Shipper
from harken.core.secrets.redaction import Credentials
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.server import serve
from harken.service.sockets import listen_in
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from tests.remote_kit import Machine


def serve_in(folder: Path, socket: Path) -> None:
    """Serve the store and the logs of a home."""
    with listen_in(socket) as listener:
        sessions = folder / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        app = make_app(SqliteStore(folder / "store.db"), AccessCheck(None), sessions=sessions)
        print(os.getpid(), flush=True)
        serve(app, [listener])


def ship_from(folder: Path, socket: Path) -> None:
    """Push all logs of a home."""
    print(os.getpid(), flush=True)
    with (
        closing(SqliteStore(folder / "store.db")) as store,
        closing(RemoteStore(socket=socket, patience_s=0)) as far,
        open_outbox(folder / "outbox", f"unix:{socket}") as outbox,
    ):
        shipper = Shipper(store, far, outbox, Credentials())
        for log in sorted((folder / "sessions").glob("*.jsonl")):
            shipper.ship(log)


def transfer(role: str, folder: Path, socket: Path) -> None:
    """Push or pull everything that a home has."""
    machine = Machine(folder, patience_s=0)
    print(os.getpid(), flush=True)
    act = machine.pull if role == "pull" else machine.push
    act(f"unix:{socket}")
    machine.close()


def main(role: str, folder: Path, socket: Path) -> None:
    """Fork and wait in a loop."""
    for _ in sys.stdin:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print("ended", flush=True)
            continue
        try:
            if role in ("pull", "push-all"):
                transfer(role, folder, socket)
            else:
                (serve_in if role == "serve" else ship_from)(folder, socket)
        finally:
            os._exit(0)  # the parent checks the remaining data for errors


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
