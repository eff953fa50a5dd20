"""Everything but a remote model works without network, account or server.

Each command runs in a process that cannot look up or reach a host: Python reports such a call to an
audit hook before it is made, and the hook ends the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        address = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(address, tuple) or event.startswith("socket.get"):
            if host not in ("127.0.0.1", "::1", "localhost"):
                os.write(2, f"network: {event} {host!r}\\n".encode())
                os._exit(99)

sys.addaudithook(refuse)
from harken.cli.main import main
sys.argv[0] = "harken"
sys.exit(main())
"""


def run_offline(folder: Path, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
    """Run `harken` without network, and without accounts in the environment."""
    account = ("KEY", "TOKEN", "SECRET", "PROXY")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in account)
    }
    environment |= {"HARKEN_HOME": str(folder / "home"), "HOME": str(folder), "NO_COLOR": "1"}
    environment |= {"HARKEN_STORE_TOKEN": token} if token else {}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


@pytest.mark.req("D-08")
def test_every_command_but_a_remote_model_works_without_network(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("rules:\n  - pattern: Hi\n    answer: Hello Jill.\n")
    commands = [
        "demo",
        "chat --model scripted:script.yaml -p Hi",
        "sessions",
        "view latest tree",
        "view latest timeline",
        "search Jill",
        "stats",
        "store info",
        "ctx log",
        "store gc",
        "store fsck",
        "store bundle create -o b.harken latest",
        "store bundle open b.harken",
        "export latest --format events-v1",
        "replay latest",
        "fork latest",
        "sessions check latest",
        "sessions compress latest",
    ]
    for command in commands:
        result = run_offline(tmp_path, *command.split())
        assert result.returncode == 0, (command, result.stdout[-300:], result.stderr[-600:])


def test_a_command_that_reaches_for_the_network_is_noticed(tmp_path: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    result = run_offline(tmp_path, "push", "--all", "https://harken.example.com", token="t" * 40)
    assert result.returncode == 99, result.stderr
    assert "network: socket.getaddrinfo" in result.stderr
